import { BTree, type Sorted } from '../runtime/sorted-map.js'
import type { WaitingEntry } from './inbox.js'

/** Since when it waits, and what an entry is stored under. */
export type Age = readonly [since: number, tie: string]

/** What waits of one originator, oldest first. */
export class InboxQueue {
  private readonly entries: Sorted<Age, WaitingEntry> = new BTree<Age, WaitingEntry>(undefined, compareAge)

  get size(): number {
    return this.entries.size
  }

  get newest(): WaitingEntry | undefined {
    const last = this.entries.maxKey()
    return last && this.entries.get(last)
  }

  add(entry: WaitingEntry): void {
    this.entries.set(ageOf(entry), entry)
  }

  delete(entry: WaitingEntry): void {
    this.entries.delete(ageOf(entry))
  }

  /** Those that are younger than that; all, where nothing is said. Not to be used any more once an entry came or went. */
  *after(age?: Age): Generator<WaitingEntry, undefined> {
    for (const [at, entry] of this.entries.entries(age)) if (!age || compareAge(at, age) > 0) yield entry
  }
}

/** Queues by name; one that is empty has none. */
export class InboxQueues {
  private readonly queues = new Map<string, InboxQueue>()
  private count = 0

  /** Entries of all. */
  get size(): number {
    return this.count
  }

  get(name: string): InboxQueue | undefined {
    return this.queues.get(name)
  }

  names(): string[] {
    return [...this.queues.keys()]
  }

  add(name: string, entry: WaitingEntry): void {
    const queue = this.queues.get(name) ?? new InboxQueue()
    this.queues.set(name, queue)
    queue.add(entry)
    this.count++
  }

  delete(name: string, entry: WaitingEntry): void {
    const queue = this.queues.get(name)
    if (!queue) return
    const before = queue.size
    queue.delete(entry)
    this.count -= before - queue.size
    if (queue.size === 0) this.queues.delete(name)
  }

  /** The longest; undefined: there is none. */
  longest(): InboxQueue | undefined {
    let longest: InboxQueue | undefined
    for (const queue of this.queues.values()) if (queue.size > (longest?.size ?? 0)) longest = queue
    return longest
  }
}

export function compareAge(a: Age, b: Age): number {
  return a[0] - b[0] || (a[1] < b[1] ? -1 : a[1] > b[1] ? 1 : 0)
}

export function ageOf(entry: WaitingEntry): Age {
  return [entry.since, entryKey(entry)]
}

/** What an entry is stored under, which also orders entries of the same moment. */
export function entryKey({ item, key }: WaitingEntry): string {
  return `${item}.${key.originator}.${key.subagent}.${key.id}`
}
