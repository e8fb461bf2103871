import type { Archive } from '@passover/archive'
import type { Bus, Table } from '@passover/bus'
import type { Clock, JournalRules } from '@passover/core'
import { type AgentRecord, type AgentRow, keyText, type PassKey, type PassQuery, type PassRecord, type PassRow } from '@passover/schemas'
import type { AckIndex } from '../acknowledgments/ack-index.js'
import { withRowDelivery } from '../acknowledgments/delivery-status.js'
import { PassMemory, type RequestNote } from '../pass/pass-memory.js'
import type { Projector } from '../projection/projector.js'
import { buildRecord } from '../records/build-record.js'
import { recordFilter } from '../records/record-store.js'
import { matches, newestFirst, type RowCache, type RowFilter } from '../records/row-cache.js'
import type { Indexer } from '../search/index/indexer.js'
import type { PassIndex } from '../search/index/pass-index.js'
import type { ListedPass } from '../search/index/pass-order.js'
import { type MemoryListing, memoryOf } from '../search/memory-listing.js'
import type { PassSearch } from '../search/pass-search.js'

export interface PassListsDeps {
  bus: Bus
  projector: Projector
  acknowledged: Pick<AckIndex, 'has'>
  rows: RowCache
  /** Sorted lists of the passes in `projector` and `rows`. */
  listing: Pick<MemoryListing, 'passes' | 'countsOf'>
  /** Settles when `rows` contains what the bucket held at the start. */
  seeded: Promise<void>
  table: Table<PassRecord>
  archive: Archive
  agents: ReadonlyMap<string, AgentRecord>
  rules: JournalRules
  index: Pick<PassIndex, 'has' | 'agents' | 'countsOf'>
  indexing: Pick<Indexer, 'complete'>
  /** Finds passes that are not in memory. */
  search: Pick<PassSearch, 'page'>
  clock: Pick<Clock, 'monotonic'>
}

export interface ListPage {
  passes: PassRow[]
  more: boolean
}

/** Maximum number of originator-subagent pairs looked up in the index by hash, which takes less than a millisecond. */
const MOST_PAIRS = 4_096

/** Milliseconds after which no further page of recorded passes is read. */
const BUDGET_MS = 120
/**
 * Milliseconds after the end of a parent for which children are still searched. A child is requested before its parent ends, so this only covers
 * differences between the times of two messages.
 */
const AFTER_END_MS = 60_000

/** Maximum number of passes examined without a match for one answer; the sorted lists also contain passes that do not match a filter. */
const MAX_NON_MATCHING = 4_096
/** Weight of a request towards that maximum: its body has to be decoded, or even read from the stream. */
const REQUEST_WEIGHT = 16
/** Minimum number of passes fetched from the lists at a time. */
const MIN_BATCH_SIZE = 16

/** Finds passes: the latest in memory, recent ones in KV, and the rest by the archive's indexes. */
export class PassLists {
  readonly #deps: PassListsDeps

  constructor(deps: PassListsDeps) {
    this.#deps = deps
  }

  /**
   * Returns the newest matching passes, newest first. `more` is true if there may be others: they did not fit, or the time for one answer ran out
   * before everything was examined. `times` bounds when the passes were requested, if the caller knows.
   */
  async list(filter: RowFilter, limit: number, times: Pick<PassQuery, 'from' | 'to'> = {}): Promise<ListPage> {
    await this.#deps.seeded
    const { passes: remembered, more: goes_on } = await this.#fromMemory(filter, limit + 1)
    if (this.#deps.rows.complete || goes_on) return cut(remembered, limit, goes_on)
    const { passes, more } = await this.#recorded(filter, limit + 1, times)
    const known = new Set(remembered.map(keyText))
    const found = [...remembered, ...passes.filter((row) => !known.has(keyText(row)) && !this.#isNewerInMemory(row))]
    return cut(found.sort(newestFirst), limit, more)
  }

  /** Reads matching records by the index of the bucket, until there are enough or the time runs out. */
  async #recorded({ parent, ...filter }: RowFilter, count: number, times: Pick<PassQuery, 'from' | 'to'>): Promise<ListPage> {
    const { search, clock } = this.#deps
    const begun = clock.monotonic()
    const passes: PassRow[] = []
    let complete = true
    let cursor: string | undefined
    do {
      const page = await search.page({ ...filter, ...times, cursor }, count - passes.length)
      for (const { row } of page?.entries ?? []) if (parent === undefined || row.parent === parent) passes.push(row)
      complete &&= page?.complete === true
      cursor = page?.cursor
    } while (cursor !== undefined && passes.length < count && clock.monotonic() - begun < BUDGET_MS)
    return { passes, more: cursor !== undefined || !complete }
  }

  /** True if memory has a newer state of the pass. Memory then decides whether it matches, and has already listed it if it does. */
  #isNewerInMemory(row: PassRow): boolean {
    const text = keyText(row)
    return this.#isInMemory(text) || (this.#deps.rows.get(text)?.last_sequence ?? 0) > row.last_sequence
  }

  /** Returns the children of a pass, newest first. The subagent of the pass requested all of them before the pass ended. */
  below({ row, own, limit }: { row: PassRow; own: Pick<RowFilter, 'party'>; limit: number }): Promise<ListPage> {
    const to = row.ended_at === undefined ? undefined : row.ended_at + AFTER_END_MS
    return this.list({ ...own, originator: row.subagent, parent: keyText(row) }, limit, { from: row.created_at, to })
  }

  /** Returns every pass with this id, limited to the given originator and subagent if any. */
  async keys(wanted: { id: string; originator?: string | undefined; subagent?: string | undefined }): Promise<PassKey[]> {
    const { originator, subagent, id } = wanted
    if (originator !== undefined && subagent !== undefined) return [{ originator, subagent, id }]
    const found = new Map<string, PassKey>()
    const add = (key: PassKey) => {
      const fits = key.id === id && (originator ?? key.originator) === key.originator && (subagent ?? key.subagent) === key.subagent
      if (fits) found.set(keyText(key), { originator: key.originator, subagent: key.subagent, id })
    }
    const { listing, table, archive } = this.#deps
    for (const key of listing.passes.withId(id)) add(key)
    const indexed = this.#indexed(wanted)
    for (const key of indexed ?? []) add(key)
    // Finding an id among a million keys is the most expensive lookup for the server, so the bucket is read only if memory and index may miss it.
    const knowsAll = indexed !== undefined && this.#deps.indexing.complete
    if (found.size === 0 || !knowsAll) for await (const { value } of table.entries(recordFilter(wanted))) add(value.key)
    if (found.size === 0) for (const key of await archive.keysOf(id)) add(key)
    return [...found.values()]
  }

  /** Returns passes from the index, between all agents it contains, registered or not; `undefined` if there are too many pairs to try. */
  #indexed({ id, originator, subagent }: Parameters<PassLists['keys']>[0]): PassKey[] | undefined {
    const { index } = this.#deps
    const names = index.agents()
    const above = originator === undefined ? names : [originator]
    const below = subagent === undefined ? names : [subagent]
    if (above.length * below.length > MOST_PAIRS) return undefined
    const pairs = above.flatMap((one) => below.map((other) => ({ originator: one, subagent: other, id })))
    return pairs.filter((key) => index.has(key))
  }

  /** Returns every registered agent with the numbers of its open passes. */
  async agents(): Promise<AgentRow[]> {
    await this.#deps.seeded
    const { agents, index, listing } = this.#deps
    const sorted = [...agents.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
    return sorted.map((agent) => {
      const known = listing.countsOf(agent.name)
      const others = index.countsOf(agent.name)
      return {
        agent,
        open: known.open + others.open,
        waiting: known.waiting + others.waiting,
        originated: known.originated + others.originated,
      }
    })
  }

  /** Returns the newest matching passes in memory. `more` is true if too many did not match, so that there may be others, older ones included. */
  async #fromMemory(filter: RowFilter, count: number): Promise<ListPage> {
    const { listing, acknowledged } = this.#deps
    const passes: PassRow[] = []
    let left = MAX_NON_MATCHING
    let after: ListedPass | undefined
    for (;;) {
      const wanted = Math.max(MIN_BATCH_SIZE, count - passes.length)
      const some = listing.passes.newest(filter, after, wanted)
      for (const ordered of some) {
        const made = await this.#rowOf(ordered)
        const row = made && (await withRowDelivery(acknowledged, made))
        if (row && matches(row, filter)) passes.push(row)
        else left -= ordered.unread ? REQUEST_WEIGHT : 1
        if (passes.length >= count || left <= 0) return { passes, more: left <= 0 }
      }
      if (some.length < wanted) return { passes, more: false }
      after = some.at(-1)
    }
  }

  /** Returns the row of a listed pass; `undefined` if the pass is no longer in memory. */
  #rowOf({ text, key }: ListedPass): PassRow | Promise<PassRow> | undefined {
    const { projector, rows, rules } = this.#deps
    const row = rows.get(text)
    const memory = memoryOf(projector, text, row)
    if (memory) return buildRecord(memory, rules).row
    const note = projector.notes.find(text)
    return row ?? (note && this.#requestedRow(key, note))
  }

  /** Returns the row of a request. If its body was not kept in memory, reads it from the stream, if it is still there. */
  #requestedRow(key: PassKey, note: RequestNote): PassRow | Promise<PassRow> {
    const { bus, rules } = this.#deps
    if (note.body) return buildRecord(PassMemory.of(key, note), rules).row
    return bus.journal.message(note.sequence).then((stored) => buildRecord(PassMemory.of(key, { ...note, body: stored?.data }), rules).row)
  }

  /** True if the pass is open in memory; its row is then older. */
  #isInMemory(text: string): boolean {
    const { young, old } = this.#deps.projector
    return young.has(text) || old.has(text)
  }
}

function cut(rows: PassRow[], limit: number, more: boolean): ListPage {
  return { passes: rows.slice(0, limit), more: more || rows.length > limit }
}
