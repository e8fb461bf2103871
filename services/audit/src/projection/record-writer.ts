import { type IndexedItem, IndexedSet } from '@passover/bus'
import type { Clock, JournalRules } from '@passover/core'
import { keyText, type PassRow } from '@passover/schemas'
import type { Logger } from 'pino'
import type { Inbox } from '../inbox/inbox.js'
import type { PassMemory } from '../pass/pass-memory.js'
import { type BuiltRecord, buildRecord } from '../records/build-record.js'
import { compactRecordOf, type StoredRecord } from '../records/compact-record.js'
import { type RecordStore, recordKey, type Slot } from '../records/record-store.js'
import type { RowCache } from '../records/row-cache.js'
import type { SchemaChecks } from '../records/schema-checks.js'
import type { EndedMetrics } from './ended-metrics.js'

/** Messages beyond which a pass is long. */
const LONG_PASS_MESSAGES = 64
/**
 * Ms from one record of a long pass to the next, for each of its messages. A record takes some 6 µs a message to make: an agent that adds one
 * message after the other would have it made for each of them, which takes longer with each.
 */
const DELAY_PER_MESSAGE_MS = 1

export interface RecordWriterDeps {
  log: Logger
  clock: Pick<Clock, 'monotonic' | 'after'>
  rules: JournalRules
  records: RecordStore
  rows: RowCache
  ended: EndedMetrics
  schemas: SchemaChecks
  inbox: Inbox
}

/** A pass in memory, and how far its record is written. */
export interface TrackedPass extends IndexedItem {
  memory: PassMemory
  slot: Slot | undefined
  /** `again`: something came while it was being written. */
  writing: 'no' | 'yes' | 'again'
  /** It was counted when it ended. */
  counted: boolean
  /** Of a long pass: when its next record may be made, by the monotonic clock. */
  rests_until?: number
  /** It was erased: no record is made of it any more. */
  erased?: boolean
}

/** Has what a pass amounts to written: its line for `list`, its place in the inbox, its record. One write of a pass at a time. */
export class RecordWriter {
  /** Whatever is being written: not done with, though it may have left memory. */
  readonly unwritten = new IndexedSet<TrackedPass>()

  /** `writes` false (`log_all_passes: false`): of passes without a record nothing goes to KV. */
  constructor(
    private readonly deps: RecordWriterDeps,
    private readonly options: { writes: () => boolean },
  ) {}

  /** `brief`: a plain pass, of which nothing need be remembered. */
  save(tracked: TrackedPass): 'brief' | 'record' {
    if (tracked.writing !== 'no') {
      tracked.writing = 'again'
      return 'record'
    }
    if (tracked.erased) return 'record'
    const rest = tracked.rests_until === undefined ? 0 : tracked.rests_until - this.deps.clock.monotonic()
    if (rest > 0) {
      tracked.writing = 'again'
      this.unwritten.add(tracked)
      this.deps.clock.after(rest, () => this.onWritten(tracked, true))
      return 'record'
    }
    const brief = this.made(tracked.memory, compactRecordOf)
    if (brief) this.put(tracked, brief.stored, brief.row)
    else this.saveRecord(tracked)
    return brief ? 'brief' : 'record'
  }

  /** Passes that begin with one of these were erased: what is under way of them is not begun again. */
  forget(erased: ReadonlySet<number>): void {
    for (const tracked of this.unwritten.all()) if (erased.has(tracked.memory.first)) tracked.erased = true
  }

  noteHeld(memory: PassMemory): void {
    const described = this.describe(memory)
    if (described) this.deps.inbox.note(described.record, memory.first)
  }

  private saveRecord(tracked: TrackedPass): void {
    const described = this.describe(tracked.memory)
    if (!described) return
    const { record, row, unchecked } = described
    if (unchecked && this.deps.schemas.check) {
      this.deps.rows.put(row)
      this.saveChecked(tracked, unchecked)
    } else this.put(tracked, record, row)
  }

  private put(tracked: TrackedPass, stored: StoredRecord, row: PassRow): void {
    const { memory } = tracked
    this.deps.rows.put(row)
    this.deps.inbox.note(stored, memory.first)
    if (row.ended_at !== undefined && !tracked.counted) {
      tracked.counted = true
      this.deps.ended.note(row)
    }
    if (!tracked.slot && !this.options.writes()) return
    const slot = tracked.slot ?? { key: recordKey(memory.key, row.created_at, row.session_id) }
    tracked.slot = slot
    tracked.writing = 'yes'
    const messages = memory.noted.length
    if (messages > LONG_PASS_MESSAGES) tracked.rests_until = this.deps.clock.monotonic() + messages * DELAY_PER_MESSAGE_MS
    this.unwritten.add(tracked)
    this.deps.records.send(slot, { stored, row }, (written) => this.onWritten(tracked, written))
  }

  /** Its record says what its output_schema says: that is asked first. */
  private saveChecked(tracked: TrackedPass, unchecked: NonNullable<BuiltRecord['unchecked']>): void {
    tracked.writing = 'yes'
    this.unwritten.add(tracked)
    this.deps.schemas.begin(tracked.memory, unchecked, () => {
      tracked.writing = 'no'
      this.unwritten.remove(tracked)
      this.save(tracked)
    })
  }

  private onWritten(tracked: TrackedPass, written: boolean): void {
    const again = tracked.writing === 'again'
    tracked.writing = 'no'
    if (!written) return
    this.unwritten.remove(tracked)
    if (again) this.save(tracked)
  }

  private describe(memory: PassMemory): BuiltRecord | undefined {
    return this.made(memory, (one) => buildRecord(one, this.deps.rules))
  }

  /** A record that cannot be made is a bug; it must not stop the others. */
  private made<T>(memory: PassMemory, make: (memory: PassMemory) => T): T | undefined {
    try {
      return make(memory)
    } catch (error) {
      this.deps.log.error({ pass: keyText(memory.key), err: error }, 'no record can be made')
      return undefined
    }
  }
}
