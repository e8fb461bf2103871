import { decode } from '@passover/bus'
import type { PassRow } from '@passover/schemas'
import { readRow, type StoredRecord } from '../../records/compact-record.js'
import { firstSequence } from '../../records/list-cursor.js'
import { decidedWord } from './index-filter.js'
import type { IndexEntry } from './pass-index.js'

/** Error code of a return that was not acknowledged in time. */
export const UNDELIVERED = 'E022'

/** Returns the index entry for a record that is in the bucket at the given revision. */
export function indexEntryOf({ stored, row }: { stored: StoredRecord; row: PassRow }, revision: number): IndexEntry {
  const full = stored.v === 1 ? stored : undefined
  return {
    key: stored.key,
    session_id: row.session_id,
    status: row.status,
    ended: full ? full.entry?.status : row.output_status,
    code: row.code ?? (row.undelivered_at === undefined ? undefined : UNDELIVERED),
    decided: full ? decidedWord(full.decisions) : '',
    created_at: row.created_at,
    first: firstSequence(stored.sequences),
    ended_at: row.ended_at,
    returned: row.return_sequence,
    revision,
  }
}

/** Returns the index entry for the bytes of a record; `undefined` if they are not a record. */
export function decodeIndexEntry(data: Uint8Array, revision: number): IndexEntry | undefined {
  const glanced = decodeRow(data)
  return glanced && indexEntryOf(glanced, revision)
}

/** Returns the record and its row from stored bytes; `undefined` if they are not a record. */
export function decodeRow(data: Uint8Array): ReturnType<typeof readRow> {
  const decoded = decode(data)
  return decoded.ok ? readRow(decoded.value) : undefined
}
