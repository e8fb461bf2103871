import { encode } from '@passover/bus'
import { within } from '@passover/core'
import { WIRE_VERSION } from '@passover/schemas'
import { eventHeaders } from '../messages/publish.js'
import type { Giver } from './publish-return.js'
import type { Run } from './run.js'
import { passTrace } from './tracing.js'

/** Shorter runs that report nothing tell nothing: their start rides in the return. */
const STARTED_AFTER_MS = 1_000
const PROGRESS_EVERY_MS = 500
/** How long a return waits for what was told before it to be stored. */
const FLUSH_MS = 1_000

/** Publishes, from the worker's sweep, that a longer run has started and how far it is. Nobody depends on it. */
export function tellProgress(giver: Giver, run: Run, now: number): void {
  if (run.stop !== undefined || run.answer) return
  if (now - run.began_at >= STARTED_AFTER_MS) tellStarted(giver, run)
  if (run.progress && now - run.progress_at >= PROGRESS_EVERY_MS) tellLatest(giver, run, now)
}

/** Whether something that was reported is still to be stored before the return. */
export function hasUntold(run: Run): boolean {
  return run.progress !== undefined || run.telling !== undefined
}

/** Publishes what was reported last, and waits a little for all of it, so that it stands before the return. */
export async function flushProgress(giver: Giver, run: Run): Promise<void> {
  const { clock } = giver.deps
  tellLatest(giver, run, clock.now())
  if (run.telling) await within(clock, FLUSH_MS, run.telling)
}

/** A run that reports has begun: that is told first. */
function tellLatest(giver: Giver, run: Run, now: number): void {
  const { progress } = run
  if (!progress) return
  tellStarted(giver, run)
  run.progress = undefined
  run.progress_at = now
  tell(giver, run, 'progress', { attempt: run.attempt, ...progress })
}

function tellStarted(giver: Giver, run: Run): void {
  if (run.told_started) return
  run.told_started = true
  tell(giver, run, 'started', { attempt: run.attempt, started_at: run.began_at })
}

function tell(giver: Giver, run: Run, kind: 'started' | 'progress', body: Record<string, unknown>): void {
  const { bus } = giver.deps
  const data = encode({ v: WIRE_VERSION, ...body })
  const subject = bus.subjects.event(run.key, kind, giver.agent)
  const stored = bus.publish({ subject, headers: eventHeaders(passTrace(run)), data }).catch(() => undefined)
  const telling = Promise.all([run.telling, stored]).then(() => {
    if (run.telling === telling) run.telling = undefined
  })
  run.telling = telling
}
