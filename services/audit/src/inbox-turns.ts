import { z } from 'zod'
import { tieOf, type Waiting } from './inbox.js'

/** Originators that take turns at the same time. The next one begins when one of them has no more. */
const MOST_TURNS = 32

/** How far a page went. Originators up to `through` have begun; those in `left` have more, after the position of theirs. */
const place = z.object({
  through: z.string(),
  /** Whose turn it was last. */
  last: z.string(),
  left: z.record(z.string(), z.tuple([z.number(), z.string()])),
})
type Place = z.infer<typeof place>

/**
 * What waits, in the order of its pages: first the oldest of every originator, then they take turns, the oldest first within each. So one
 * agent's items, however many, push nobody's off a page. A page goes on by positions, not by counts: what was decided meanwhile moves nothing.
 *
 * @param listed - Oldest first.
 * @param most - Entries that are wanted at most.
 */
export class Turns {
  readonly entries: Waiting[] = []
  private readonly queues = new Map<string, Waiting[]>()
  private readonly total: number

  constructor(
    listed: readonly Waiting[],
    private readonly after: Place = { through: '', last: '', left: {} },
    most = Number.POSITIVE_INFINITY,
  ) {
    let total = 0
    for (const entry of listed) {
      if (!isAfter(entry, after)) continue
      total++
      const { originator } = entry.key
      const queue = this.queues.get(originator)
      if (queue) queue.push(entry)
      else this.queues.set(originator, [entry])
    }
    this.total = total
    const names = [...this.queues.keys()].sort()
    const fresh = names.filter((name) => name > after.through)
    const begun = names.filter((name) => name <= after.through)
    const served = new Map<string, number>()
    let { last } = after
    while (this.entries.length < Math.min(most, total)) {
      const name = begun.length < MOST_TURNS ? fresh.shift() : undefined
      const next = name ?? begun.find((one) => one > last) ?? begun[0] ?? ''
      if (name === undefined) last = next
      const at = served.get(next) ?? 0
      const queue = this.queues.get(next) ?? []
      this.entries.push(queue[at] as Waiting)
      served.set(next, at + 1)
      const has = at + 1 < queue.length
      if (has && name !== undefined) begun.push(name)
      if (!has && name === undefined) begun.splice(begun.indexOf(next), 1)
    }
  }

  /** Goes on after the first `count` entries; undefined: there is nothing more. */
  cursorAfter(count: number): string | undefined {
    if (count >= this.total) return undefined
    let { through, last } = this.after
    const left = new Map(Object.entries(this.after.left).filter(([name]) => this.queues.has(name)))
    const served = new Map<string, number>()
    for (const entry of this.entries.slice(0, count)) {
      const { originator } = entry.key
      if (originator > through) through = originator
      else last = originator
      const number = (served.get(originator) ?? 0) + 1
      served.set(originator, number)
      if (number < (this.queues.get(originator)?.length ?? 0)) left.set(originator, [entry.since, tieOf(entry)])
      else left.delete(originator)
    }
    return Buffer.from(JSON.stringify({ through, last, left: Object.fromEntries(left) } satisfies Place)).toString('base64url')
  }
}

/** Undefined: it is none that a page gave. */
export function parseCursor(cursor: string): Place | undefined {
  try {
    return place.safeParse(JSON.parse(Buffer.from(cursor, 'base64url').toString('utf8'))).data
  } catch {
    return undefined
  }
}

function isAfter(entry: Waiting, { through, left }: Place): boolean {
  const { originator } = entry.key
  if (originator > through) return true
  const position = Object.hasOwn(left, originator) ? left[originator] : undefined
  return position !== undefined && (entry.since > position[0] || (entry.since === position[0] && tieOf(entry) > position[1]))
}
