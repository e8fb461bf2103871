import type { IdFinder } from '@passover/archive'
import type { Table } from '@passover/bus'
import type { Clock } from '@passover/core'
import type { PassRecord, PassRow } from '@passover/schemas'
import type { Logger } from 'pino'
import type { StoredRecord } from '../brief.js'
import { indexedBytes, indexedOf } from './indexed.js'
import type { PassIndex } from './pass-index.js'

/** Records read between two looks at the time, and how long at once: the reader of the stream comes first. */
const READ_AT_ONCE = 128
const MOST_AT_ONCE_MS = 4
/** Records written between two looks at what fell out of the bucket. */
const WRITES_A_TRIM = 8_192
/** A bucket with so few places left may have lost its oldest. */
const PLACES_LEFT = 1_024
const AGAIN_MS = 5_000
const MOST_AGAIN_MS = 60_000

export interface IndexingDeps {
  table: Pick<Table<PassRecord>, 'read' | 'extent'>
  index: PassIndex
  clock: Clock
  log: Logger
}

/** Keeps the index as the bucket is: what stands there at the start is read in the background, what is written is noted as it is written. */
export class Indexing {
  /** Everything that stood in the bucket at the start was read. */
  complete = false
  /** Passes that were asked for before that (ms) may have fallen out of the bucket. */
  horizon = Number.NEGATIVE_INFINITY
  private readonly stop_ = new AbortController()
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
    let since = begun
    let read = 0
    try {
      await this.look()
      await table.read(({ data, revision }) => {
        const entry = indexedBytes(data, revision)
        if (entry) index.put(entry, 'old')
        if (++read % READ_AT_ONCE !== 0) return undefined
        const spent = clock.monotonic() - since
        if (spent < MOST_AT_ONCE_MS) return undefined
        return new Promise<void>((done) => {
          clock.after(spent, () => {
            since = clock.monotonic()
            done()
          })
        })
      }, this.stop_.signal)
      this.complete = !this.stop_.signal.aborted
      log.info({ passes: index.size, ms: Math.round(clock.monotonic() - begun) }, 'index of passes is ready')
    } catch (error) {
      log.warn({ err: error }, 'index of passes not read: queries tell only what is new')
    }
    return this.complete
  }

  /** A record stands in the bucket with that revision. */
  note(stored: StoredRecord, row: PassRow, revision: number): void {
    this.deps.index.put(indexedOf({ stored, row }, revision), 'live')
    if (++this.written % WRITES_A_TRIM === 0) this.trimming ??= this.trim().finally(() => (this.trimming = undefined))
  }

  stop(): void {
    this.stop_.abort()
  }

  private async trim(): Promise<void> {
    try {
      const { first } = await this.look()
      this.deps.index.forgetBelow(first)
    } catch (error) {
      this.deps.log.debug({ err: error }, 'not seen what fell out of the bucket')
    }
  }

  /** What fell out was written before the oldest that is there, so it was asked for before that. */
  private async look(): Promise<{ first: number }> {
    const { first, first_time, entries, most } = await this.deps.table.extent()
    if (most !== undefined && entries >= most - PLACES_LEFT && first_time !== undefined) this.horizon = Math.max(this.horizon, first_time)
    return { first }
  }
}
