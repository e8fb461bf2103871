import type { Bus } from '@passover/bus'
import type { Seen } from '../../support/assertions/answers-check.js'
import { type Book, emptyBook, enter, impossible, isHalf, stepIn } from './pass-book.js'
import { statusesOf } from './record-reading.js'

const WINDOW_MS = 3_600_000

/** The passes that a stream holds, folded without the product's code. `asked`: what was asked for under each id. */
export async function seenIn(bus: Bus, asked: ReadonlyMap<string, Pick<Seen, 'session' | 'objective'>>): Promise<Seen[]> {
  const books = new Map<string, Book>()
  await using reader = await bus.follow({}, (stored) => {
    const step = stepIn(stored.subject)
    if (!step) return
    const empty = emptyBook(step)
    const book = books.get(empty.key) ?? empty
    books.set(book.key, book)
    const { subject, sequence, time, headers, data } = stored
    const kept = { subject, sequence, time, headers, data, stored_at: 0, gone_at: Number.POSITIVE_INFINITY, by: '', sent_at: stored.time }
    if (impossible(book, kept, { step, window_ms: WINDOW_MS }) === undefined) enter(book, kept, step)
  })
  await Promise.race([reader.caughtUp, reader.closed])
  return [...books.values()].flatMap((book) => {
    const { originator, subagent, id, ended } = book
    const about = asked.get(id)
    if (!ended || !about) return []
    const code = isHalf(book) ? 'any' : ended.code
    return [
      { ...about, originator, subagent, id, statuses: statusesOf(book), code, ended_at: ended.kept.time, returned: ended.kept.sequence },
    ]
  })
}
