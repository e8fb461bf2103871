import type { Tracing } from '@passover/core'
import { HEADER, soundTraceparent } from '@passover/schemas'
import type { Deps } from '../runtime/dependencies.js'
import type { PublishReturnResult } from './publish-return.js'
import type { Run } from './run.js'

/** Where the pass stands in its trace: that of its request, as its work step says. All steps and spans of a pass name it. */
export function passTrace({ delivery, span }: Run): string | undefined {
  return soundTraceparent(delivery.headers.get(HEADER.traceparent)) ?? span?.traceparent
}

/** What happens within a run continues: its own span, or where nobody records it that of its pass. */
export function runTrace(run: Run): string | undefined {
  return run.span?.traceparent ?? passTrace(run)
}

/** Two spans: how long the work lay (by the server's times), and the attempt, its return included. */
export async function inWorkSpan<T>(
  tracing: Tracing,
  { clock }: Pick<Deps, 'clock'>,
  { run, work }: { run: Run; work: () => Promise<T> },
): Promise<T> {
  const { key, control, attempt, began_at: at } = run
  const parent = passTrace(run)
  const facts = { attempt, priority: control.priority, session_id: control.session_id, chain_depth: control.chain_depth }
  tracing.begin({ name: 'queue_wait', key, at: Math.min(run.delivery.time, at), parent, facts: { attempt } })?.end(at)
  run.span = tracing.begin({ name: 'work', key, at, parent, facts })
  try {
    return await work()
  } finally {
    if (run.stop !== undefined) run.span?.note({ stopped: run.stop })
    run.span?.end(clock.now(), failedWith(run) ?? run.stop)
  }
}

function failedWith({ result: answered }: Run): string | undefined {
  return answered && 'error' in answered ? answered.error.code : undefined
}

/** From the answer to the server's word on it. */
export async function inReturnSpan(
  { tracing, clock }: Pick<Deps, 'tracing' | 'clock'>,
  run: Run,
  give: () => Promise<PublishReturnResult>,
): Promise<PublishReturnResult> {
  const span = tracing?.begin({ name: 'return', key: run.key, at: clock.now(), parent: runTrace(run), facts: { attempt: run.attempt } })
  const given = await give()
  span?.end(clock.now(), given === 'returned' ? undefined : given)
  return given
}
