import type { PassKey, PassStatus } from '@passover/schemas'
import { BTree, type Sorted } from '../../runtime/sorted-map.js'

type Tree = Sorted<ListedPass, undefined>

/** Position of a pass in a list: newest first; at equal times, the one stored later comes first. */
export interface OrderPosition {
  created_at: number
  sequence: number
  text: string
}

/** A pass in a list. Never modified; a changed pass is put again. */
export interface ListedPass extends OrderPosition {
  key: PassKey
  status: string
  /** `undefined` if the pass has no session, or if `unread` is true. */
  session_id: string | undefined
  /** `keyText` of the parent pass. */
  parent: string | undefined
  /** True if the body of the request would have to be read to find session and parent. */
  unread: boolean
}

export interface OrderFilter {
  originator?: string | undefined
  subagent?: string | undefined
  /** Name of an agent; only passes with it as originator or subagent match. */
  party?: string | undefined
  status?: string | undefined
  session_id?: string | undefined
  parent?: string | undefined
}

/** Stored statuses for a status of a row: an acknowledged return is shown as `processed`. */
const STATUS_SOURCES: Record<string, readonly string[]> = { processed: ['processed', 'returned'] }
const ANY = [undefined]
/** Statuses of passes that have not ended. */
export const OPEN: ReadonlySet<string> = new Set<PassStatus>(['requested', 'held', 'waiting_for_return'])

interface Kept {
  ordered: ListedPass
  /** Lists that contain the pass. */
  lists: List[]
}

interface Sources {
  sides: [Side, string][]
  /** `undefined` matches any status. */
  statuses: readonly (string | undefined)[]
}

interface List {
  name: string
  tree: Tree
}

/**
 * Sorted lists of passes. Open ones are listed by agent, pair, status, session and parent, so that a page costs about as much as its size, however
 * many passes there are. Ended ones are far more numerous and only the latest are remembered, so they are listed by agent alone: each list costs
 * microseconds for each pass. A page may then examine all remembered passes of its agent.
 */
export class PassOrder {
  readonly #kept = new Map<string, Kept>()
  readonly #lists = new Map<string, List>()
  readonly #ids = new Map<string, ListedPass | ListedPass[]>()
  /** Number of passes examined for all pages so far. */
  looked = 0

  get size(): number {
    return this.#kept.size
  }

  get(text: string): ListedPass | undefined {
    return this.#kept.get(text)?.ordered
  }

  has(text: string): boolean {
    return this.#kept.has(text)
  }

  put(ordered: ListedPass): void {
    const known = this.#kept.get(ordered.text)
    if (known && isSame(known.ordered, ordered)) return
    if (known) this.delete(ordered.text)
    const lists = namesOf(ordered).map((name) => this.#list(name))
    for (const { tree } of lists) tree.set(ordered, undefined)
    this.#kept.set(ordered.text, { ordered, lists })
    const { id } = ordered.key
    const same = this.#ids.get(id)
    this.#ids.set(id, same ? [same, ordered].flat() : ordered)
  }

  /** Removes a pass. Returns false if it was not listed. */
  delete(text: string): boolean {
    const known = this.#kept.get(text)
    if (!known) return false
    const { ordered, lists } = known
    for (const { name, tree } of lists) {
      tree.delete(ordered)
      if (tree.size === 0) this.#lists.delete(name)
    }
    this.#kept.delete(text)
    const { id } = ordered.key
    const others = this.#sameId(id).filter((one) => one !== ordered)
    if (others.length > 0) this.#ids.set(id, others)
    else this.#ids.delete(id)
    return true
  }

  /** Returns the keys of passes with this id. */
  withId(id: string): PassKey[] {
    return this.#sameId(id).map(({ key }) => key)
  }

  #sameId(id: string): ListedPass[] {
    const same = this.#ids.get(id)
    return same === undefined ? [] : Array.isArray(same) ? same : [same]
  }

  /** Returns the number of open passes with this agent as originator or subagent, of one status or of all. */
  count(side: 'originator' | 'subagent', agent: string, status?: string): number {
    return this.#lists.get(nameOf(side, agent, status))?.tree.size ?? 0
  }

  /** Returns the newest `count` passes after a position that may match. Returns fewer only if there are no more. */
  newest(filter: OrderFilter, after: OrderPosition | undefined, count: number): ListedPass[] {
    const heads = this.#sources(filter).map((tree) => new Head(tree, after))
    const found: ListedPass[] = []
    while (found.length < count) {
      let first: ListedPass | undefined
      for (const { value } of heads) if (value && (!first || compare(value, first) < 0)) first = value
      if (!first) break
      this.looked++
      for (const head of heads) if (head.value === first) head.next()
      if (mayMatch(first, filter)) found.push(first)
    }
    return found
  }

  /** Returns the lists that together contain all passes that may match, with as few others as possible. */
  #sources(filter: OrderFilter): Tree[] {
    const sides = sidesOf(filter)
    if (!sides) return []
    const { status } = filter
    const statuses = status === undefined ? ANY : (STATUS_SOURCES[status] ?? [status])
    return [...this.#openSources(filter, { sides, statuses }), ...this.#endedSources({ sides, statuses })]
  }

  #openSources({ session_id, parent }: OrderFilter, { sides, statuses }: Sources): Tree[] {
    const named = (some: Sources['statuses']) =>
      sides.flatMap(([side, who]) => some.flatMap((status) => this.#lists.get(nameOf(side, who, status))?.tree ?? []))
    const by_agent = named(statuses)
    const narrow = parent ? nameOf('parent', parent) : session_id ? nameOf('session', session_id) : undefined
    if (narrow === undefined) return by_agent
    const unread = statuses.includes(undefined) || statuses.includes('requested') ? named(['requested']) : []
    const narrowed = [this.#lists.get(narrow)?.tree ?? [], unread].flat()
    return sizeOf(narrowed) < sizeOf(by_agent) ? narrowed : by_agent
  }

  #endedSources({ sides, statuses }: Sources): Tree[] {
    if (statuses.every((status) => status !== undefined && OPEN.has(status))) return []
    return sides.flatMap(([side, who]) => {
      const [originator, subagent] = who.split('/')
      const names =
        side === 'pair' ? [nameOf('originator', originator, ENDED), nameOf('subagent', subagent, ENDED)] : [nameOf(side, who, ENDED)]
      const trees = names.flatMap((name) => this.#lists.get(name)?.tree ?? [])
      // Passes of a pair are in both lists, so the shorter one is enough, and there are none if a list does not exist.
      return trees.length < names.length ? [] : trees.sort((a, b) => a.size - b.size).slice(0, 1)
    })
  }

  #list(name: string): List {
    const known = this.#lists.get(name)
    if (known) return known
    const made = { name, tree: new BTree<ListedPass, undefined>(undefined, compare) }
    this.#lists.set(name, made)
    return made
  }
}

/** Iterator over one list, with its current pass. */
class Head {
  value: ListedPass | undefined
  readonly #keys: IterableIterator<ListedPass>

  constructor(tree: Tree, after: OrderPosition | undefined) {
    this.#keys = tree.keys(after as ListedPass | undefined)
    this.next()
    if (after && this.value && compare(this.value, after) === 0) this.next()
  }

  next(): void {
    const { value, done } = this.#keys.next()
    this.value = done ? undefined : value
  }
}

function compare(a: OrderPosition, b: OrderPosition): number {
  return b.created_at - a.created_at || b.sequence - a.sequence || (a.text < b.text ? -1 : a.text > b.text ? 1 : 0)
}

function isSame(a: ListedPass, b: ListedPass): boolean {
  return compare(a, b) === 0 && a.status === b.status && a.session_id === b.session_id && a.parent === b.parent && a.unread === b.unread
}

type Side = 'all' | 'originator' | 'subagent' | 'pair' | 'session' | 'parent'

/** Stands for all statuses of ended passes in the names of their lists. */
const ENDED = 'ended'

/** Builds the name of a list. Neither agent names nor statuses contain spaces, so names are unique. */
function nameOf(side: Side, who = '', status = ''): string {
  return `${side} ${status} ${who}`
}

function namesOf({ key: { originator, subagent }, status, session_id, parent }: ListedPass): string[] {
  if (!OPEN.has(status)) return [nameOf('all', '', ENDED), nameOf('originator', originator, ENDED), nameOf('subagent', subagent, ENDED)]
  const pair = `${originator}/${subagent}`
  const names: string[] = []
  for (const one of ['', status])
    names.push(nameOf('all', '', one), nameOf('originator', originator, one), nameOf('subagent', subagent, one), nameOf('pair', pair, one))
  if (session_id) names.push(nameOf('session', session_id))
  if (parent) names.push(nameOf('parent', parent))
  return names
}

/** Returns the lists of agents to search; `undefined` if no pass can match. */
function sidesOf({ originator, subagent, party }: OrderFilter): [Side, string][] | undefined {
  if (party !== undefined && originator === undefined && subagent === undefined)
    return [
      ['originator', party],
      ['subagent', party],
    ]
  // A party that is none of the named agents must be on the side that is not named.
  const isNamed = party === undefined || party === originator || party === subagent
  const above = originator ?? (isNamed ? undefined : party)
  const below = subagent ?? (isNamed ? undefined : party)
  if (party !== undefined && party !== above && party !== below) return undefined
  if (above !== undefined && below !== undefined) return [['pair', `${above}/${below}`]]
  if (above !== undefined) return [['originator', above]]
  return [below === undefined ? ['all', ''] : ['subagent', below]]
}

function mayMatch(ordered: ListedPass, { originator, subagent, party, status, session_id, parent }: OrderFilter): boolean {
  const { key, unread } = ordered
  if ((originator ?? key.originator) !== key.originator || (subagent ?? key.subagent) !== key.subagent) return false
  if (party !== undefined && party !== key.originator && party !== key.subagent) return false
  if (status !== undefined && !(STATUS_SOURCES[status] ?? [status]).includes(ordered.status)) return false
  if (unread) return true
  if (session_id && session_id !== ordered.session_id) return false
  return parent === undefined || parent === ordered.parent
}

function sizeOf(trees: readonly Tree[]): number {
  let size = 0
  for (const tree of trees) size += tree.size
  return size
}
