type Entry = (free: (() => void) | undefined) => void

/**
 * Places that senders take in turn; within one sender, its parts take turns. A free place goes to the next waiting sender, however many entries
 * another sender has waiting. A sender that is alone can use all places.
 */
export class RoundRobin {
  #free: number
  #closed = false
  /** Waiting senders and their parts in the order of their turns, with entries in order of arrival. */
  readonly #waiting = new Map<string, Map<string, Entry[]>>()

  constructor(places: number) {
    this.#free = places
  }

  /** Resolves to a function that frees the place again, or to `undefined` if `close` was called. */
  take(sender: string, part = ''): Promise<(() => void) | undefined> {
    if (this.#closed) return Promise.resolve(undefined)
    if (this.#free > 0) {
      this.#free -= 1
      return Promise.resolve(() => this.#next())
    }
    return new Promise((entry) => {
      const parts = this.#waiting.get(sender) ?? new Map<string, Entry[]>()
      const entries = parts.get(part) ?? []
      entries.push(entry)
      this.#waiting.set(sender, parts.set(part, entries))
    })
  }

  /** Ends all waiting; no further place is given out. */
  close(): void {
    this.#closed = true
    for (const parts of this.#waiting.values()) for (const entries of parts.values()) for (const entry of entries) entry(undefined)
    this.#waiting.clear()
  }

  #next(): void {
    const entry = nextIn(this.#waiting, (parts) => ({
      entry: nextIn(parts, (entries) => ({ entry: entries.shift(), left: entries.length })),
      left: parts.size,
    }))
    if (entry) entry(() => this.#next())
    else this.#free += 1
  }
}

/** Takes an entry from the first item in line, and moves the item to the end if it has more entries. */
function nextIn<One>(line: Map<string, One>, taken: (one: One) => { entry: Entry | undefined; left: number }): Entry | undefined {
  for (const [name, one] of line) {
    line.delete(name)
    const { entry, left } = taken(one)
    if (left > 0) line.set(name, one)
    return entry
  }
  return undefined
}
