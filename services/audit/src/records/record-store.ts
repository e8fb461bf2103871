import { createHash } from 'node:crypto'
import { encode, type IndexedItem, IndexedSet, type Table, TableError } from '@passover/bus'
import type { Clock } from '@passover/core'
import type { PassKey, PassRecord, PassRow } from '@passover/schemas'
import type { Logger } from 'pino'
import { isTransient, MAX_TRIES } from '../runtime/transient-errors.js'
import { decodeRecord, type StoredRecord } from './compact-record.js'
import { firstSequence } from './list-cursor.js'

/** KV bucket of the projection. */
export const PASSES_BUCKET = 'passes'

const RETRY_DELAY_MS = 500
/** Puts under way beyond which the reader waits. */
const MAX_IN_FLIGHT = 512
const SAFE_SESSION = /^[A-Za-z0-9_-]{1,64}$/

/** Key of a pass's record: month of the request, session, originator, subagent, id; so that the server can filter by each. */
export function recordKey(key: PassKey, created_at: number, session_id: string | undefined): string {
  return `${monthOf(created_at)}.${sessionToken(session_id)}.${key.originator}.${key.subagent}.${key.id}`
}

const DAY_MS = 86_400_000
let known = { day: Number.NaN, month: '' }

/** The end of the year 9999: what is later, or no time, is told as that. */
const LAST_TIME = 253_402_300_799_999

/** YYYY-MM in UTC; one day's worth is remembered. */
function monthOf(given: number): string {
  const time = given >= 0 && given <= LAST_TIME ? given : LAST_TIME
  const day = Math.floor(time / DAY_MS)
  if (day !== known.day) known = { day, month: new Date(time).toISOString().slice(0, 7) }
  return known.month
}

/** Filter for every record of a pass, whatever its month and session. */
export function recordFilter(key: {
  originator?: string | undefined
  subagent?: string | undefined
  id?: string | undefined
  session_id?: string | undefined
}): string {
  const session = key.session_id === undefined ? '*' : sessionToken(key.session_id)
  return `*.${session}.${key.originator ?? '*'}.${key.subagent ?? '*'}.${key.id ?? '*'}`
}

/** The pass whose record stands under a key; undefined: it is no such key. */
export function parseRecordKey(key: string): PassKey | undefined {
  const [, , originator, subagent, id, ...more] = key.split('.')
  return originator && subagent && id && more.length === 0 ? { originator, subagent, id } : undefined
}

function sessionToken(session_id: string | undefined): string {
  if (!session_id) return '-'
  return SAFE_SESSION.test(session_id) ? session_id : `x${createHash('sha256').update(session_id).digest('hex').slice(0, 32)}`
}

/** What a record is written under, and what is known of the bucket's newest entry there. */
export interface Slot {
  key: string
  revision?: number | undefined
  /** Last sequence that the entry speaks of. */
  sequence?: number | undefined
}

/** A record as it is to be stored, and its line of `list`. */
export interface RecordWithRow {
  stored: StoredRecord
  row: PassRow
}

/** Learns what stands in the bucket, from every write of this process and from every record that it found there instead. */
export interface RecordListener {
  wrote(record: RecordWithRow, revision: number): void
  /** Another process wrote these bytes. */
  found(data: Uint8Array, revision: number): void
}

/** A record under way: what is to be written where, and whom to tell. */
interface Writing extends IndexedItem {
  slot: Slot
  record: RecordWithRow
  tries: number
  /** Its pass was erased meanwhile: it is not tried again. */
  erased?: boolean
  done: (written: boolean) => void
}

/**
 * Writes records by compare-and-set, so that of two records of a pass the one that knows more stands, whichever replica wrote it and in
 * whatever order (I2). Puts are pipelined; an error is tried again until the process ends, unless no waiting can mend it.
 */
export class RecordStore {
  private readonly underWay = new IndexedSet<Writing>()
  private stopped = false
  private waiters: (() => void)[] = []
  writes = 0

  constructor(
    private readonly table: Table<PassRecord>,
    private readonly standing: RecordListener,
    private readonly clock: Clock,
    private readonly log: Logger,
  ) {}

  /** Settles when a record at least as new stands; false when the process ended before. */
  write(slot: Slot, record: RecordWithRow): Promise<boolean> {
    return new Promise((resolve) => this.send(slot, record, resolve))
  }

  /** The same without a promise: it is done for every pass. `done` is called exactly once, perhaps before this returns. */
  send(slot: Slot, record: RecordWithRow, done: (written: boolean) => void): void {
    if (this.stopped) {
      done(false)
      return
    }
    const writing = { slot, record, tries: 0, done, index: 0 }
    this.underWay.add(writing)
    this.attempt(writing)
  }

  /** Passes that begin with one of these were erased: a record of theirs that is not stored yet must not come after that. */
  forget(erased: ReadonlySet<number>): void {
    for (const writing of this.underWay.all()) {
      if (erased.has(firstSequence(writing.record.stored.sequences))) writing.erased = true
    }
  }

  /** Records under way. */
  get pending(): number {
    return this.underWay.size
  }

  /** Settles when none is under way. */
  async settled(): Promise<void> {
    while (this.underWay.size > 0) await new Promise<void>((done) => this.waiters.push(done))
  }

  /** A promise when the reader must wait for puts to be acknowledged. */
  backpressure(): Promise<void> | undefined {
    return this.underWay.size > MAX_IN_FLIGHT ? new Promise((done) => this.waiters.push(done)) : undefined
  }

  /** Gives up what is only being retried. */
  stop(): void {
    this.stopped = true
  }

  private release(): void {
    for (const waiter of this.waiters.splice(0)) waiter()
  }

  private attempt(writing: Writing): void {
    const { slot, record } = writing
    if (writing.erased || (slot.sequence !== undefined && slot.sequence >= record.stored.sequences.last)) {
      this.end(writing, true)
      return
    }
    try {
      this.table.send(slot.key, encode(record.stored), slot.revision ?? 0, (outcome) => {
        if (outcome.kind === 'stored') this.onStored(writing, outcome.sequence)
        else if (outcome.kind === 'lost') void this.onLost(writing)
        else this.onFailed(writing, new TableError(`${slot.key} was not written: ${outcome.kind}`, outcome))
      })
    } catch (error) {
      this.onFailed(writing, error)
    }
  }

  private onStored(writing: Writing, revision: number): void {
    const { slot, record } = writing
    this.writes++
    slot.revision = revision
    slot.sequence = record.stored.sequences.last
    this.standing.wrote(record, revision)
    this.end(writing, true)
  }

  /** Something stands there already, or stood: of the two the one that knows more is to. */
  private async onLost(writing: Writing): Promise<void> {
    const { slot, record } = writing
    const over = slot.revision
    try {
      const found = await this.table.bytesOf(slot.key)
      // Where nothing can be read, nothing is lost by writing over it.
      const standing = found?.data && decodeRecord(found.data)
      slot.revision = found?.revision
      slot.sequence = standing?.sequences.last
      // Not what was to be written: another process may know more, or have written the same messages otherwise.
      if (standing && found) this.standing.found(found.data as Uint8Array, found.revision)
      if (standing && !supersedes(record.stored, standing)) return this.end(writing, true)
      // What was faster is on its way yet, or the replica that was asked is behind: it may know more.
      if (slot.revision === over) throw new TableError(`${slot.key} was not written: what was faster is not found yet`, { kind: 'lost' })
      this.attempt(writing)
    } catch (error) {
      this.onFailed(writing, error)
    }
  }

  private onFailed(writing: Writing, error: unknown): void {
    const { key } = writing.slot
    if (this.stopped) {
      this.end(writing, false)
      return
    }
    if (!isTransient(error) && ++writing.tries >= MAX_TRIES) {
      this.log.error({ key, err: error }, 'record given up: it cannot be written')
      this.end(writing, true)
      return
    }
    this.log.warn({ key, err: error }, 'record not written')
    this.clock.after(RETRY_DELAY_MS, () => (this.stopped ? this.end(writing, false) : this.attempt(writing)))
  }

  private end(writing: Writing, written: boolean): void {
    this.underWay.remove(writing)
    if (this.underWay.size <= MAX_IN_FLIGHT / 2 && this.waiters.length > 0) this.release()
    writing.done(written)
  }
}

/** An "expired" that answers a request for a pass long ended says nothing about that pass (rule 5). */
function supersedes(record: StoredRecord, standing: PassRecord): boolean {
  const expired =
    record.v === 1 && record.error?.code === 'E005' && record.sequences.work === undefined && record.sequences.held === undefined
  return !expired || standing.sequences.return === undefined || standing.sequences.return === record.sequences.return
}

/** More than that a request came too late: where nothing is logged any more it stays true all the same. */
export function isLasting(record: PassRecord): boolean {
  return record.sequences.work !== undefined || record.sequences.held !== undefined || record.error?.code !== 'E005'
}

/** A pass that began has its record, whatever later requests for its id were told (rule 5). One that was only asked for waits for that very answer. */
export function hasBegun(record: PassRecord): boolean {
  return isLasting(record) && (record.sequences.work ?? record.sequences.held ?? record.sequences.return) !== undefined
}
