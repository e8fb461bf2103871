import { BTree, type Sorted } from '../runtime/sorted-map.js'
import type { WaitingEntry } from './inbox.js'

/** Sort key of an entry: the time since which it waits, and the key under which it is stored. */
export type Age = readonly [since: number, tie: string]

/** Waiting entries of one originator, oldest first. */
export class InboxQueue {
  readonly #entries: Sorted<Age, WaitingEntry> = new BTree<Age, WaitingEntry>(undefined, compareAge)

  get size(): number {
    return this.#entries.size
  }

  get newest(): WaitingEntry | undefined {
    const last = this.#entries.maxKey()
    return last && this.#entries.get(last)
  }

  add(entry: WaitingEntry): void {
    this.#entries.set(ageOf(entry), entry)
  }

  delete(entry: WaitingEntry): void {
    this.#entries.delete(ageOf(entry))
  }

  /** Yields the entries younger than `age`, or all without it. Must not be used any more after an entry was added or removed. */
  *after(age?: Age): Generator<WaitingEntry, undefined> {
    for (const [at, entry] of this.#entries.entries(age)) if (!age || compareAge(at, age) > 0) yield entry
  }
}

/** Queues by name. Empty queues are removed. */
export class InboxQueues {
  readonly #queues = new Map<string, InboxQueue>()
  #count = 0

  /** Number of entries in all queues. */
  get size(): number {
    return this.#count
  }

  get(name: string): InboxQueue | undefined {
    return this.#queues.get(name)
  }

  names(): string[] {
    return [...this.#queues.keys()]
  }

  add(name: string, entry: WaitingEntry): void {
    const queue = this.#queues.get(name) ?? new InboxQueue()
    this.#queues.set(name, queue)
    queue.add(entry)
    this.#count++
  }

  delete(name: string, entry: WaitingEntry): void {
    const queue = this.#queues.get(name)
    if (!queue) return
    const before = queue.size
    queue.delete(entry)
    this.#count -= before - queue.size
    if (queue.size === 0) this.#queues.delete(name)
  }

  /** Returns the longest queue, or `undefined` if there is none. */
  longest(): InboxQueue | undefined {
    let longest: InboxQueue | undefined
    for (const queue of this.#queues.values()) if (queue.size > (longest?.size ?? 0)) longest = queue
    return longest
  }
}

export function compareAge(a: Age, b: Age): number {
  return a[0] - b[0] || (a[1] < b[1] ? -1 : a[1] > b[1] ? 1 : 0)
}

export function ageOf(entry: WaitingEntry): Age {
  return [entry.since, entryKey(entry)]
}

/** Returns the key under which an entry is stored. It also orders entries of the same time. */
export function entryKey({ item, key }: WaitingEntry): string {
  return `${item}.${key.originator}.${key.subagent}.${key.id}`
}
