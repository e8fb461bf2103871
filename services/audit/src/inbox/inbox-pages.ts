import { z } from 'zod'
import type { WaitingEntry } from './inbox.js'
import { entryKey, type InboxQueue } from './inbox-queue.js'

/** Originators that take turns at the same time. The next one begins when one of them has no more. */
const MAX_CONCURRENT_ORIGINATORS = 32

/** How far a page went. Originators up to `through` have begun; those in `left` have more, after the position of theirs. */
const inboxCursor = z.object({
  through: z.string(),
  /** Whose turn it was last. */
  last: z.string(),
  left: z.record(z.string(), z.tuple([z.number(), z.string()])),
})
type InboxCursor = z.infer<typeof inboxCursor>

/**
 * What waits, in the order of its pages: first the oldest of every originator, then they take turns, the oldest first within each. So one
 * agent's items, however many, push nobody's off a page. A page goes on by positions, not by counts: what was decided meanwhile moves nothing.
 * Of each queue no more is looked at than is wanted.
 *
 * @param queues - Of each originator that has any.
 * @param most - Entries that are wanted at most.
 */
export class InboxPages {
  readonly entries: WaitingEntry[] = []
  private readonly queues = new Map<string, Left>()

  constructor(
    queues: ReadonlyMap<string, Pick<InboxQueue, 'after'>>,
    private readonly after: InboxCursor = { through: '', last: '', left: {} },
    most = Number.POSITIVE_INFINITY,
  ) {
    for (const [name, queue] of queues) {
      const position = Object.hasOwn(after.left, name) ? after.left[name] : undefined
      if (name <= after.through && !position) continue
      const left = new Left(queue.after(name > after.through ? undefined : position))
      if (left.next) this.queues.set(name, left)
    }
    const names = [...this.queues.keys()].sort()
    const fresh = names.filter((name) => name > after.through).reverse()
    const begun = names.filter((name) => name <= after.through)
    let { last } = after
    while (this.entries.length < most && fresh.length + begun.length > 0) {
      const name = begun.length < MAX_CONCURRENT_ORIGINATORS ? fresh.pop() : undefined
      const next = name ?? begun.find((one) => one > last) ?? begun[0] ?? ''
      if (name === undefined) last = next
      const queue = this.queues.get(next)
      this.entries.push(queue?.take() as WaitingEntry)
      const has = queue?.next !== undefined
      if (has && name !== undefined) begun.push(name)
      if (!has && name === undefined) begun.splice(begun.indexOf(next), 1)
    }
  }

  /** Goes on after the first `count` entries; undefined: there is nothing more. */
  cursorAfter(count: number): string | undefined {
    const entries = this.entries.slice(0, count)
    if (count >= this.entries.length && ![...this.queues.values()].some(({ next }) => next)) return undefined
    let { through, last } = this.after
    const left = new Map(Object.entries(this.after.left).filter(([name]) => this.queues.has(name)))
    const served = new Map<string, number>()
    for (const entry of entries) {
      const { originator } = entry.key
      if (originator > through) through = originator
      else last = originator
      const number = (served.get(originator) ?? 0) + 1
      served.set(originator, number)
      const queue = this.queues.get(originator)
      if (queue?.next || number < (queue?.taken ?? 0)) left.set(originator, [entry.since, entryKey(entry)])
      else left.delete(originator)
    }
    return Buffer.from(JSON.stringify({ through, last, left: Object.fromEntries(left) } satisfies InboxCursor)).toString('base64url')
  }
}

/** Undefined: it is none that a page gave. */
export function parseInboxCursor(cursor: string): InboxCursor | undefined {
  try {
    return inboxCursor.safeParse(JSON.parse(Buffer.from(cursor, 'base64url').toString('utf8'))).data
  } catch {
    return undefined
  }
}

/** What is left of a queue. */
class Left {
  next: WaitingEntry | undefined
  taken = 0

  constructor(private readonly entries: Iterator<WaitingEntry, undefined>) {
    this.next = entries.next().value
  }

  take(): WaitingEntry | undefined {
    const { next } = this
    this.taken++
    this.next = this.entries.next().value
    return next
  }
}
