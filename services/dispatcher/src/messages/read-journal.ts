import { type Bus, JournalTooLong } from '@passover/bus'
import type { JournalState } from '@passover/core'
import type { PassKey, Step } from '@passover/schemas'

/** Of a journal that is too long to be read what is known of it: whether it was begun is in that. */
export async function readSteps(bus: Bus, key: PassKey): Promise<Step[]> {
  try {
    return await bus.journal.read(key)
  } catch (error) {
    if (error instanceof JournalTooLong) return error.steps
    throw error
  }
}

/** Digest of the request that began a journal: what asking again is compared with (docs/architecture/protocol.md#idempotency). */
export function firstDigest(journal: JournalState): string | undefined {
  if (journal.state === 'none') return undefined
  if (journal.state === 'held') return journal.held.digest
  if (journal.state === 'open') return (journal.held ?? journal.work).digest
  return (journal.held ?? journal.work ?? journal.return).digest
}
