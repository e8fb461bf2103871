import type { Table } from '@passover/bus'
import type { Clock } from '@passover/core'
import { type IndexAnswer, keyText, type PassRecord } from '@passover/schemas'
import type { Logger } from 'pino'
import { BLOCK_SIZE, type Block } from './index/column-block.js'
import { decodeIndexEntry } from './index/index-entry.js'
import { isNearlyFull } from './index/indexer.js'
import type { IndexEntry, IndexSlot, PassIndex } from './index/pass-index.js'
import { createReadPacer } from './index/read-pacer.js'

export interface IndexVerifierDeps {
  table: Pick<Table<PassRecord>, 'read' | 'extent' | 'bytesOf' | 'at'>
  index: PassIndex
  clock: Clock
  log: Logger
}

export type IndexComparison = Omit<Extract<IndexAnswer, { ok: true }>, 'ok' | 'complete'>

/** Milliseconds before a difference is checked again; by then, recent writes have reached the index. */
const SETTLE_MS = 1_000
/** Number of differences checked again together. */
const BATCH_SIZE = 256
/** Maximum number of differences described in the answer. */
const MAX_DIFFERENCES_SHOWN = 20

/**
 * Compares the index with the bucket: each record with its index entry, and each entry with the existence of its record. Differences are checked
 * again after a moment, so that records written meanwhile are not reported.
 */
export class IndexVerifier {
  readonly #deps: IndexVerifierDeps
  #running: Promise<IndexComparison> | undefined
  #mending: Promise<IndexComparison> | undefined

  constructor(deps: IndexVerifierDeps) {
    this.#deps = deps
  }

  /** Compares, and with `mend` corrects index entries that differ from their records. Concurrent calls with the same `mend` share one run. */
  run(mend: boolean): Promise<IndexComparison> {
    if (mend) {
      this.#mending ??= this.#compare(true).finally(() => {
        this.#mending = undefined
      })
      return this.#mending
    }
    this.#running ??= this.#compare(false).finally(() => {
      this.#running = undefined
    })
    return this.#running
  }

  async #compare(mend: boolean): Promise<IndexComparison> {
    const { table, index, clock, log } = this.#deps
    const { last } = await table.extent()
    const told: IndexComparison = { records: 0, wrong: 0, mended: 0, shown: [] }
    const marks = new Marks()
    let doubtful: SuspectEntry[] = []
    const pace = createReadPacer(clock)
    await table.read(({ key, data, revision }) => {
      const entry = data && decodeIndexEntry(data, revision)
      if (!entry) return undefined
      told.records++
      const place = index.find(entry.key)
      if (place && place.block.revision[place.at] === revision) marks.set(place)
      if (revision > last || !isWrong(index, place, entry)) return pace()
      if (doubtful.push({ key, revision }) < BATCH_SIZE) return pace()
      const some = doubtful
      doubtful = []
      return this.#settle(some, { marks, mend, told })
    })
    await this.#settle(doubtful, { marks, mend, told })
    await this.#settleUnmarked({ marks, last, mend, told })
    if (told.wrong > 0) log.error({ ...told }, 'the index of passes differed from their records')
    return told
  }

  async #settle(doubtful: readonly SuspectEntry[], { marks, mend, told }: SettleContext): Promise<void> {
    if (doubtful.length === 0) return
    const { table, index } = this.#deps
    await this.#wait()
    for (const { key, revision } of doubtful) {
      const standing = await table.bytesOf(key)
      if (standing?.revision !== revision || !standing.data) continue
      const entry = decodeIndexEntry(standing.data, revision)
      const place = entry && index.find(entry.key)
      if (!entry || !isWrong(index, place, entry)) continue
      tell(told, { pass: keyText(entry.key), what: (place && index.differenceAt(place, entry)) ?? 'no entry for this pass' })
      if (place) marks.set(place)
      if (!mend) continue
      index.put(entry, 'mended')
      told.mended++
    }
  }

  /** Checks entries for which no record was read. */
  async #settleUnmarked({ marks, last, mend, told }: SettleContext & { last: number }): Promise<void> {
    const { table, index } = this.#deps
    const extent = await table.extent()
    // Records that dropped out of a full bucket are not differences.
    if (isNearlyFull(extent)) index.forgetBelow(extent.first)
    const lines = marks.missing(index.scan({}).blocks).filter(({ revision }) => revision <= last)
    if (lines.length === 0) return
    await this.#wait()
    const gone = new Set<number>()
    for (const { block, at, revision } of lines) {
      // The entry was overwritten or removed meanwhile.
      if (block.revision[at] !== revision || (await table.at(revision))) continue
      if (block.revision[at] !== revision) continue
      tell(told, { what: `an entry for the pass that begins at sequence ${block.first[at]}, which has no record` })
      gone.add(revision)
    }
    if (!mend) return
    index.forgetRevisions(gone)
    told.mended += gone.size
  }

  #wait(): Promise<void> {
    return new Promise((done) => this.#deps.clock.after(SETTLE_MS, done))
  }
}

/** True if an entry differs from a record. An entry with a higher revision is correct: it describes a newer record of the pass. */
function isWrong(index: PassIndex, place: IndexSlot | undefined, entry: IndexEntry): boolean {
  if (!place) return true
  return (place.block.revision[place.at] ?? 0) <= entry.revision && index.differenceAt(place, entry) !== undefined
}

interface SettleContext {
  marks: Marks
  mend: boolean
  told: IndexComparison
}

interface SuspectEntry {
  key: string
  revision: number
}

function tell(told: IndexComparison, difference: IndexComparison['shown'][number]): void {
  told.wrong++
  if (told.shown.length < MAX_DIFFERENCES_SHOWN) told.shown.push(difference)
}

/** Index entries whose record was read. */
class Marks {
  readonly #marked = new Map<Block, Uint8Array>()

  set({ block, at }: IndexSlot): void {
    const known = this.#marked.get(block) ?? new Uint8Array(BLOCK_SIZE)
    known[at] = 1
    this.#marked.set(block, known)
  }

  missing(blocks: readonly Block[]): (IndexSlot & { revision: number })[] {
    return blocks.flatMap((block) => {
      const marked = this.#marked.get(block)
      const found: (IndexSlot & { revision: number })[] = []
      for (let at = 0; at < block.used; at++) {
        const revision = block.revision[at] ?? 0
        if (revision !== 0 && marked?.[at] !== 1) found.push({ block, at, revision })
      }
      return found
    })
  }
}
