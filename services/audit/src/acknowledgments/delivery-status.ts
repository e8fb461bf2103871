import type { Bus } from '@passover/bus'
import { decode } from '@passover/bus'
import { deliveredStatus, sendStatus, sequencesIn } from '@passover/core'
import { HEADER, type PassKey, type PassRecord, type PassRow, type PassStatus, type TimelineEntry } from '@passover/schemas'
import type { AckIndex } from './ack-index.js'

/** Maximum number of acknowledgments searched for one that names a return. Each replica of an originator stores about one per second. */
const MOST_LOOKS = 64

type Index = Pick<AckIndex, 'has'>

/** Adds the delivery state to a row. The row reflects the pass's own messages; the index shows if its return was acknowledged. */
export function withRowDelivery(index: Index, row: PassRow): PassRow | Promise<PassRow> {
  if (row.return_sequence === undefined) return withSend(row, false)
  const acknowledged = index.has(row.originator, row.return_sequence)
  return acknowledged instanceof Promise ? acknowledged.then((known) => withSend(row, known)) : withSend(row, acknowledged)
}

/** Adds the delivery state to a record. Sets `acknowledged_at` if the time of the acknowledgment is known. */
export function withRecordDelivery(record: PassRecord, acknowledged: { at: number | undefined } | undefined): PassRecord {
  const status = deliveredStatus(record.status, acknowledged !== undefined)
  return { ...record, status, ...(acknowledged?.at === undefined ? {} : { acknowledged_at: acknowledged.at }) }
}

function withSend(row: PassRow, acknowledged: boolean): PassRow {
  const undelivered = row.undelivered_at !== undefined
  const status = deliveredStatus(row.status as PassStatus, acknowledged)
  const send = sendStatus({ status, acknowledged, undelivered })
  const code = row.code ?? (send === 'undelivered' ? 'E022' : undefined)
  return { ...row, status, send, code }
}

/** Returns the acknowledgment that names a return as a timeline entry, or `undefined` if it is not found. */
export async function findAcknowledgment(bus: Bus, key: PassKey, returned: number): Promise<TimelineEntry | undefined> {
  const filter = bus.subjects.acknowledged(key.originator)
  for (let from = returned + 1, looks = 0; looks < MOST_LOOKS; looks++) {
    const stored = await bus.journal.first(filter, from)
    if (!stored) return undefined
    const decoded = decode(stored.data, stored.headers.get(HEADER.contentType))
    if (decoded.ok && bus.subjects.isTrusted(stored) && sequencesIn(decoded.value, stored.sequence).includes(returned)) {
      return { sequence: stored.sequence, time: stored.time, kind: 'acknowledged', by: key.originator }
    }
    from = stored.sequence + 1
  }
  return undefined
}
