import type { JournalState } from '@passover/core'

/** Digest of the request that began a journal: what asking again is compared with (docs/architecture/protocol.md#idempotency). */
export function firstDigest(journal: JournalState): string | undefined {
  if (journal.state === 'none') return undefined
  if (journal.state === 'held') return journal.held.digest
  if (journal.state === 'open') return (journal.held ?? journal.work).digest
  return (journal.held ?? journal.work ?? journal.return).digest
}
