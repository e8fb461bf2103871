import { createHash } from 'node:crypto'
import { encode, type IndexedItem, IndexedSet, type Table, TableError } from '@passover/bus'
import type { Clock } from '@passover/core'
import type { PassKey, PassRecord, PassRow } from '@passover/schemas'
import type { Logger } from 'pino'
import { isTransient, MAX_TRIES } from '../runtime/transient-errors.js'
import { decodeRecord, type StoredRecord } from './compact-record.js'
import { firstSequence } from './list-cursor.js'

/** Name of the KV bucket of the projection. */
export const PASSES_BUCKET = 'passes'

const RETRY_DELAY_MS = 500
/** Number of puts in flight above which the reader waits. */
const MAX_IN_FLIGHT = 512
const SAFE_SESSION = /^[A-Za-z0-9_-]{1,64}$/

/** Returns the key of a pass's record: month of the request, session, originator, subagent and id, so that the server can filter by each. */
export function recordKey(key: PassKey, created_at: number, session_id: string | undefined): string {
  return `${monthOf(created_at)}.${sessionToken(session_id)}.${key.originator}.${key.subagent}.${key.id}`
}

const DAY_MS = 86_400_000
let known = { day: Number.NaN, month: '' }

/** The end of the year 9999, in ms. Replaces later and invalid times. */
const LAST_TIME = 253_402_300_799_999

/** Returns the month as YYYY-MM in UTC; caches the result for one day. */
function monthOf(given: number): string {
  const time = given >= 0 && given <= LAST_TIME ? given : LAST_TIME
  const day = Math.floor(time / DAY_MS)
  if (day !== known.day) known = { day, month: new Date(time).toISOString().slice(0, 7) }
  return known.month
}

/** Returns a filter for every record of a pass, whatever its month and session. */
export function recordFilter(key: {
  originator?: string | undefined
  subagent?: string | undefined
  id?: string | undefined
  session_id?: string | undefined
}): string {
  const session = key.session_id === undefined ? '*' : sessionToken(key.session_id)
  return `*.${session}.${key.originator ?? '*'}.${key.subagent ?? '*'}.${key.id ?? '*'}`
}

/** Returns the pass whose record has this key; `undefined` if it is not a record key. */
export function parseRecordKey(key: string): PassKey | undefined {
  const [, , originator, subagent, id, ...more] = key.split('.')
  return originator && subagent && id && more.length === 0 ? { originator, subagent, id } : undefined
}

function sessionToken(session_id: string | undefined): string {
  if (!session_id) return '-'
  return SAFE_SESSION.test(session_id) ? session_id : `x${createHash('sha256').update(session_id).digest('hex').slice(0, 32)}`
}

/** Key of a record, and what is known about the newest entry under it in the bucket. */
export interface Slot {
  key: string
  revision?: number | undefined
  /** Sequence of the last message that the entry covers. */
  sequence?: number | undefined
}

/** A record in its stored form, and its row of `list`. */
export interface RecordWithRow {
  stored: StoredRecord
  row: PassRow
}

/** Is notified of records in the bucket: those written by this process, and those that it found there instead. */
export interface RecordListener {
  wrote(record: RecordWithRow, revision: number): void
  /** Called with the bytes that another process wrote. */
  found(data: Uint8Array, revision: number): void
}

/** A write in progress. */
interface Writing extends IndexedItem {
  slot: Slot
  record: RecordWithRow
  tries: number
  /** True if the pass was erased meanwhile; the write is then not retried. */
  erased?: boolean
  done: (written: boolean) => void
}

/**
 * Writes records by compare-and-set, so that the record of a pass that covers more messages wins, whichever replica writes it and in whatever order
 * (I2). Puts are pipelined. Transient errors are retried until the process stops, others at most `MAX_TRIES` times.
 */
export class RecordStore {
  readonly #table: Table<PassRecord>
  readonly #listener: RecordListener
  readonly #clock: Clock
  readonly #log: Logger
  readonly #underWay = new IndexedSet<Writing>()
  #stopped = false
  #waiters: (() => void)[] = []
  writes = 0

  constructor(table: Table<PassRecord>, listener: RecordListener, clock: Clock, log: Logger) {
    this.#table = table
    this.#listener = listener
    this.#clock = clock
    this.#log = log
  }

  /**
   * Settles with true when the bucket has a record at least as new, or the write was given up (permanent error, erased pass), and with false if
   * the process stops before.
   */
  write(slot: Slot, record: RecordWithRow): Promise<boolean> {
    return new Promise((resolve) => this.send(slot, record, resolve))
  }

  /** Like `write`, without a promise, because it runs for every pass. Calls `done` exactly once, possibly before it returns. */
  send(slot: Slot, record: RecordWithRow, done: (written: boolean) => void): void {
    if (this.#stopped) {
      done(false)
      return
    }
    const writing = { slot, record, tries: 0, done, index: 0 }
    this.#underWay.add(writing)
    this.#attempt(writing)
  }

  /** Cancels writes for erased passes, named by their first sequences, so that no record of them is stored after the erasure. */
  forget(erased: ReadonlySet<number>): void {
    for (const writing of this.#underWay.all()) {
      if (erased.has(firstSequence(writing.record.stored.sequences))) writing.erased = true
    }
  }

  /** Number of writes in progress. */
  get pending(): number {
    return this.#underWay.size
  }

  /** Settles when no write is in progress. */
  async settled(): Promise<void> {
    while (this.#underWay.size > 0) await new Promise<void>((done) => this.#waiters.push(done))
  }

  /** Returns a promise if the reader must wait for puts to be acknowledged. */
  backpressure(): Promise<void> | undefined {
    return this.#underWay.size > MAX_IN_FLIGHT ? new Promise((done) => this.#waiters.push(done)) : undefined
  }

  /** Gives up writes that are only being retried. */
  stop(): void {
    this.#stopped = true
  }

  #release(): void {
    for (const waiter of this.#waiters.splice(0)) waiter()
  }

  #attempt(writing: Writing): void {
    const { slot, record } = writing
    if (writing.erased || (slot.sequence !== undefined && slot.sequence >= record.stored.sequences.last)) {
      this.#end(writing, true)
      return
    }
    try {
      this.#table.send(slot.key, encode(record.stored), slot.revision ?? 0, (outcome) => {
        if (outcome.kind === 'stored') this.#onStored(writing, outcome.sequence)
        else if (outcome.kind === 'lost') void this.#onLost(writing)
        else this.#onFailed(writing, new TableError(`${slot.key} was not written: ${outcome.kind}`, outcome))
      })
    } catch (error) {
      this.#onFailed(writing, error)
    }
  }

  #onStored(writing: Writing, revision: number): void {
    const { slot, record } = writing
    this.writes++
    slot.revision = revision
    slot.sequence = record.stored.sequences.last
    this.#listener.wrote(record, revision)
    this.#end(writing, true)
  }

  /** Handles a lost compare-and-set: reads the entry under the key, and writes again if this record knows more. */
  async #onLost(writing: Writing): Promise<void> {
    const { slot, record } = writing
    const over = slot.revision
    try {
      const found = await this.#table.bytesOf(slot.key)
      // An entry that cannot be decoded may be overwritten.
      const standing = found?.data && decodeRecord(found.data)
      slot.revision = found?.revision
      slot.sequence = standing?.sequences.last
      // Another process wrote this record; it may cover more messages, or the same ones in another form.
      if (standing && found) this.#listener.found(found.data as Uint8Array, found.revision)
      if (standing && !supersedes(record.stored, standing)) return this.#end(writing, true)
      // The write that won is not visible yet, or the replica that answered lags behind. Retried later, because that record may know more.
      if (slot.revision === over)
        throw new TableError(`${slot.key} was not written: another process wrote it first, and its entry is not visible yet`, {
          kind: 'lost',
        })
      this.#attempt(writing)
    } catch (error) {
      this.#onFailed(writing, error)
    }
  }

  #onFailed(writing: Writing, error: unknown): void {
    const { key } = writing.slot
    if (this.#stopped) {
      this.#end(writing, false)
      return
    }
    if (!isTransient(error) && ++writing.tries >= MAX_TRIES) {
      this.#log.error({ key, err: error }, 'record skipped: it cannot be written')
      this.#end(writing, true)
      return
    }
    this.#log.warn({ key, err: error }, 'record not written')
    this.#clock.after(RETRY_DELAY_MS, () => (this.#stopped ? this.#end(writing, false) : this.#attempt(writing)))
  }

  #end(writing: Writing, written: boolean): void {
    this.#underWay.remove(writing)
    if (this.#underWay.size <= MAX_IN_FLIGHT / 2 && this.#waiters.length > 0) this.#release()
    writing.done(written)
  }
}

/** True if the record may replace the stored one. An E005 answer to a late request says nothing about a pass that ended before (rule 5). */
function supersedes(record: StoredRecord, standing: PassRecord): boolean {
  const expired =
    record.v === 1 && record.error?.code === 'E005' && record.sequences.work === undefined && record.sequences.held === undefined
  return !expired || standing.sequences.return === undefined || standing.sequences.return === record.sequences.return
}

/** True if a record says more than that a request came too late. Such a record is kept up to date even if logging is off. */
export function isLasting(record: PassRecord): boolean {
  return record.sequences.work !== undefined || record.sequences.held !== undefined || record.error?.code !== 'E005'
}

/** True if the pass began: then later requests for its id do not change its record (rule 5). A pass without a step still waits for that answer. */
export function hasBegun(record: PassRecord): boolean {
  return isLasting(record) && (record.sequences.work ?? record.sequences.held ?? record.sequences.return) !== undefined
}
