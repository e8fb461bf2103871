import type { Archive } from '@passover/archive'
import type { Bus, Table } from '@passover/bus'
import { type Clock, type JournalRules, passStatus, requestTime } from '@passover/core'
import {
  type AgentRecord,
  type AgentRow,
  keyText,
  type PassKey,
  type PassQuery,
  type PassRecord,
  type PassRow,
  type PassStatus,
} from '@passover/schemas'
import type { Acknowledged } from './acknowledged.js'
import { describe } from './describe.js'
import { PassMemory, type RequestNote } from './pass-memory.js'
import type { Projector } from './project.js'
import { recordFilter } from './records.js'
import { noteKey } from './request-notes.js'
import { matches, newestFirst, type RowFilter, type Rows } from './rows.js'
import type { Indexing } from './search/indexing.js'
import type { PassIndex } from './search/pass-index.js'
import type { PassSearch } from './search/pass-search.js'
import { mayBe, sentRow } from './sent.js'

export interface QueryDeps {
  bus: Bus
  projector: Projector
  acknowledged: Pick<Acknowledged, 'has'>
  rows: Rows
  /** Settles when `rows` knows what the bucket held at the start. */
  seeded: Promise<void>
  table: Table<PassRecord>
  archive: Archive
  agents: ReadonlyMap<string, AgentRecord>
  rules: JournalRules
  index: Pick<PassIndex, 'has' | 'agents' | 'withStatus'>
  indexing: Pick<Indexing, 'complete'>
  /** Finds what is not in memory. */
  search: Pick<PassSearch, 'page'>
  clock: Pick<Clock, 'monotonic'>
}

export interface Listed {
  passes: PassRow[]
  more: boolean
}

/** What may become a row, made only when it is among those shown. */
interface Candidate {
  created_at: number
  last_sequence: number
  key: PassKey
  row: () => PassRow | Promise<PassRow>
}

/** So many lookups by hash take less than a millisecond. */
const MOST_PAIRS = 4_096

/** One more page is begun no later. */
const BUDGET_MS = 120
/** A child is asked for before its parent ends: more than enough for the times of two messages. */
const AFTER_END_MS = 60_000

const OPEN: ReadonlySet<string> = new Set<PassStatus>(['requested', 'held', 'waiting_for_return'])

/** Finds passes: memory for the youngest, KV for the recent, the archive's indexes for the rest. */
export class Query {
  constructor(private readonly deps: QueryDeps) {}

  /**
   * The newest passes that match, newest first. With `more` there may be others: they did not fit, or the time of one answer was used up before
   * everything was looked at. `times`: bounds on when they were asked for, if the caller knows any.
   */
  async list(filter: RowFilter, limit: number, times: Pick<PassQuery, 'from' | 'to'> = {}): Promise<Listed> {
    await this.deps.seeded
    const remembered = await this.fromMemory(filter, limit + 1)
    if (this.deps.rows.complete) return cut(remembered, limit)
    const { passes, more } = await this.recorded(filter, limit + 1, times)
    const known = new Set(remembered.map(keyText))
    const found = [...remembered, ...passes.filter((row) => !known.has(keyText(row)) && !this.isNewerInMemory(row))]
    const listed = cut(found.sort(newestFirst), limit)
    return { ...listed, more: listed.more || more }
  }

  /** From the index of the bucket, whose records are read until there are enough or the time is used up. */
  private async recorded({ parent, ...filter }: RowFilter, count: number, times: Pick<PassQuery, 'from' | 'to'>): Promise<Listed> {
    const { search, clock } = this.deps
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

  /** Memory then decides whether the pass matches, and it is among what memory told if it does. */
  private isNewerInMemory(row: PassRow): boolean {
    const text = keyText(row)
    return this.isInMemory(text) || (this.deps.rows.get(text)?.last_sequence ?? 0) > row.last_sequence
  }

  /** The passes asked for within a pass, newest first. Its subagent asked for them all, before it ended. */
  below({ row, own, limit }: { row: PassRow; own: Pick<RowFilter, 'party'>; limit: number }): Promise<Listed> {
    const to = row.ended_at === undefined ? undefined : row.ended_at + AFTER_END_MS
    return this.list({ ...own, originator: row.subagent, parent: keyText(row) }, limit, { from: row.created_at, to })
  }

  /** Every pass with this id (and these parties, as far as they are named). */
  async keys(wanted: { id: string; originator?: string | undefined; subagent?: string | undefined }): Promise<PassKey[]> {
    const { originator, subagent, id } = wanted
    if (originator !== undefined && subagent !== undefined) return [{ originator, subagent, id }]
    const found = new Map<string, PassKey>()
    const add = (key: PassKey) => {
      const fits = key.id === id && (originator ?? key.originator) === key.originator && (subagent ?? key.subagent) === key.subagent
      if (fits) found.set(keyText(key), { originator: key.originator, subagent: key.subagent, id })
    }
    const { projector, rows, table, archive } = this.deps
    for (const tracked of [...projector.young.values(), ...projector.old.values()]) add(tracked.memory.key)
    for (const note of projector.notes.values()) addKey(noteKey(note), add)
    for (const row of rows.values()) add(row)
    const indexed = this.indexed(wanted)
    for (const key of indexed ?? []) add(key)
    // To look for an id among a million keys costs the server more than all the rest: it is asked only where nobody else knows all.
    const knowsAll = indexed !== undefined && this.deps.indexing.complete
    if (found.size === 0 || !knowsAll) for await (const { value } of table.entries(recordFilter(wanted))) add(value.key)
    if (found.size === 0) for (const key of await archive.keysOf(id)) add(key)
    return [...found.values()]
  }

  /** Those of the index, between agents that it speaks of, registered or no longer; undefined: they are too many to try them all. */
  private indexed({ id, originator, subagent }: Parameters<Query['keys']>[0]): PassKey[] | undefined {
    const { index } = this.deps
    const names = index.agents()
    const above = originator === undefined ? names : [originator]
    const below = subagent === undefined ? names : [subagent]
    if (above.length * below.length > MOST_PAIRS) return undefined
    const pairs = above.flatMap((one) => below.map((other) => ({ originator: one, subagent: other, id })))
    return pairs.filter((key) => index.has(key))
  }

  /** Every registered agent, with what is open for it. */
  async agents(): Promise<AgentRow[]> {
    await this.deps.seeded
    const counts = new Map<string, { open: number; waiting: number; originated: number }>()
    const of = (name: string) => {
      const known = counts.get(name) ?? { open: 0, waiting: 0, originated: 0 }
      counts.set(name, known)
      return known
    }
    for (const { key, status } of this.openPasses()) {
      if (!OPEN.has(status)) continue
      of(key.originator).originated++
      if (status === 'waiting_for_return') of(key.subagent).open++
      else of(key.subagent).waiting++
    }
    return [...this.deps.agents.values()].sort((a, b) => (a.name < b.name ? -1 : 1)).map((agent) => ({ agent, ...of(agent.name) }))
  }

  /** Every open pass once. The index knows all records of the bucket, memory what is not in a record yet. */
  private *openPasses(): Generator<{ key: Pick<PassKey, 'originator' | 'subagent'>; status: string }> {
    const { projector, rows, index } = this.deps
    const inMemory = new Map<string, PassMemory>()
    for (const { memory } of this.openMemories()) inMemory.set(keyText(memory.key), memory)
    for (const memory of projector.unrecorded()) inMemory.set(keyText(memory.key), memory)
    for (const { key, journal } of inMemory.values()) yield { key, status: passStatus(journal) }
    for (const note of projector.notes.values()) {
      const key = noteKey(note)
      if (key && !this.isKnown(keyText(key)) && !index.has(key)) yield { key, status: 'requested' }
    }
    for (const row of rows.values()) if (!inMemory.has(keyText(row)) && !index.has(row)) yield { key: row, status: row.status }
    const recorded = Array.from(inMemory.values(), ({ key }) => key)
    for (const { status, ...key } of index.withStatus(OPEN, recorded)) yield { key, status }
  }

  private async fromMemory(filter: RowFilter, count: number): Promise<PassRow[]> {
    const found: PassRow[] = []
    for (const candidate of this.candidates(filter).sort(newerFirst)) {
      const row = await sentRow(this.deps.acknowledged, await candidate.row())
      if (matches(row, filter)) found.push(row)
      if (found.length >= count) break
    }
    return found
  }

  private candidates(filter: RowFilter): Candidate[] {
    const { projector, rows, rules } = this.deps
    const { status, ...others } = filter
    const { session_id, parent, ...parties } = others
    const fits = (key: PassKey) => matches({ ...key, status: '', created_at: 0, last_sequence: 0 }, parties)
    const found: Candidate[] = []
    for (const { memory } of this.openMemories()) {
      const right = fits(memory.key) && (status === undefined || passStatus(memory.journal) === status)
      if (right)
        found.push({ created_at: createdAt(memory), last_sequence: memory.last, key: memory.key, row: () => describe(memory, rules).row })
    }
    for (const note of projector.notes.values()) {
      const key = noteKey(note)
      if (!key || this.isKnown(keyText(key)) || !fits(key) || (status ?? 'requested') !== 'requested') continue
      found.push({ created_at: note.time, last_sequence: note.sequence, key, row: () => this.requestedRow(key, note) })
    }
    for (const row of rows.values()) {
      if (!this.isInMemory(keyText(row)) && mayBe(row.status, status) && matches(row, others))
        found.push({ created_at: row.created_at, last_sequence: row.last_sequence, key: row, row: () => row })
    }
    return found
  }

  /** A request's body may have been left out of memory: then it is read again, if it is still there. */
  private requestedRow(key: PassKey, note: RequestNote): PassRow | Promise<PassRow> {
    const { bus, rules } = this.deps
    if (note.body) return describe(PassMemory.of(key, note), rules).row
    return bus.journal.message(note.sequence).then((stored) => describe(PassMemory.of(key, { ...note, body: stored?.data }), rules).row)
  }

  private openMemories() {
    const { young, old } = this.deps.projector
    return [...young.values(), ...old.values()]
  }

  /** Open in memory: what rows say about it is older. */
  private isInMemory(text: string): boolean {
    const { young, old } = this.deps.projector
    return young.has(text) || old.has(text)
  }

  private isKnown(text: string): boolean {
    return this.isInMemory(text) || this.deps.rows.get(text) !== undefined
  }
}

function createdAt(memory: PassMemory): number {
  const first = memory.noted[0]?.fact
  return (first?.type === 'step' ? requestTime(first) : undefined) ?? memory.begun
}

function newerFirst(a: Candidate, b: Candidate): number {
  return b.created_at - a.created_at || b.last_sequence - a.last_sequence
}

function addKey(key: PassKey | undefined, add: (key: PassKey) => void): void {
  if (key) add(key)
}

function cut(rows: PassRow[], limit: number): Listed {
  return { passes: rows.slice(0, limit), more: rows.length > limit }
}
