import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { WaitingEntry } from './inbox.js'
import { InboxPages, parseInboxCursor } from './inbox-pages.js'
import { type InboxQueue, InboxQueues } from './inbox-queue.js'

/** The n-th of all that wait, the oldest first; three came at the same moment. */
function waiting(originator: string, n: number): WaitingEntry {
  const since = 1_000 + Math.floor(n / 3)
  return {
    v: 1,
    item: 'dispatch',
    key: { originator, subagent: 'audit', id: `given-id-${n}` },
    root_originator: originator,
    since,
    expires_at: 9_999,
  }
}

function queuesOf(entries: readonly WaitingEntry[]): Map<string, InboxQueue> {
  const queues = new InboxQueues()
  for (const entry of entries) queues.add(entry.key.originator, entry)
  return new Map(queues.names().map((name) => [name, queues.get(name) as InboxQueue]))
}

/** Ids of every page; `between` may decide some of a page's entries before the next is asked for. */
function paged(listed: WaitingEntry[], limit: number, between: (page: WaitingEntry[]) => WaitingEntry[]): string[][] {
  const pages: string[][] = []
  let left = [...listed]
  for (let cursor: string | undefined; ; ) {
    const turns = new InboxPages(queuesOf(left), cursor === undefined ? undefined : parseInboxCursor(cursor), limit + 3)
    const page = turns.entries.slice(0, limit)
    pages.push(page.map(({ key }) => key.id))
    cursor = turns.cursorAfter(page.length)
    if (cursor === undefined) return pages
    const decided = new Set(between(page))
    left = left.filter((entry) => !decided.has(entry))
  }
}

describe('pages of the inbox', () => {
  it('have the oldest of every originator before the second of anybody', () => {
    const flood = Array.from({ length: 500 }, (_, n) => waiting('mallory', n))
    const others = [waiting('bob', 600), waiting('alice', 601), waiting('zoe', 602), waiting('bob', 603)]
    const [first = [], second = []] = paged([...flood, ...others], 6, () => [])
    expect(first).toEqual([601, 600, 0, 602, 603, 1].map((n) => `given-id-${n}`))
    expect(second).toEqual([2, 3, 4, 5, 6, 7].map((n) => `given-id-${n}`))
  })

  // Fails where a page goes on by a count, once what came before it is decided.
  it('tell everything exactly once, whatever is decided between them, and by more agents than take turns at a time', () => {
    const sizes = fc.array(fc.integer({ min: 1, max: 12 }), { minLength: 1, maxLength: 45 })
    fc.assert(
      fc.property(sizes, fc.integer({ min: 1, max: 9 }), fc.infiniteStream(fc.boolean()), (counts, limit, decides) => {
        let n = 0
        const listed = counts.flatMap((count, at) => Array.from({ length: count }, () => waiting(`agent${at}`, (n++ * 7) % 1_009)))
        const pages = paged(listed, limit, (page) => page.filter(() => decides.next().value))
        const told = pages.flat()
        expect([...told].sort()).toEqual(listed.map(({ key }) => key.id).sort())
      }),
      { numRuns: 60 },
    )
  })

  // Fails where all that waits is walked for a page of it.
  it('look at as many entries as they have, and one more of each originator', () => {
    let looked = 0
    const counted = (queue: InboxQueue) => ({
      *after(...age: Parameters<InboxQueue['after']>): Generator<WaitingEntry, undefined> {
        for (const entry of queue.after(...age)) {
          looked++
          yield entry
        }
      },
    })
    const flood = Array.from({ length: 10_000 }, (_, n) => waiting(n % 10 === 0 ? 'bob' : 'mallory', n))
    const queues = new Map([...queuesOf(flood)].map(([name, queue]) => [name, counted(queue)]))
    const first = new InboxPages(queues, undefined, 50)
    expect([first.entries.length, looked]).toEqual([50, 52])
    const second = new InboxPages(queues, parseInboxCursor(first.cursorAfter(50) ?? ''), 50)
    expect([second.entries.length, looked]).toEqual([50, 104])
  })

  it('take no cursor that is none', () => {
    expect(['', 'x', Buffer.from('{"through":1}').toString('base64url')].map(parseInboxCursor)).toEqual([undefined, undefined, undefined])
  })
})
