import type { Handler, Pass } from '@passover/sdk'
import { optionsOf, type PassPlan } from '../plans/plan.js'
import type { Simulation } from '../simulation.js'
import type { Process } from '../world.js'

/** What a subagent does with a pass: what its plan says. */
export function performer(simulation: Simulation, process: Process): Handler {
  return async (pass) => {
    const plan = simulation.planOf(pass.objective)
    simulation.checks.began(pass.key, pass.attempt)
    if (!plan) return 'unplanned'
    const below = Promise.all(plan.children.map((child) => askChild(simulation, process, { pass, child })))
    // No two runs take equally long.
    await sleep(process, plan.ms * process.dice.between(0.3, 1), plan.does === 'stubborn' ? undefined : pass.signal)
    await deed(process, plan)
    if (plan.does !== 'stubborn') await Promise.race([below, aborted(pass.signal)])
    const output = `${plan.name} by attempt ${pass.attempt}`
    return plan.does === 'half' ? { status: 'partial', output } : output
  }
}

async function deed(process: Process, plan: PassPlan): Promise<void> {
  if (plan.does === 'throws') throw asPlanned()
  if (plan.does === 'hangs') await new Promise(() => undefined)
  if (plan.does === 'kills') {
    process.die()
    await new Promise(() => undefined)
  }
}

/** An error's stack is told in its pass's return: it must not name this machine's folders, nor how the clock is driven. */
function asPlanned(): Error {
  const error = new Error('as planned')
  error.stack = 'Error: as planned'
  return error
}

async function askChild(simulation: Simulation, process: Process, { pass, child }: { pass: Pass; child: PassPlan }): Promise<void> {
  await sleep(process, child.at, pass.signal)
  if (pass.signal.aborted) return
  const handle = pass.passOver(optionsOf(child))
  simulation.checks.isAsked(child.name, `${pass.subagent}/${child.to}/${handle.id}`)
  simulation.cancelLater(child, handle)
  await simulation.hear(child, { name: pass.subagent, handle, same: undefined })
}

function sleep(process: Process, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (ms <= 0 || signal?.aborted) return resolve()
    process.after(ms, resolve)
    signal?.addEventListener('abort', () => resolve(), { once: true })
  })
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    signal.addEventListener('abort', () => resolve(), { once: true })
  })
}
