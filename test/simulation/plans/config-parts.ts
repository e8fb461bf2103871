import type { Dice } from './dice.js'
import type { FaultPlan, PassPlan, Plan } from './plan.js'

export type Change = (plan: Plan, dice: Dice) => Partial<Plan>

/** Of a pass nothing but that it runs for a while and returns. */
export function plain(pass: PassPlan, dice: Dice): PassPlan {
  const { name, at, from, to } = pass
  const ms = Math.round(dice.between(200, 2_500))
  return { name, at, from, to, timeout_ms: 6_000, given: false, does: 'returns', ms, children: [], again: [] }
}

/** So many passes, as those of the plan are. */
export function many(passes: PassPlan[], count: number): PassPlan[] {
  return Array.from({ length: count }, (_, n) => ({ ...(passes[n % passes.length] as PassPlan), name: `p${n}` }))
}

export function workerOf(pass: PassPlan, dice: Dice): string {
  return `${pass.to}-${dice.whole(0, 1)}`
}

/** For each pass some trouble while it is under way. */
export function troubles(passes: PassPlan[], make: (pass: PassPlan) => FaultPlan[]): FaultPlan[] {
  return passes.flatMap(make).sort((a, b) => a.at - b.at)
}

export function stopWorkers(passes: PassPlan[], dice: Dice): FaultPlan[] {
  return troubles(passes, (pass) => [
    { kind: 'stop', at: Math.max(50, pass.at - dice.between(0, 40)), who: workerOf(pass, dice), ms: dice.between(2_200, 4_000) },
    { kind: 'stop', at: pass.at + dice.between(20, 1_500), who: workerOf(pass, dice), ms: dice.between(1_100, 3_000) },
  ])
}

export const held = (passes: PassPlan[], dice: Dice): PassPlan[] =>
  passes.map((pass) => ({
    ...plain(pass, dice),
    hold: {
      after: dice.between(1, 2_000),
      verdict: dice.pick(['approve', 'deny', 'nobody'] as const),
      digest: dice.pick(['right', 'wrong'] as const),
    },
  }))

export const below = (pass: PassPlan, dice: Dice): PassPlan[] => {
  const to = pass.to === 'audit' ? 'scout' : 'audit'
  const child = { ...plain(pass, dice), name: `${pass.name}.0`, at: 0, from: pass.to, to, ms: 4_000 }
  return [child, { ...child, name: `${pass.name}.1`, ms: 300 }]
}
