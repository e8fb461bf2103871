import type { PassKey } from '@passover/schemas'
import type { ListPosition } from '../../records/list-cursor.js'
import { hashPass, type PassHash } from '../../runtime/pass-hash.js'
import { BLOCK_SIZE, Block, COLUMNS } from './column-block.js'
import { Dictionary } from './dictionary.js'
import { OpenAddressingTable } from './hash-table.js'
import { type IndexFilter, matcherOf } from './index-filter.js'
import { TopN } from './top-n.js'

/** Numbers of open passes that an agent works on, has waiting, and has requested. */
export interface OpenCounts {
  open: number
  waiting: number
  originated: number
}

/** Fields of a record that the index keeps. */
export interface IndexEntry {
  key: PassKey
  session_id: string | undefined
  status: string
  /** Status in the audit entry of a pass that has ended. */
  ended: string | undefined
  /** Error code. */
  code: string | undefined
  /** Decisions that count, as returned by `decidedWord`. */
  decided: string
  created_at: number
  /** Sequence of the request, or of the first step. */
  first: number
  ended_at: number | undefined
  /** Sequence of the return. */
  returned: number | undefined
  /** Revision of the record in the bucket; the highest one is kept. */
  revision: number
}

/** Location of an entry in the index. */
export interface IndexSlot {
  block: Block
  at: number
}

/** Position and revision of a record that may match. */
export interface IndexCandidate extends ListPosition {
  revision: number
}

/** First place of live entries, so that entries read at the start get places before them. */
const LIVE = 2 ** 30
const FEW = BLOCK_SIZE / 8
/** Values of the column `counted`: WAITING for dispatch or WORKED_ON by a worker; 0 if ended. The bit COVERED is set if memory counts the pass. */
const WAITING = 1
const WORKED_ON = 2
const COVERED = 4
const KINDS: Record<string, number> = { requested: WAITING, held: WAITING, waiting_for_return: WORKED_ON }
const NOTHING_OPEN: OpenCounts = { open: 0, waiting: 0, originated: 0 }

/**
 * Index with one entry in columns for each record of the bucket (decision 68): a query over a million passes finds its page without reading a record.
 * Entries are in order of arrival, which is nearly the order of their positions. Blocks are searched from the newest until no other can match.
 */
export class PassIndex {
  readonly #seed: number
  readonly #isCovered: (key: PassKey) => boolean
  readonly #dictionaries = {
    agents: new Dictionary(0x1_0000),
    sessions: new Dictionary(0x8_0000),
    words: new Dictionary(0x100),
    decisions: new Dictionary(0x1_0000),
  }
  readonly #blocks = new Map<number, Block>()
  readonly #table = new OpenAddressingTable((place) => this.#hashAt(place))
  readonly #next = { old: 0, live: LIVE }
  readonly #hashed: PassHash = { hash: 0, check: 0 }
  #entries = 0

  /** Counts of open passes, by agent. */
  readonly #counts = new Map<string, OpenCounts>()

  /** `seed` is specific to this process. `isCovered` is true if memory counts a pass, so that the index must not. */
  constructor(seed: number, isCovered: (key: PassKey) => boolean = () => false) {
    this.#seed = seed
    this.#isCovered = isCovered
  }

  get size(): number {
    return this.#entries
  }

  /**
   * Adds the entry of a record, or replaces one of a lower revision. `old`: the record was read from the bucket in the order of writing. `live`: it
   * was just written. `mended`: the current entry is wrong and is replaced at any revision.
   */
  put(entry: IndexEntry, kind: 'old' | 'live' | 'mended'): void {
    const known = this.#placeOf(entry.key)
    const revision = known === undefined ? 0 : (this.#block(known).revision[known % BLOCK_SIZE] ?? 0)
    if (revision >= entry.revision && kind !== 'mended') return
    const place = known ?? this.#place(kind === 'old' ? 'old' : 'live')
    const block = this.#block(place)
    const at = place % BLOCK_SIZE
    if (known === undefined) {
      block.hash[at] = this.#hashed.hash
      block.check[at] = this.#hashed.check
      this.#table.add(this.#hashed, place)
    } else this.#release(block, at)
    this.#write(block, at, entry)
  }

  /** Returns the location of a pass's entry; `undefined` if it has none. */
  find(key: PassKey): IndexSlot | undefined {
    const place = this.#placeOf(key)
    return place === undefined ? undefined : { block: this.#block(place), at: place % BLOCK_SIZE }
  }

  /** Describes the first difference between the entry at a location and the expected one; `undefined` if they agree. */
  differenceAt({ block, at }: IndexSlot, entry: IndexEntry): string | undefined {
    const { sessions, words, decisions } = this.#dictionaries
    const facts: [string, unknown, unknown][] = [
      ['status', words.word(block.status[at] ?? 0), entry.status],
      ['status of its end', words.word(block.ended[at] ?? 0), entry.ended ?? ''],
      ['code', words.word(block.code[at] ?? 0), entry.code ?? ''],
      ['session', sessions.word(block.session[at] ?? 0), entry.session_id ?? ''],
      ['decisions', decisions.word(block.decisions[at] ?? 0), entry.decided],
      ['request time', block.created[at], entry.created_at],
      ['duration', block.wall[at], Math.fround(wallOf(entry))],
      ['first sequence', block.first[at], entry.first],
      ['return', block.returned[at], entry.returned ?? 0],
      ['revision', block.revision[at], entry.revision],
    ]
    // A word that did not fit into its dictionary cannot be compared.
    const wrong = facts.find(([, is, should]) => is !== undefined && is !== should)
    return wrong && `${wrong[0]} ${wrong[1] || '(none)'} instead of ${wrong[2] || '(none)'}`
  }

  /** Removes the entry of a pass, if its revision is lower than `below` and `is` confirms that it is the right one. */
  remove(key: PassKey, below: number, is: (created_at: number, session_id: string | undefined) => boolean): boolean {
    const place = this.#placeOf(key)
    if (place === undefined) return false
    const block = this.#block(place)
    const at = place % BLOCK_SIZE
    if ((block.revision[at] ?? 0) >= below) return false
    if (!is(block.created[at] ?? 0, this.#dictionaries.sessions.word(block.session[at] ?? 0))) return false
    this.#drop(place)
    return true
  }

  has(key: PassKey): boolean {
    return this.#placeOf(key) !== undefined
  }

  /** Returns the sequence of a pass's request or first step; `undefined` if the index has no entry for it. */
  firstOf(key: PassKey): number | undefined {
    const found = this.find(key)
    return found?.block.first[found.at]
  }

  /** Returns the newest `count` candidates after a position, newest first. */
  newest(filter: IndexFilter, after: ListPosition | undefined, count: number): IndexCandidate[] {
    const matches = matcherOf(filter, this.#dictionaries)
    const kept = new TopN<IndexCandidate>(count)
    const { from = Number.NEGATIVE_INFINITY, to = Number.POSITIVE_INFINITY } = filter
    const below = after?.created_at ?? Number.POSITIVE_INFINITY
    for (const blocks of this.#inOrder()) {
      for (const { block, reach } of blocks) {
        if (reach < from || reach < (kept.bound ?? Number.NEGATIVE_INFINITY)) break
        if (block.oldest > below || block.oldest >= to) continue
        for (let at = block.used - 1; at >= 0; at--) {
          const revision = block.revision[at] ?? 0
          const created_at = block.created[at] ?? 0
          const sequence = block.first[at] ?? 0
          if (revision === 0 || created_at > below || (created_at === below && sequence >= (after?.sequence ?? 0))) continue
          if (kept.wants(created_at, sequence) && matches(block, at)) kept.offer({ created_at, sequence, revision })
        }
      }
    }
    return kept.sorted()
  }

  /** Returns every agent that an entry names. */
  agents(): string[] {
    return Array.from(this.#dictionaries.agents.entries(), ([name]) => name)
  }

  /** Returns the counts of an agent's open passes, except those that memory counts. */
  countsOf(agent: string): Readonly<OpenCounts> {
    return this.#counts.get(agent) ?? NOTHING_OPEN
  }

  /** Sets whether memory counts a pass. */
  cover(key: PassKey, covered: boolean): void {
    const found = this.find(key)
    if (!found) return
    const { block, at } = found
    this.#count(block, at, -1)
    block.counted[at] = ((block.counted[at] ?? 0) & ~COVERED) | (covered ? COVERED : 0)
    this.#count(block, at, 1)
  }

  /** Returns every block, and the matcher for a filter. */
  scan(filter: IndexFilter): { blocks: Block[]; matches: ReturnType<typeof matcherOf> } {
    return { blocks: [...this.#blocks.values()], matches: matcherOf(filter, this.#dictionaries) }
  }

  /** Returns the word for a number: `words` for the columns `status`, `ended` and `code`, `agents`, or `sessions`. */
  wordOf(kind: 'words' | 'agents' | 'sessions', number: number): string | undefined {
    return this.#dictionaries[kind].word(number)
  }

  /** Returns the number of a word in the columns `status`, `ended` and `code`; `undefined` if no entry has it. */
  numberOf(word: string): number | undefined {
    return this.#dictionaries.words.find(word)
  }

  /** Removes entries below a revision, because the bucket no longer has their records. Returns the newest `created_at` among them. */
  forgetBelow(revision: number): number | undefined {
    let newest: number | undefined
    this.#forgetWhere((block, at) => {
      if ((block.revision[at] ?? 0) >= revision) return false
      newest = Math.max(newest ?? 0, block.created[at] ?? 0)
      return true
    })
    for (const [number, block] of this.#blocks) if (block.used === BLOCK_SIZE && block.live < FEW) this.#clear(number, block)
    return newest
  }

  /** Removes entries of passes that begin at one of these sequences, because they were erased or removed. */
  forgetFirst(firsts: { has(sequence: number): boolean }): void {
    this.#forgetWhere(({ first }, at) => firsts.has(first[at] ?? 0))
  }

  /** Returns the revisions of entries whose passes begin at one of these sequences. */
  revisionsOf(firsts: { has(sequence: number): boolean }): number[] {
    const found: number[] = []
    for (const block of this.#blocks.values()) {
      for (let at = 0; at < block.used; at++) {
        const revision = block.revision[at] ?? 0
        if (revision !== 0 && firsts.has(block.first[at] ?? 0)) found.push(revision)
      }
    }
    return found
  }

  /** Removes entries by revision, because the bucket has nothing at these revisions any more. */
  forgetRevisions(gone: ReadonlySet<number>): void {
    this.#forgetWhere(({ revision }, at) => gone.has(revision[at] ?? 0))
  }

  #forgetWhere(isGone: (block: Block, at: number) => boolean): void {
    for (const [number, block] of this.#blocks) {
      for (let at = 0; at < block.used; at++) {
        if (block.revision[at] !== 0 && isGone(block, at)) this.#drop(number * BLOCK_SIZE + at)
      }
    }
  }

  #placeOf(key: PassKey): number | undefined {
    hashPass(key, this.#seed, this.#hashed)
    return this.#table.find(this.#hashed)
  }

  /** Returns live blocks, then those of the start, each newest first. No entry in a block or in those after it is newer than `reach`. */
  #inOrder(): { block: Block; reach: number }[][] {
    const lists: [number, Block][][] = [[], []]
    for (const entry of this.#blocks) lists[entry[0] * BLOCK_SIZE >= LIVE ? 0 : 1]?.push(entry)
    return lists.map((list) => {
      let reach = Number.NEGATIVE_INFINITY
      const reached = list
        .sort(([a], [b]) => a - b)
        .map(([, block]) => {
          reach = Math.max(reach, block.newest)
          return { block, reach }
        })
      return reached.reverse()
    })
  }

  #write(block: Block, at: number, entry: IndexEntry): void {
    const { created_at } = entry
    const { agents, sessions, words, decisions } = this.#dictionaries
    block.originator[at] = agents.take(entry.key.originator)
    block.subagent[at] = agents.take(entry.key.subagent)
    block.session[at] = sessions.take(entry.session_id ?? '')
    block.decisions[at] = decisions.take(entry.decided)
    block.status[at] = words.take(entry.status)
    block.ended[at] = words.take(entry.ended ?? '')
    block.code[at] = words.take(entry.code ?? '')
    block.wall[at] = wallOf(entry)
    block.revision[at] = entry.revision
    block.created[at] = created_at
    block.first[at] = entry.first
    block.returned[at] = entry.returned ?? 0
    const kind = KINDS[entry.status] ?? 0
    block.counted[at] = kind === 0 ? 0 : kind | (this.#isCovered(entry.key) ? COVERED : 0)
    this.#count(block, at, 1)
    if (created_at < block.oldest) block.oldest = created_at
    if (created_at > block.newest) block.newest = created_at
  }

  #release(block: Block, at: number): void {
    const { agents, sessions, words, decisions } = this.#dictionaries
    this.#count(block, at, -1)
    agents.release(block.originator[at] ?? 0)
    agents.release(block.subagent[at] ?? 0)
    sessions.release(block.session[at] ?? 0)
    decisions.release(block.decisions[at] ?? 0)
    for (const column of [block.status, block.ended, block.code]) words.release(column[at] ?? 0)
  }

  #count(block: Block, at: number, by: 1 | -1): void {
    const kind = block.counted[at] ?? 0
    if (kind !== WAITING && kind !== WORKED_ON) return
    const { agents } = this.#dictionaries
    const originator = agents.word(block.originator[at] ?? 0)
    const subagent = agents.word(block.subagent[at] ?? 0)
    if (originator === undefined || subagent === undefined) return
    this.#countIn(originator, 'originated', by)
    this.#countIn(subagent, kind === WAITING ? 'waiting' : 'open', by)
  }

  #countIn(agent: string, what: keyof OpenCounts, by: 1 | -1): void {
    const known = this.#counts.get(agent) ?? { ...NOTHING_OPEN }
    known[what] += by
    if (known.open + known.waiting + known.originated === 0) this.#counts.delete(agent)
    else this.#counts.set(agent, known)
  }

  #place(kind: 'old' | 'live'): number {
    const place = this.#next[kind]++
    const number = Math.floor(place / BLOCK_SIZE)
    const block = this.#blocks.get(number) ?? new Block()
    if (block.used === 0) this.#blocks.set(number, block)
    block.used++
    block.live++
    this.#entries++
    return place
  }

  #drop(place: number): void {
    const block = this.#block(place)
    const at = place % BLOCK_SIZE
    this.#table.remove(place)
    this.#release(block, at)
    block.revision[at] = 0
    block.live--
    this.#entries--
  }

  /** Gives up a block with few entries. They move to the end of the index, out of order, which does no harm for so few. */
  #clear(number: number, block: Block): void {
    for (let at = 0; at < block.used; at++) {
      if (block.revision[at] === 0) continue
      const place = this.#place('live')
      this.#copy(block, at, place)
      this.#table.move(number * BLOCK_SIZE + at, place)
      this.#entries--
    }
    this.#blocks.delete(number)
  }

  #copy(from: Block, at: number, place: number): void {
    const to = this.#block(place)
    const there = place % BLOCK_SIZE
    for (const name of COLUMNS) to[name][there] = from[name][at] ?? 0
    to.oldest = Math.min(to.oldest, from.created[at] ?? 0)
    to.newest = Math.max(to.newest, from.created[at] ?? 0)
  }

  #block(place: number): Block {
    const block = this.#blocks.get(Math.floor(place / BLOCK_SIZE))
    if (!block) throw new Error(`no entry ${place}`)
    return block
  }

  #hashAt(place: number): PassHash {
    const block = this.#block(place)
    const at = place % BLOCK_SIZE
    return { hash: block.hash[at] ?? 0, check: block.check[at] ?? 0 }
  }
}

function wallOf({ created_at, ended_at }: Pick<IndexEntry, 'created_at' | 'ended_at'>): number {
  return ended_at === undefined ? -1 : Math.max(0, ended_at - created_at)
}
