import type { RequestFact } from '@passover/schemas'

/** What may wait: a request that was stored and that no dispatcher has been given yet, as far as is known here. */
export interface Waiting {
  fact: Pick<RequestFact, 'sequence' | 'time' | 'originator' | 'subagent'>
  /** Its number among all that ever waited; undefined: it waits no more. */
  place?: number | undefined
}

/** What waits of one pair, in order. */
interface Line<T> {
  queue: Queue<T>
  count: number
}

/**
 * Requests that wait for a dispatcher, in the order in which they will be delivered and by pair (decision 64). Out of turn comes the first
 * of a pair's line that has more than so many others before it, one line after the other; the line that is first of all never does. So
 * however many lines there are, before a line's turn each other one has had at most one.
 */
export class FairQueue<T extends Waiting> {
  readonly #order = new Queue<T>()
  /** In the order in which they have their turns. */
  readonly #lines = new Map<string, Line<T>>()
  #size = 0
  #places = 0
  #reached = 0
  #last: Waiting['fact'] | undefined
  /** Server ms at which the last request was stored that was of another pair than the one before it. */
  mixed_at = Number.NEGATIVE_INFINITY

  /** How many wait. */
  get size(): number {
    return this.#size
  }

  /** A request was read, in sequence order. */
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

  /** It waits no more. */
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

  /** Everything up to this sequence has been delivered, to this dispatcher or another. */
  reach(sequence: number): void {
    if (sequence <= this.#reached) return
    this.#reached = sequence
    for (let first = this.#order.first; first && first.fact.sequence <= sequence; first = this.#order.first) this.drop(first)
  }

  /** Takes out what is to be admitted out of turn, if anything: more than `ahead` others would be before it. */
  take(ahead: number): T | undefined {
    const front = this.#order.first?.place
    if (this.#size <= ahead || front === undefined) return undefined
    // Not more than `ahead` + 1 lines can have their first that near to the front, so that with thousands of lines few are looked at.
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

/** First in, first out; what was skipped is let go at once (decision 62), and its place now and then. */
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

  /** Goes past what is over, and gives what is first then. */
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
