import type { IdFinder } from '@passover/archive'
import type { Table, TableExtent } from '@passover/bus'
import type { Clock } from '@passover/core'
import type { PassKey, PassRecord } from '@passover/schemas'
import type { Logger } from 'pino'
import { passOf, type Recorded, recordFilter, recordKey, type Standing } from '../records.js'
import { indexedBytes, indexedOf } from './indexed.js'
import { paced } from './paced.js'
import type { PassIndex } from './pass-index.js'
import { Revisions } from './revisions.js'

/** Records written between two looks at what fell out of the bucket. */
const WRITES_A_TRIM = 8_192
/** A bucket with so few places left may have lost its oldest. */
const PLACES_LEFT = 1_024
const AGAIN_MS = 5_000
const MOST_AGAIN_MS = 60_000

export interface IndexingDeps {
  table: Pick<Table<PassRecord>, 'read' | 'extent' | 'entries' | 'bytesOf'>
  index: PassIndex
  clock: Clock
  log: Logger
}

/** Keeps the index as the bucket is: what stands there at the start is read in the background, what is written is noted as it is written. */
export class Indexing implements Standing {
  /** Everything that stood in the bucket at the start was read. */
  complete = false
  /** Passes that were asked for before that (ms) may have fallen out of the bucket. */
  horizon = Number.NEGATIVE_INFINITY
  private readonly stop_ = new AbortController()
  private readonly revisions = new Revisions()
  /** The gap that there was when it was looked last: what is only under way has closed it by the next look. */
  private gap: number | undefined
  private catching: Promise<void> | undefined
  private written = 0
  private trimming: Promise<void> | undefined
  private following: Promise<void> | undefined
  private told: string | undefined

  constructor(private readonly deps: IndexingDeps) {}

  /** Fills itself, and then what finds ids in the archive; what could not be read is tried again until it is. Nobody waits for it. */
  async prepare(finder: Pick<IdFinder, 'prepare' | 'damaged'>): Promise<void> {
    const { clock, log } = this.deps
    let filled = false
    for (let wait = AGAIN_MS; !this.stop_.signal.aborted; wait = Math.min(2 * wait, MOST_AGAIN_MS)) {
      filled ||= await this.fill()
      try {
        if (filled) return await this.read(finder)
      } catch (error) {
        log.warn({ err: error }, 'indexes of the archive not read')
      }
      await new Promise<void>((done) => clock.after(wait, done))
    }
  }

  private async read(finder: Pick<IdFinder, 'prepare' | 'damaged'>): Promise<void> {
    await finder.prepare()
    const { damaged } = finder
    if (damaged.length > 0) this.deps.log.error({ segments: damaged }, 'indexes of the archive are damaged: what they say is not found')
  }

  /** What was sealed since is read, where that is not under way, so that who asks later need not wait for it. */
  follow(finder: Pick<IdFinder, 'follow' | 'trouble'>): void {
    if (this.stop_.signal.aborted) return
    const { log } = this.deps
    this.following ??= finder
      .follow()
      .then(() => {
        if (finder.trouble !== undefined && finder.trouble !== this.told)
          log.warn({ trouble: finder.trouble }, 'memory grows with the archive')
        this.told = finder.trouble
      })
      .catch((error: unknown) => log.debug({ err: error }, 'newer indexes of the archive not read'))
      .finally(() => {
        this.following = undefined
      })
  }

  /** Settles when all is read; false where it could not be. */
  async fill(): Promise<boolean> {
    const { table, index, clock, log } = this.deps
    const begun = clock.monotonic()
    const { signal } = this.stop_
    try {
      const { last } = await this.look()
      const pace = paced(clock)
      await table.read(
        ({ data, revision }) => {
          const entry = data && indexedBytes(data, revision)
          if (entry) index.put(entry, 'old')
          return pace()
        },
        { signal },
      )
      this.complete = !signal.aborted
      if (this.complete) this.revisions.reach(last)
      log.info({ passes: index.size, ms: Math.round(clock.monotonic() - begun) }, 'index of passes is ready')
    } catch (error) {
      log.warn({ err: error }, 'index of passes not read: queries tell only what is new')
    }
    return this.complete
  }

  wrote(record: Recorded, revision: number): void {
    this.deps.index.put(indexedOf(record, revision), 'live')
    this.revisions.see(revision)
    if (++this.written % WRITES_A_TRIM === 0) this.trimming ??= this.trim().finally(() => (this.trimming = undefined))
  }

  found(data: Uint8Array, revision: number): void {
    const entry = indexedBytes(data, revision)
    if (entry) this.deps.index.put(entry, 'live')
    this.revisions.see(revision)
  }

  /**
   * Reads what other processes wrote between the records of this one: a replica's, or a rebuild's. Called once a second; costs nothing where this
   * process writes alone.
   */
  catchUp(): void {
    const { gap } = this
    this.gap = this.revisions.gapBelow
    if (!this.complete || gap === undefined || this.revisions.reached >= gap || this.stop_.signal.aborted) return
    this.catching ??= this.readGap(gap)
      .catch((error: unknown) => this.deps.log.debug({ err: error }, 'records of other processes not read yet'))
      .finally(() => {
        this.catching = undefined
      })
  }

  private async readGap(until: number): Promise<void> {
    const ended = new AbortController()
    const signal = AbortSignal.any([ended.signal, this.stop_.signal])
    const gone: { key: string; revision: number }[] = []
    const pace = paced(this.deps.clock)
    await this.deps.table.read(
      ({ key, data, revision }) => {
        if (revision > until) return ended.abort()
        if (this.revisions.knows(revision)) return undefined
        if (data) this.found(data, revision)
        else gone.push({ key, revision })
        return pace()
      },
      { from: this.revisions.reached + 1, signal },
    )
    if (this.stop_.signal.aborted) return
    for (const { key, revision } of gone) await this.deleted(key, revision)
    this.revisions.reach(until)
  }

  /** A record was deleted. Another one of the same pass may be left, which the index did not tell beside it. */
  private async deleted(deleted: string, revision: number): Promise<void> {
    const pass = passOf(deleted)
    if (pass && this.remove(pass, deleted, revision)) await this.readOthers(pass)
  }

  /** A record was erased, which leaves no revision to be read. */
  async erased(key: string): Promise<void> {
    const pass = passOf(key)
    if (!pass) return
    this.remove(pass, key, Number.POSITIVE_INFINITY)
    await this.readOthers(pass)
  }

  private remove(pass: PassKey, key: string, below: number): boolean {
    return this.deps.index.remove(pass, below, (created_at, session_id) => recordKey(pass, created_at, session_id) === key)
  }

  private async readOthers(pass: PassKey): Promise<void> {
    const { table } = this.deps
    for await (const { key } of table.entries(recordFilter(pass))) {
      const standing = await table.bytesOf(key)
      if (standing?.data) this.found(standing.data, standing.revision)
    }
  }

  stop(): void {
    this.stop_.abort()
  }

  private async trim(): Promise<void> {
    try {
      const { first, full } = await this.look()
      // Below the lowest revision lies also what a replica wrote over a moment ago, and what was erased.
      if (full) this.deps.index.forgetBelow(first)
    } catch (error) {
      this.deps.log.debug({ err: error }, 'not seen what fell out of the bucket')
    }
  }

  /** What fell out was written before the oldest that is there, so it was asked for before that. */
  private async look(): Promise<{ first: number; last: number; full: boolean }> {
    const extent = await this.deps.table.extent()
    const { first, last, first_time } = extent
    const full = isNearlyFull(extent)
    if (full && first_time !== undefined) this.horizon = Math.max(this.horizon, first_time)
    return { first, last, full }
  }
}

/** Whether the bucket may have lost its oldest records. */
export function isNearlyFull({ entries, most }: Pick<TableExtent, 'entries' | 'most'>): boolean {
  return most !== undefined && entries >= most - PLACES_LEFT
}
