import type { Archive } from '@passover/archive'
import type { Bus, Table } from '@passover/bus'
import { type JournalRules, passStatus, requestTime } from '@passover/core'
import { type AgentRecord, type AgentRow, keyText, type PassKey, type PassRecord, type PassRow } from '@passover/schemas'
import type { Acknowledged } from './acknowledged.js'
import { describe, rowOf } from './describe.js'
import { PassMemory, type RequestNote } from './pass-memory.js'
import type { Projector } from './project.js'
import { recordFilter } from './records.js'
import { noteKey } from './request-notes.js'
import { matches, newestFirst, type RowFilter, type Rows } from './rows.js'
import type { Indexing } from './search/indexing.js'
import type { PassIndex } from './search/pass-index.js'
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
  index: Pick<PassIndex, 'has' | 'agents'>
  indexing: Pick<Indexing, 'complete'>
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

const OPEN = new Set(['requested', 'held', 'waiting_for_return'])

/** Finds passes: memory for the youngest, KV for the recent, the archive's indexes for the rest. */
export class Query {
  constructor(private readonly deps: QueryDeps) {}

  /** The newest passes that match, newest first. */
  async list(filter: RowFilter, limit: number): Promise<Listed> {
    await this.deps.seeded
    const found = await this.fromMemory(filter, limit + 1)
    if (found.length > limit || this.deps.rows.complete) return cut(found, limit)
    // Without a name to filter by, the server would have to send every record there is.
    if (recordFilter(filter) === recordFilter({})) return { passes: found, more: true }
    const known = new Set(found.map(keyText))
    for await (const { value } of this.deps.table.entries(recordFilter(filter))) {
      const row = await sentRow(this.deps.acknowledged, rowOf(value))
      if (!known.has(keyText(row)) && !this.isInMemory(keyText(row)) && matches(row, filter)) found.push(row)
    }
    return cut(found.sort(newestFirst), limit)
  }

  /** The passes asked for within a pass, newest first. Its subagent asked for them all. */
  below(key: PassKey, own: Pick<RowFilter, 'party'>, limit: number): Promise<Listed> {
    return this.list({ ...own, originator: key.subagent, parent: keyText(key) }, limit)
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
      of(key.originator).originated++
      if (status === 'waiting_for_return') of(key.subagent).open++
      else of(key.subagent).waiting++
    }
    return [...this.deps.agents.values()].sort((a, b) => (a.name < b.name ? -1 : 1)).map((agent) => ({ agent, ...of(agent.name) }))
  }

  private *openPasses(): Generator<{ key: PassKey; status: string }> {
    const { projector, rows } = this.deps
    for (const { memory } of this.openMemories()) yield { key: memory.key, status: passStatus(memory.journal) }
    for (const note of projector.notes.values()) {
      const key = noteKey(note)
      if (key && !this.isKnown(keyText(key))) yield { key, status: 'requested' }
    }
    for (const row of rows.values()) if (OPEN.has(row.status) && !this.isInMemory(keyText(row))) yield { key: row, status: row.status }
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
