import { z } from 'zod'
import type { WaitingEntry } from './inbox.js'
import { entryKey, type InboxQueue } from './inbox-queue.js'

/** Maximum number of originators that take turns at the same time. The next one begins when one of them has no more entries. */
const MAX_CONCURRENT_ORIGINATORS = 32

/** Position after a page. Originators up to `through` have begun; those in `left` have more entries after their position. */
const inboxCursor = z.object({
  through: z.string(),
  /** Originator that had the last turn. */
  last: z.string(),
  left: z.record(z.string(), z.tuple([z.number(), z.string()])),
})
type InboxCursor = z.infer<typeof inboxCursor>

/**
 * The waiting entries in page order: first the oldest one of each originator, then the originators take turns, oldest first within each. So the items
 * of one agent, however many, cannot push those of others off a page. A cursor holds positions, not counts, so decisions made in the meantime shift
 * nothing. Each queue is read only as far as necessary.
 *
 * @param queues - Queues by originator.
 * @param most - Maximum number of entries.
 */
export class InboxPages {
  readonly #after: InboxCursor
  readonly entries: WaitingEntry[] = []
  readonly #queues = new Map<string, Left>()

  constructor(
    queues: ReadonlyMap<string, Pick<InboxQueue, 'after'>>,
    after: InboxCursor = { through: '', last: '', left: {} },
    most = Number.POSITIVE_INFINITY,
  ) {
    this.#after = after
    for (const [name, queue] of queues) {
      const position = Object.hasOwn(after.left, name) ? after.left[name] : undefined
      if (name <= after.through && !position) continue
      const left = new Left(queue.after(name > after.through ? undefined : position))
      if (left.next) this.#queues.set(name, left)
    }
    const names = [...this.#queues.keys()].sort()
    const fresh = names.filter((name) => name > after.through).reverse()
    const begun = names.filter((name) => name <= after.through)
    let { last } = after
    while (this.entries.length < most && fresh.length + begun.length > 0) {
      const name = begun.length < MAX_CONCURRENT_ORIGINATORS ? fresh.pop() : undefined
      const next = name ?? begun.find((one) => one > last) ?? begun[0] ?? ''
      if (name === undefined) last = next
      const queue = this.#queues.get(next)
      this.entries.push(queue?.take() as WaitingEntry)
      const has = queue?.next !== undefined
      if (has && name !== undefined) begun.push(name)
      if (!has && name === undefined) begun.splice(begun.indexOf(next), 1)
    }
  }

  /** Returns the cursor after the first `count` entries, or `undefined` if there are no more entries. */
  cursorAfter(count: number): string | undefined {
    const entries = this.entries.slice(0, count)
    if (count >= this.entries.length && ![...this.#queues.values()].some(({ next }) => next)) return undefined
    let { through, last } = this.#after
    const left = new Map(Object.entries(this.#after.left).filter(([name]) => this.#queues.has(name)))
    const served = new Map<string, number>()
    for (const entry of entries) {
      const { originator } = entry.key
      if (originator > through) through = originator
      else last = originator
      const number = (served.get(originator) ?? 0) + 1
      served.set(originator, number)
      const queue = this.#queues.get(originator)
      if (queue?.next || number < (queue?.taken ?? 0)) left.set(originator, [entry.since, entryKey(entry)])
      else left.delete(originator)
    }
    return Buffer.from(JSON.stringify({ through, last, left: Object.fromEntries(left) } satisfies InboxCursor)).toString('base64url')
  }
}

/** Parses a cursor. Returns `undefined` if it is not one that a page returned. */
export function parseInboxCursor(cursor: string): InboxCursor | undefined {
  try {
    return inboxCursor.safeParse(JSON.parse(Buffer.from(cursor, 'base64url').toString('utf8'))).data
  } catch {
    return undefined
  }
}

/** The remaining entries of a queue. */
class Left {
  readonly #entries: Iterator<WaitingEntry, undefined>
  next: WaitingEntry | undefined
  taken = 0

  constructor(entries: Iterator<WaitingEntry, undefined>) {
    this.#entries = entries
    this.next = entries.next().value
  }

  take(): WaitingEntry | undefined {
    const { next } = this
    this.taken++
    this.next = this.#entries.next().value
    return next
  }
}
