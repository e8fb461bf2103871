import type { Violation } from './checks/violation.js'
import type { PassPlan, Plan } from './plans/plan.js'
import { Simulation } from './simulation.js'

export interface Shrunk {
  plan: Plan
  violation: Violation
  tries: number
}

interface ShrinkOptions {
  run?: (plan: Plan) => Promise<{ violations: Violation[] }>
  /** Tries at most. */
  most?: number
}

function really(plan: Plan): Promise<{ violations: Violation[] }> {
  return new Simulation(plan).run()
}

/** Takes out of a failing plan whatever the violation does not need: faults, passes, children, replicas, skews, decisions. */
export async function shrink(plan: Plan, violation: Violation, { run = really, most = 400 }: ShrinkOptions = {}): Promise<Shrunk> {
  let best: Shrunk = { plan, violation, tries: 0 }
  for (let progress = true; progress; ) {
    progress = false
    for (const smaller of smallerOnes(best.plan)) {
      if (best.tries >= most) return best
      best.tries += 1
      const { violations } = await run(smaller)
      const same = violations.find(({ kind }) => kind === violation.kind)
      if (!same) continue
      best = { ...best, plan: smaller, violation: same }
      progress = true
      break
    }
  }
  return best
}

function* smallerOnes(plan: Plan): Iterable<Plan> {
  for (const at of plan.faults.keys()) yield { ...plan, faults: without(plan.faults, at) }
  for (const at of plan.passes.keys()) yield { ...plan, passes: without(plan.passes, at) }
  if (plan.evil.length > 0) yield { ...plan, evil: plan.evil.slice(1) }
  if (plan.policies?.length) yield { ...plan, policies: plan.policies.slice(1) }
  if (plan.dispatchers > 1) yield { ...plan, dispatchers: plan.dispatchers - 1 }
  if (plan.workers > 1) yield { ...plan, workers: plan.workers - 1 }
  if (plan.clustered) yield { ...plan, clustered: false }
  if (plan.segment !== undefined) yield { ...plan, segment: undefined }
  if (plan.deletes) yield { ...plan, deletes: false }
  if (Object.values(plan.skew).some((skew) => skew !== 0)) yield { ...plan, skew: {} }
  for (const [at, pass] of plan.passes.entries())
    for (const smaller of smallerPasses(pass)) yield { ...plan, passes: plan.passes.map((one, n) => (n === at ? smaller : one)) }
}

function* smallerPasses(pass: PassPlan): Iterable<PassPlan> {
  for (const at of pass.children.keys()) yield { ...pass, children: without(pass.children, at) }
  for (const at of pass.again.keys()) yield { ...pass, again: without(pass.again, at) }
  for (const field of ['hold', 'release', 'cancel', 'budget', 'spoilt'] as const) {
    const { [field]: present, ...rest } = pass
    if (present !== undefined) yield rest as PassPlan
  }
  if (pass.ms > 0) yield { ...pass, ms: 0 }
  if (pass.does !== 'returns') yield { ...pass, does: 'returns' }
  for (const [at, child] of pass.children.entries())
    for (const smaller of smallerPasses(child)) yield { ...pass, children: pass.children.map((one, n) => (n === at ? smaller : one)) }
}

function without<T>(list: readonly T[], at: number): T[] {
  return list.filter((_, n) => n !== at)
}
