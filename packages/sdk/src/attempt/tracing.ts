import type { Tracing } from '@passover/core'
import { HEADER, soundTraceparent } from '@passover/schemas'
import type { Deps } from '../runtime/dependencies.js'
import type { PublishReturnResult } from './publish-return.js'
import type { Run } from './run.js'

/** Returns the traceparent of the pass: that of its request, which its work step carries. All steps and spans of a pass use it as parent. */
export function passTrace({ delivery, span }: Run): string | undefined {
  return soundTraceparent(delivery.headers.get(HEADER.traceparent)) ?? span?.traceparent
}

/** Returns the traceparent that operations within a run continue: that of the run's span, or of the pass if no span is recorded. */
export function runTrace(run: Run): string | undefined {
  return run.span?.traceparent ?? passTrace(run)
}

/** Records two spans: the time that the work waited in the queue (by the server's times), and the attempt including its return. */
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

function failedWith({ result }: Run): string | undefined {
  return result && 'error' in result ? result.error.code : undefined
}

/** Records a span from the start of publishing the return until its outcome is known. */
export async function inReturnSpan(
  { tracing, clock }: Pick<Deps, 'tracing' | 'clock'>,
  run: Run,
  publish: () => Promise<PublishReturnResult>,
): Promise<PublishReturnResult> {
  const span = tracing?.begin({ name: 'return', key: run.key, at: clock.now(), parent: runTrace(run), facts: { attempt: run.attempt } })
  const published = await publish()
  span?.end(clock.now(), published === 'returned' ? undefined : published)
  return published
}
