import type { Bus } from '@passover/bus'
import { erasuresIn } from './erased-since.js'
import { type LiveOptions, verifyLive } from './live.js'
import type { Verdict } from './run.js'

interface SavingOptions extends LiveOptions {
  save: string
  /** Told before anything is read that nothing will be saved. */
  onUnsaved: (why: string) => void
}

/** For what begins and ends while it is read; an erasure takes seconds as a rule. */
const SAVE_TRIES = 3
const ERASING = 'a session is being erased'

/** Verifies and saves, again where something was erased meanwhile. While an erasure goes on nothing can be saved: one that waits may take hours. */
export async function verifySaving(bus: Bus, { save, onUnsaved, ...options }: SavingOptions): Promise<Verdict> {
  let verdict: Verdict | undefined
  for (let tries = 0; tries < SAVE_TRIES; tries++) {
    if ((await erasuresIn(bus)).going) break
    verdict = await verifyLive(bus, { ...options, save })
    if (verdict.unsaved === undefined) return verdict
  }
  if (verdict) return verdict
  onUnsaved(ERASING)
  return { ...(await verifyLive(bus, options)), unsaved: ERASING }
}
