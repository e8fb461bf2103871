import type { RequestFact } from '@passover/schemas'

/** An item of the queue: a stored request that, as far as known here, has not been delivered to a dispatcher yet. */
export interface Waiting {
  fact: Pick<RequestFact, 'sequence' | 'time' | 'originator' | 'subagent'>
  /** Its running number in the queue. `undefined` once it has left the queue. */
  place?: number | undefined
}

/** Waiting requests of one pair, in order. */
interface Line<T> {
  queue: Queue<T>
  count: number
}

/**
 * Requests that wait for a dispatcher, in delivery order and by pair (decision 64). The first request of a pair is taken out of turn if more than
 * `ahead` others precede it; pairs take turns, and the pair at the front never needs it. So before a pair's turn, each other pair has had at most
 * one.
 */
export class FairQueue<T extends Waiting> {
  readonly #order = new Queue<T>()
  /** Lines of the pairs, in the order of their turns. */
  readonly #lines = new Map<string, Line<T>>()
  #size = 0
  #places = 0
  #reached = 0
  #last: Waiting['fact'] | undefined
  /** Time (server ms) of the last stored request whose pair differs from that of the request before it. */
  mixed_at = Number.NEGATIVE_INFINITY

  /** Number of waiting requests. */
  get size(): number {
    return this.#size
  }

  /** Adds a request that was read. Requests must come in sequence order. */
  add(item: T): void {
    const { fact } = item
    const last = this.#last
    if (last && (fact.originator !== last.originator || fact.subagent !== last.subagent)) this.mixed_at = fact.time
    this.#last = fact
    if (fact.sequence <= this.#reached) return
    item.place = this.#places++
    this.#order.push(item)
    const name = lineOf(item)
    const line = this.#lines.get(name)
    if (line) {
      line.queue.push(item)
      line.count += 1
    } else this.#lines.set(name, { queue: new Queue(item), count: 1 })
    this.#size += 1
  }

  /** Removes a request from the queue. */
  drop(item: T): void {
    if (item.place === undefined) return
    item.place = undefined
    this.#size -= 1
    const name = lineOf(item)
    const line = this.#lines.get(name)
    if (line) {
      line.count -= 1
      if (line.count === 0) this.#lines.delete(name)
      else line.queue.skip(isOver)
    }
    this.#order.skip(isOver)
  }

  /** Removes all requests up to this sequence: they have been delivered, to this dispatcher or another. */
  reach(sequence: number): void {
    if (sequence <= this.#reached) return
    this.#reached = sequence
    for (let first = this.#order.first; first && first.fact.sequence <= sequence; first = this.#order.first) this.drop(first)
  }

  /** Removes and returns the next request to admit out of turn: one with more than `ahead` others before it. `undefined` if there is none. */
  take(ahead: number): T | undefined {
    const front = this.#order.first?.place
    if (this.#size <= ahead || front === undefined) return undefined
    // At most `ahead` + 1 lines can have their first request that close to the front, so only a few of thousands of lines are checked.
    let left = Math.min(ahead + 2, this.#lines.size)
    for (const [name, line] of this.#lines) {
      if (left === 0) break
      left -= 1
      this.#lines.delete(name)
      this.#lines.set(name, line)
      const first = line.queue.skip(isOver)
      if (first?.place === undefined || first.place - front <= ahead) continue
      this.drop(first)
      return first
    }
    return undefined
  }
}

function isOver({ place }: Waiting): boolean {
  return place === undefined
}

function lineOf({ fact }: Waiting): string {
  return `${fact.originator} ${fact.subagent}`
}

const CLEAR_AT = 1_024

/** FIFO queue. Skipped items are released at once (decision 62); their array slots are removed in batches. */
class Queue<T> {
  readonly #items: (T | undefined)[]
  #head = 0

  constructor(...items: T[]) {
    this.#items = items
  }

  get first(): T | undefined {
    return this.#items[this.#head]
  }

  push(item: T): void {
    this.#items.push(item)
  }

  /** Skips items that are over and returns the first that is not. */
  skip(isOver: (item: T) => boolean): T | undefined {
    for (let { first } = this; first !== undefined && isOver(first); first = this.first) this.#items[this.#head++] = undefined
    if (this.#head === this.#items.length || (this.#head >= CLEAR_AT && 2 * this.#head >= this.#items.length)) this.#clear()
    return this.first
  }

  #clear(): void {
    this.#items.splice(0, this.#head)
    this.#head = 0
  }
}
