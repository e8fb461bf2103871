import { encode } from '@passover/bus'
import { withTimeout } from '@passover/core'
import { WIRE_VERSION } from '@passover/schemas'
import { eventHeaders } from '../messages/publish.js'
import type { ReturnContext } from './publish-return.js'
import type { Run } from './run.js'
import { passTrace } from './tracing.js'

/** Milliseconds after which a run without progress reports publishes its start. For shorter runs only the return carries the start time. */
const STARTED_AFTER_MS = 1_000
const PROGRESS_EVERY_MS = 500
/** Milliseconds for which a return waits until earlier events are stored. */
const FLUSH_TIMEOUT_MS = 1_000

/** Publishes that a longer run has started, and its progress. Called by the worker's sweep. The protocol does not depend on these events. */
export function publishProgress(context: ReturnContext, run: Run, now: number): void {
  if (run.stop !== undefined || run.returning) return
  if (now - run.began_at >= STARTED_AFTER_MS) publishStarted(context, run)
  if (run.progress && now - run.progress_at >= PROGRESS_EVERY_MS) publishLatest(context, run, now)
}

/** Returns true if a progress report must still be stored before the return. */
export function hasUnpublishedProgress(run: Run): boolean {
  return run.progress !== undefined || run.publishing !== undefined
}

/** Publishes the latest progress and waits up to `FLUSH_TIMEOUT_MS` until all events are stored, so that they precede the return. */
export async function flushProgress(context: ReturnContext, run: Run): Promise<void> {
  const { clock } = context.deps
  publishLatest(context, run, clock.now())
  if (run.publishing) await withTimeout(clock, FLUSH_TIMEOUT_MS, run.publishing)
}

/** Publishes the latest progress, and the start of the run before it. */
function publishLatest(context: ReturnContext, run: Run, now: number): void {
  const { progress } = run
  if (!progress) return
  publishStarted(context, run)
  run.progress = undefined
  run.progress_at = now
  publishEvent(context, run, 'progress', { attempt: run.attempt, ...progress })
}

function publishStarted(context: ReturnContext, run: Run): void {
  if (run.startPublished) return
  run.startPublished = true
  publishEvent(context, run, 'started', { attempt: run.attempt, started_at: run.began_at })
}

function publishEvent(context: ReturnContext, run: Run, kind: 'started' | 'progress', body: Record<string, unknown>): void {
  const { bus } = context.deps
  const data = encode({ v: WIRE_VERSION, ...body })
  const subject = bus.subjects.event(run.key, kind, context.agent)
  const stored = bus.publish({ subject, headers: eventHeaders(passTrace(run)), data }).catch(() => undefined)
  const publishing = Promise.all([run.publishing, stored]).then(() => {
    if (run.publishing === publishing) run.publishing = undefined
  })
  run.publishing = publishing
}
