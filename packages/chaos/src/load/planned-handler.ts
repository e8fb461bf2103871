import type { Pass } from '@passover/sdk'
import type { LoadPlan } from './load-plan.js'

/** Handler of the load tests. Follows the plan in the objective of its pass. */
export async function plannedHandler(pass: Pass): Promise<string> {
  const plan = JSON.parse(pass.objective) as LoadPlan
  await spendTime(plan.ms, plan.deaf ? undefined : pass.signal)
  if (plan.throws) throw new Error('as planned')
  if (plan.child) {
    const { to, waits, plan: below } = plan.child
    const child = pass.passOver({ subagent: to, reason: 'a part of it', work_context: { objective: JSON.stringify(below) } })
    // The outcome of a child is checked in the stream. Here the parent only waits for it.
    if (waits) await child.catch(() => undefined)
    else await child.stored.catch(() => undefined)
  }
  return `done in attempt ${pass.attempt}`
}

function spendTime(ms: number, signal: AbortSignal | undefined): Promise<void> {
  if (ms === 0) return Promise.resolve()
  return new Promise((resolve, reject) => {
    const over = () => reject(signal?.reason)
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', over)
      resolve()
    }, ms)
    if (signal?.aborted) over()
    signal?.addEventListener('abort', () => {
      clearTimeout(timer)
      over()
    })
  })
}
