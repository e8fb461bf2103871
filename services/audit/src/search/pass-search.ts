import type { Table } from '@passover/bus'
import type { CheckSchema, Clock } from '@passover/core'
import type { PassQuery, PassRecord, PassRow, QueriedPass, RecordedDecision } from '@passover/schemas'
import type { AckIndex } from '../acknowledgments/ack-index.js'
import { withRecordDelivery, withRowDelivery } from '../acknowledgments/delivery-status.js'
import { ifIndexed, type LoadDeps, loadPass } from '../pass/load-pass.js'
import { objectiveOf } from '../pass/request-preview.js'
import type { Projector } from '../projection/projector.js'
import { buildCheckedRecord, rowOf } from '../records/build-record.js'
import { isBefore, type ListPosition, listCursor, parseListCursor, positionOf } from '../records/list-cursor.js'
import type { ArchiveSearch } from './archive-search.js'
import { type IndexFilter, isDecided } from './index/index-filter.js'
import type { Indexer } from './index/indexer.js'
import type { PassIndex } from './index/pass-index.js'
import type { MemoryListing } from './memory-listing.js'
import { createNeedle, type Needle, recordContains, seesObjective, withoutOutput } from './text-match.js'
import { newestUnrecorded } from './unrecorded-passes.js'

export interface SearchDeps extends LoadDeps {
  clock: Clock
  table: Pick<Table<PassRecord>, 'at'>
  index: PassIndex
  indexing: Pick<Indexer, 'complete' | 'horizon'>
  projector: Pick<Projector, 'young' | 'notes' | 'unwritten'>
  listing: Pick<MemoryListing, 'unrecorded'>
  acknowledged: Pick<AckIndex, 'has'>
  check: CheckSchema | undefined
  /** Finds passes whose records dropped out of the bucket. */
  older: Pick<ArchiveSearch, 'search'>
}

export interface SearchPage {
  entries: QueriedPass[]
  cursor?: string
  scanned?: { passes: number; since?: number }
  complete: boolean
}

/** Position of a pass that may match, and a function that loads its record: `unread` if that needs indexes of the archive that are not read yet. */
export interface SearchHit extends ListPosition {
  record: () => Promise<PassRecord | 'unread' | undefined>
}

interface SearchCriteria {
  filter: IndexFilter
  needle: Needle | undefined
}

interface Found {
  finds: SearchHit[]
  /** Set if passes beyond this position were not examined yet. */
  reached?: ListPosition
  /** True while indexes of the archive are still being read. */
  incomplete?: boolean
}

/** Time budget of one page in ms, checked between reads. */
const BUDGET_MS = 120
/** Maximum size of a page, which travels as one message. */
const MAX_PAGE_BYTES = 600 * 1024
/** Maximum number of candidates requested from the index at a time. */
const CANDIDATES_PER_BATCH = 128
/** Number of records read between two checks of the time. Records that are far apart are slow: the server loads a block of 1 MB for each. */
const READS_PER_CHECK = 8
const TEXT_READS_PER_CHECK = 64

/** Finds recorded passes, newest first: by the index and their records in the bucket, and in memory for passes without a record yet. */
export class PassSearch {
  readonly #deps: SearchDeps

  constructor(deps: SearchDeps) {
    this.#deps = deps
  }

  /** Returns one page of matches; `undefined` if the cursor is invalid. */
  async page(query: PassQuery & { party?: string | undefined }, limit: number): Promise<SearchPage | undefined> {
    const { cursor, text, limit: _, ...filter } = query
    const after = cursor === undefined ? undefined : parseListCursor(cursor)
    if (cursor !== undefined && !after) return undefined
    const page = new OpenPage(limit, this.#deps.clock)
    const needle = text === undefined ? undefined : createNeedle(text)
    let from = after
    do {
      const wanted = needle ? CANDIDATES_PER_BATCH : Math.min(CANDIDATES_PER_BATCH, limit - page.entries.length)
      const { finds, reached, incomplete } = await this.#finds(filter, from, wanted + 1)
      if (incomplete) page.complete = false
      if (!(await this.#fill(page, finds.slice(0, wanted), { filter, needle }))) break
      if (finds.length <= wanted) {
        if (!reached) return page.end(this.#deps.indexing.complete)
        page.pass(reached)
      }
      from = page.last
    } while (!page.isFull)
    return page.cut(this.#deps.indexing.complete)
  }

  /** Adds matching candidates to the page. Returns false if the page ended before all of them were examined. */
  async #fill(page: OpenPage, finds: readonly SearchHit[], { filter, needle }: SearchCriteria): Promise<boolean> {
    const at_once = needle ? TEXT_READS_PER_CHECK : READS_PER_CHECK
    for (let begin = 0; begin < finds.length; begin += at_once) {
      if (begin > 0 && page.isFull) return false
      const some = finds.slice(begin, begin + at_once)
      const found = await Promise.all(some.map((find) => this.#look(page, find, { filter, needle })))
      if (some.some((find, at) => !page.take(find, found[at]))) return false
    }
    return true
  }

  /** Returns the next `count` passes that may match, from memory, bucket and archive. */
  async #finds(filter: IndexFilter, after: ListPosition | undefined, count: number): Promise<Found> {
    const recent = this.#recent(filter, after, count)
    const { horizon } = this.#deps.indexing
    const until = recent.length < count ? undefined : recent.at(-1)
    if (until && until.created_at >= horizon) return { finds: recent }
    if (horizon === Number.NEGATIVE_INFINITY) return { finds: recent }
    const { found, reached, complete } = await this.#deps.older.search(filter, { after, until, horizon })
    const older = found.map(({ position, record }) => ({ ...position, record: async () => record }))
    const finds = [...recent, ...older].sort((a, b) => (isBefore(a, b) ? -1 : 1)).filter((find) => !reached || !isBefore(reached, find))
    const incomplete = !complete
    return finds.length <= count && reached ? { finds, reached, incomplete } : { finds: finds.slice(0, count), incomplete }
  }

  /** Returns candidates that are in the bucket or in memory. */
  #recent(filter: IndexFilter, after: ListPosition | undefined, count: number): SearchHit[] {
    const { index } = this.#deps
    const pending = newestUnrecorded(this.#deps, filter, { after, count }).map(({ memory, created_at, sequence }) => ({
      created_at,
      sequence,
      record: async () => (await buildCheckedRecord(memory, this.#deps.rules, this.#deps.check)).record,
    }))
    const known = new Set(pending.map(listCursor))
    const indexed: SearchHit[] = index
      .newest(filter, after, count)
      .filter((candidate) => !known.has(listCursor(candidate)))
      .map(({ created_at, sequence, revision }) => ({ created_at, sequence, record: () => this.#recordAt(revision, sequence) }))
    if (pending.length === 0) return indexed
    return [...pending, ...indexed].sort((a, b) => (isBefore(a, b) ? -1 : 1)).slice(0, count)
  }

  /** Returns a record; if it was overwritten a moment ago or dropped out of the bucket, builds it from the pass's messages. */
  async #recordAt(revision: number, first: number): Promise<PassRecord | 'unread' | undefined> {
    const { bus, archive, table, rules, check } = this.#deps
    const found = await table.at(revision)
    if (found) return found.value
    const stored = (await bus.journal.message(first)) ?? (await archive.messages([first]))[0]
    const fact = stored && bus.subjects.toFact(stored)
    const key =
      fact?.type === 'step'
        ? fact.key
        : fact?.type === 'request' && fact.id !== undefined
          ? { originator: fact.originator, subagent: fact.subagent, id: fact.id }
          : undefined
    if (!key) return undefined
    const loaded = await ifIndexed(loadPass(this.#deps, key, { up_to: (await bus.bounds()).last, request: first }))
    return loaded ? (await buildCheckedRecord(loaded.memory, rules, check)).record : 'unread'
  }

  /** Loads a candidate; returns `undefined` if it does not match. The page is incomplete if that is not known yet. */
  async #look(page: OpenPage, find: SearchHit, { filter, needle }: SearchCriteria): Promise<QueriedPass | undefined> {
    const record = await find.record()
    if (record === 'unread') page.complete = false
    if (!record || record === 'unread' || (needle && !(await this.#says(withoutOutput(record, filter.party), needle, filter.party))))
      return undefined
    const row = await withRowDelivery(this.#deps.acknowledged, rowOf(record))
    if (!matches(withRecordDelivery(record, row.send === 'acknowledged' ? { at: undefined } : undefined), row, filter)) return undefined
    return queried(record, row)
  }

  async #says(record: PassRecord, needle: Needle, asker: string | undefined): Promise<boolean> {
    if (recordContains(record, needle)) return true
    const { bus, archive } = this.#deps
    const request = record.sequences.requests[0]
    if (request === undefined || !seesObjective(record, asker)) return false
    const stored = (await bus.journal.message(request)) ?? (await archive.messages([request]))[0]
    if (!stored || !needle.mayBeIn(stored.data)) return false
    return needle.isIn((await objectiveOf(bus, stored)) ?? '')
  }
}

/** A page that is being filled. */
class OpenPage {
  readonly #limit: number
  readonly #clock: Clock
  readonly entries: QueriedPass[] = []
  /** False if passes may be missing. */
  complete = true
  /** Position of the last pass examined. */
  last: ListPosition | undefined
  readonly #begun: number
  #bytes = 0
  #looked = 0

  constructor(limit: number, clock: Clock) {
    this.#limit = limit
    this.#clock = clock
    this.#begun = clock.monotonic()
  }

  get isFull(): boolean {
    const begun = this.#begun
    const bytes = this.#bytes
    const limit = this.#limit
    const clock = this.#clock
    const { entries } = this
    return entries.length >= limit || bytes >= MAX_PAGE_BYTES || clock.monotonic() - begun >= BUDGET_MS
  }

  /** Adds an examined pass. Returns false if there was no room, so that the pass starts the next page. The first match is always added. */
  take(find: ListPosition, found: QueriedPass | undefined): boolean {
    if (found) {
      const size = Buffer.byteLength(JSON.stringify(found))
      if (this.entries.length > 0 && (this.#bytes + size > MAX_PAGE_BYTES || this.entries.length >= this.#limit)) return false
      this.entries.push(found)
      this.#bytes += size
    }
    this.#looked++
    this.last = { created_at: find.created_at, sequence: find.sequence }
    return true
  }

  /** Records that everything down to this position was examined. */
  pass(reached: ListPosition): void {
    this.last = reached
  }

  end(indexed: boolean): SearchPage {
    return { entries: this.entries, complete: this.complete && indexed }
  }

  cut(indexed: boolean): SearchPage {
    const looked = this.#looked
    const { last } = this
    const page = this.end(indexed)
    return last ? { ...page, cursor: listCursor(last), scanned: { passes: looked, since: last.created_at } } : page
  }
}

/** True if a record matches the filter. The index only says which records may match. */
export function matches(record: PassRecord, row: PassRow, filter: IndexFilter): boolean {
  const { originator, subagent, session_id, status, code, decision, party } = filter
  const { key, entry, decisions } = record
  const { created_at } = positionOf(record)
  return (
    (originator === undefined || key.originator === originator) &&
    (subagent === undefined || key.subagent === subagent) &&
    (party === undefined || key.originator === party || key.subagent === party) &&
    (session_id === undefined || (record.session_id ?? '') === session_id) &&
    (status === undefined || row.status === status || entry?.status === status) &&
    (code === undefined || row.code === code) &&
    (decision === undefined || isDecided(decisions, decision)) &&
    created_at >= (filter.from ?? 0) &&
    created_at < (filter.to ?? Number.POSITIVE_INFINITY)
  )
}

function queried(record: PassRecord, row: PassRow): QueriedPass {
  const decisions: RecordedDecision[] = record.decisions
  return { row, ...(record.entry ? { entry: record.entry } : {}), ...(decisions.length > 0 ? { decisions } : {}) }
}
