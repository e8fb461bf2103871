import { encode } from '@passover/bus'
import { WIRE_VERSION } from '@passover/schemas'
import type { Giver } from './give-back.js'
import type { Run } from './run.js'

/** Shorter runs tell nothing: their start rides in the return. */
const STARTED_AFTER_MS = 1_000
const PROGRESS_EVERY_MS = 500

/** Publishes, from the worker's sweep, that a longer run has started and how far it is. Nobody depends on it. */
export function tellProgress(giver: Giver, run: Run, now: number): void {
  if (run.stop !== undefined || run.answer) return
  if (!run.told_started && now - run.began_at >= STARTED_AFTER_MS) {
    run.told_started = true
    tell(giver, run, 'started', { attempt: run.attempt, started_at: run.began_at })
  }
  if (!run.progress || now - run.progress_at < PROGRESS_EVERY_MS) return
  const { progress } = run
  run.progress = undefined
  run.progress_at = now
  tell(giver, run, 'progress', { attempt: run.attempt, ...progress })
}

function tell(giver: Giver, run: Run, kind: 'started' | 'progress', body: Record<string, unknown>): void {
  const { bus } = giver.deps
  const data = encode({ v: WIRE_VERSION, ...body })
  bus.publish({ subject: bus.subjects.event(run.key, kind, giver.agent), data }).catch(() => undefined)
}
