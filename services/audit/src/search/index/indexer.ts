import type { IdIndex } from '@passover/archive'
import { type Entry, type PublishResult, type Table, TableError, type TableExtent } from '@passover/bus'
import type { Clock } from '@passover/core'
import { keyText, type PassKey, type PassRecord } from '@passover/schemas'
import type { Logger } from 'pino'
import { parseRecordKey, type RecordListener, type RecordWithRow, recordFilter, recordKey } from '../../records/record-store.js'
import type { RowCache } from '../../records/row-cache.js'
import { mapInBatches } from '../../runtime/concurrency.js'
import { decodeIndexEntry, decodeRow, indexEntryOf } from './index-entry.js'
import type { PassIndex } from './pass-index.js'
import { createReadPacer } from './read-pacer.js'
import { KnownRevisions } from './revisions.js'

/** Number of records written between two checks for records that dropped out of the bucket. */
const WRITES_PER_TRIM = 8_192
/** Number of free places in the bucket below which it may have lost its oldest records. */
const NEARLY_FULL_ENTRIES = 1_024
const RETRY_DELAY_MS = 5_000
const MAX_RETRY_DELAY_MS = 60_000
/** Number of records looked up concurrently. */
const CONCURRENCY = 16

export interface IndexerDeps {
  table: Pick<Table<PassRecord>, 'read' | 'extent' | 'entries' | 'bytesOf' | 'at' | 'send' | 'erase'>
  index: PassIndex
  rows: RowCache
  clock: Clock
  log: Logger
}

/** Keeps the index in step with the bucket: reads existing records in the background, and adds records as they are written. */
export class Indexer implements RecordListener {
  readonly #deps: IndexerDeps
  /** True when everything that was in the bucket at the start has been read. */
  complete = false
  /** Time in ms: passes requested before it may have dropped out of the bucket. */
  horizon = Number.NEGATIVE_INFINITY
  readonly #stop_ = new AbortController()
  readonly #revisions = new KnownRevisions()
  /** Newest revision at the previous check. Gaps below it are not writes still in flight, because those arrive before the next check. */
  #newest = 0
  #catching: Promise<void> | undefined
  #written = 0
  #trimming: Promise<void> | undefined
  #following: Promise<void> | undefined
  #told: string | undefined

  constructor(deps: IndexerDeps) {
    this.#deps = deps
  }

  /** Reads the bucket, then the archive's indexes, in the background. Retries until everything is read. */
  async prepare(finder: Pick<IdIndex, 'prepare' | 'damaged'>): Promise<void> {
    const { clock, log } = this.#deps
    let filled = false
    for (let wait = RETRY_DELAY_MS; !this.#stop_.signal.aborted; wait = Math.min(2 * wait, MAX_RETRY_DELAY_MS)) {
      filled ||= await this.fill()
      try {
        if (filled) return await this.#read(finder)
      } catch (error) {
        log.warn({ err: error }, 'indexes of the archive not read')
      }
      await new Promise<void>((done) => clock.after(wait, done))
    }
  }

  async #read(finder: Pick<IdIndex, 'prepare' | 'damaged'>): Promise<void> {
    await finder.prepare()
    const { damaged } = finder
    if (damaged.length > 0)
      this.#deps.log.error({ segments: damaged }, 'indexes of the archive are damaged; their passes are not found by queries')
  }

  /** Starts reading indexes of newly sealed segments, unless that is in progress, so that later questions need not wait for it. */
  follow(finder: Pick<IdIndex, 'follow' | 'trouble'>): void {
    if (this.#stop_.signal.aborted) return
    const { log } = this.#deps
    this.#following ??= finder
      .follow()
      .then(() => {
        if (finder.trouble !== undefined && finder.trouble !== this.#told)
          log.warn({ trouble: finder.trouble }, 'index memory grows with the archive')
        this.#told = finder.trouble
      })
      .catch((error: unknown) => log.debug({ err: error }, 'newer indexes of the archive not read'))
      .finally(() => {
        this.#following = undefined
      })
  }

  /** Reads the whole bucket. Returns false if that failed. */
  async fill(): Promise<boolean> {
    const { table, index, clock, log } = this.#deps
    const begun = clock.monotonic()
    const { signal } = this.#stop_
    try {
      const { last } = await this.#look()
      const pace = createReadPacer(clock)
      await table.read(
        ({ data, revision }) => {
          const entry = data && decodeIndexEntry(data, revision)
          if (entry) index.put(entry, 'old')
          return pace()
        },
        { signal },
      )
      this.complete = !signal.aborted
      if (this.complete) this.#revisions.reach(last)
      log.info({ passes: index.size, ms: Math.round(clock.monotonic() - begun) }, 'index of passes is ready')
    } catch (error) {
      log.warn({ err: error }, 'index of passes not read; queries return only new passes')
    }
    return this.complete
  }

  wrote(record: RecordWithRow, revision: number): void {
    this.#deps.index.put(indexEntryOf(record, revision), 'live')
    this.#revisions.see(revision)
    if (++this.#written % WRITES_PER_TRIM === 0) this.#trimming ??= this.#trim().finally(() => (this.#trimming = undefined))
  }

  found(data: Uint8Array, revision: number): void {
    const { index, rows } = this.#deps
    const glanced = decodeRow(data)
    if (glanced) {
      index.put(indexEntryOf(glanced, revision), 'live')
      if (!rows.get(keyText(glanced.row))) rows.put(glanced.row)
    }
    this.#revisions.see(revision)
  }

  /**
   * Reads what other processes wrote: replicas, or a rebuild. Called once a second. If only this process writes, it costs one request for the extent
   * of the bucket.
   */
  catchUp(): void {
    if (!this.complete || this.#stop_.signal.aborted) return
    this.#catching ??= this.#lookForGap()
      .catch((error: unknown) => this.#deps.log.debug({ err: error }, 'records of other processes not read yet'))
      .finally(() => {
        this.#catching = undefined
      })
  }

  async #lookForGap(): Promise<void> {
    const newest = this.#newest
    this.#newest = (await this.#deps.table.extent()).last
    if (this.#revisions.reached < newest) await this.#readGap(newest)
  }

  async #readGap(until: number): Promise<void> {
    const ended = new AbortController()
    const signal = AbortSignal.any([ended.signal, this.#stop_.signal])
    const gone: { key: string; revision: number }[] = []
    const pace = createReadPacer(this.#deps.clock)
    await this.#deps.table.read(
      ({ key, data, revision }) => {
        if (revision > until) return ended.abort()
        if (this.#revisions.knows(revision)) return undefined
        if (data) this.found(data, revision)
        else gone.push({ key, revision })
        return pace()
      },
      { from: this.#revisions.reached + 1, signal },
    )
    if (this.#stop_.signal.aborted) return
    for (const { key, revision } of gone) await this.#deleted(key, revision)
    this.#revisions.reach(until)
  }

  /** Handles the deletion of a record. The same pass may have another record, for which the index had no separate entry. */
  async #deleted(deleted: string, revision: number): Promise<void> {
    const pass = parseRecordKey(deleted)
    if (pass && this.#remove(pass, deleted, revision)) await this.#readOthers(pass)
  }

  /**
   * Erases a record. An erasure leaves no revision that would notify other audits, so the other records of the pass are written again unchanged; each
   * audit then updates its entry. `goes` selects those that are being erased too, and are left alone. Returns false if the erased bytes stay on disk
   * until the server compacts.
   */
  async erase(key: string, goes: (other: Pick<Entry<PassRecord>, 'key' | 'value'>) => boolean): Promise<boolean> {
    const { table } = this.#deps
    const pass = parseRecordKey(key)
    const others: string[] = []
    if (pass) for await (const other of table.entries(recordFilter(pass))) if (other.key !== key && !goes(other)) others.push(other.key)
    for (const other of others) await this.#writeAgain(other)
    const clean = await table.erase(key)
    if (pass) this.#remove(pass, key, Number.POSITIVE_INFINITY)
    return clean
  }

  async #writeAgain(key: string): Promise<void> {
    const { table } = this.#deps
    const standing = await table.bytesOf(key)
    if (!standing?.data) return
    const { data, revision } = standing
    const outcome = await new Promise<PublishResult>((settle) => table.send(key, data, revision, settle))
    if (outcome.kind === 'stored') this.found(data, outcome.sequence)
    // If the write is lost, another process wrote the record, which has the same effect.
    else if (outcome.kind !== 'lost') throw new TableError(`${key} was not rewritten: ${outcome.kind}`, outcome)
  }

  /** Forgets passes that begin at one of these sequences and whose record is gone, because another audit erased it. */
  async forgetGone(firsts: { has(sequence: number): boolean }): Promise<void> {
    const { table, index } = this.#deps
    const gone = new Set<number>()
    const look = async (revision: number) => {
      if (!(await table.at(revision))) gone.add(revision)
    }
    await mapInBatches(index.revisionsOf(firsts), look, CONCURRENCY)
    if (gone.size > 0) index.forgetRevisions(gone)
  }

  #remove(pass: PassKey, key: string, below: number): boolean {
    return this.#deps.index.remove(pass, below, (created_at, session_id) => recordKey(pass, created_at, session_id) === key)
  }

  async #readOthers(pass: PassKey): Promise<void> {
    const { table } = this.#deps
    for await (const { key } of table.entries(recordFilter(pass))) {
      const standing = await table.bytesOf(key)
      if (standing?.data) this.found(standing.data, standing.revision)
    }
  }

  stop(): void {
    this.#stop_.abort()
  }

  async #trim(): Promise<void> {
    try {
      const { first, full } = await this.#look()
      // In a bucket with room, an entry below the lowest revision was overwritten by a replica a moment ago, or erased; it is left alone here.
      if (full) this.#deps.index.forgetBelow(first)
    } catch (error) {
      this.#deps.log.debug({ err: error }, 'deletions from the bucket not read')
    }
  }

  /** Updates the horizon: records that dropped out were written before the oldest one left, so their passes were requested before that time. */
  async #look(): Promise<{ first: number; last: number; full: boolean }> {
    const extent = await this.#deps.table.extent()
    const { first, last, first_time } = extent
    const full = isNearlyFull(extent)
    if (full && first_time !== undefined) this.horizon = Math.max(this.horizon, first_time)
    return { first, last, full }
  }
}

/** True if the bucket may have lost its oldest records. */
export function isNearlyFull({ entries, most }: Pick<TableExtent, 'entries' | 'most'>): boolean {
  return most !== undefined && entries >= most - NEARLY_FULL_ENTRIES
}
