import { type Bus, JournalTooLong } from '@passover/bus'
import type { JournalState } from '@passover/core'
import type { PassKey, Step } from '@passover/schemas'

/**
 * Reads the steps of a journal. For a journal that is too long, returns its first steps and the last one of each subject, which show whether it has
 * begun.
 */
export async function readSteps(bus: Bus, key: PassKey): Promise<Step[]> {
  try {
    return await bus.journal.read(key)
  } catch (error) {
    if (error instanceof JournalTooLong) return error.steps
    throw error
  }
}

/**
 * Returns the digest of the request that began a journal. A repeated request must have the same digest (docs/architecture/protocol.md#idempotency).
 */
export function firstDigest(journal: JournalState): string | undefined {
  if (journal.state === 'none') return undefined
  if (journal.state === 'held') return journal.held.digest
  if (journal.state === 'open') return (journal.held ?? journal.work).digest
  return (journal.held ?? journal.work ?? journal.return).digest
}
