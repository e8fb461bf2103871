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

/** Number of messages above which a pass counts as long. */
const LONG_PASS_MESSAGES = 64
/**
 * Milliseconds between two records of a long pass, for each of its messages. Building a record takes about 6 µs per message, so rebuilding it
 * after every message would take longer each time.
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

/** A pass in memory with the state of its record. */
export interface TrackedPass extends IndexedItem {
  memory: PassMemory
  slot: Slot | undefined
  /** `again`: another save is due when the current write or delay ends. */
  writing: 'no' | 'yes' | 'again'
  /** True if the end of the pass was counted in the metrics. */
  counted: boolean
  /** Time at which the next record of a long pass may be built, by the monotonic clock. */
  rests_until?: number
  /** True if the pass was erased: no record of it is written any more. */
  erased?: boolean
}

/** Writes the state of a pass: its row for `list`, its inbox entry and its record. Runs one write per pass at a time. */
export class RecordWriter {
  readonly #deps: RecordWriterDeps
  readonly #options: { writes: () => boolean }
  /** Passes whose record is being written. They may have left the projector's memory. */
  readonly unwritten = new IndexedSet<TrackedPass>()

  /** `writes` returns false with `log_all_passes: false`: passes without a record are then not written to KV. */
  constructor(deps: RecordWriterDeps, options: { writes: () => boolean }) {
    this.#deps = deps
    this.#options = options
  }

  /** Saves a pass. Returns `brief` if a compact record was enough; such a pass need not be cached. */
  save(tracked: TrackedPass): 'brief' | 'record' {
    if (tracked.writing !== 'no') {
      tracked.writing = 'again'
      return 'record'
    }
    if (tracked.erased) return 'record'
    const rest = tracked.rests_until === undefined ? 0 : tracked.rests_until - this.#deps.clock.monotonic()
    if (rest > 0) {
      tracked.writing = 'again'
      this.unwritten.add(tracked)
      this.#deps.clock.after(rest, () => this.#onWritten(tracked, true))
      return 'record'
    }
    const brief = this.#made(tracked.memory, compactRecordOf)
    if (brief) this.#put(tracked, brief.stored, brief.row)
    else this.#saveRecord(tracked)
    return brief ? 'brief' : 'record'
  }

  /** Marks passes whose first message is in `erased` as erased: their pending saves are not repeated. */
  forget(erased: ReadonlySet<number>): void {
    for (const tracked of this.unwritten.all()) if (erased.has(tracked.memory.first)) tracked.erased = true
  }

  noteHeld(memory: PassMemory): void {
    const described = this.#describe(memory)
    if (described) this.#deps.inbox.note(described.record, memory.first)
  }

  #saveRecord(tracked: TrackedPass): void {
    const described = this.#describe(tracked.memory)
    if (!described) return
    const { record, row, unchecked } = described
    if (unchecked && this.#deps.schemas.check) {
      this.#deps.rows.put(row)
      this.#saveChecked(tracked, unchecked)
    } else this.#put(tracked, record, row)
  }

  #put(tracked: TrackedPass, stored: StoredRecord, row: PassRow): void {
    const { memory } = tracked
    this.#deps.rows.put(row)
    this.#deps.inbox.note(stored, memory.first)
    if (row.ended_at !== undefined && !tracked.counted) {
      tracked.counted = true
      this.#deps.ended.note(row)
    }
    if (!tracked.slot && !this.#options.writes()) return
    const slot = tracked.slot ?? { key: recordKey(memory.key, row.created_at, row.session_id) }
    tracked.slot = slot
    tracked.writing = 'yes'
    const messages = memory.noted.length
    if (messages > LONG_PASS_MESSAGES) tracked.rests_until = this.#deps.clock.monotonic() + messages * DELAY_PER_MESSAGE_MS
    this.unwritten.add(tracked)
    this.#deps.records.send(slot, { stored, row }, (written) => this.#onWritten(tracked, written))
  }

  /** Validates the output against its output_schema before the record is written, because the record contains the verdict. */
  #saveChecked(tracked: TrackedPass, unchecked: NonNullable<BuiltRecord['unchecked']>): void {
    tracked.writing = 'yes'
    this.unwritten.add(tracked)
    this.#deps.schemas.begin(tracked.memory, unchecked, () => {
      tracked.writing = 'no'
      this.unwritten.remove(tracked)
      this.save(tracked)
    })
  }

  #onWritten(tracked: TrackedPass, written: boolean): void {
    const again = tracked.writing === 'again'
    tracked.writing = 'no'
    if (!written) return
    this.unwritten.remove(tracked)
    if (again) this.save(tracked)
  }

  #describe(memory: PassMemory): BuiltRecord | undefined {
    return this.#made(memory, (one) => buildRecord(one, this.#deps.rules))
  }

  /** Builds a record. A failure is a bug: it is logged and must not stop other records. */
  #made<T>(memory: PassMemory, make: (memory: PassMemory) => T): T | undefined {
    try {
      return make(memory)
    } catch (error) {
      this.#deps.log.error({ pass: keyText(memory.key), err: error }, 'no record can be built')
      return undefined
    }
  }
}
