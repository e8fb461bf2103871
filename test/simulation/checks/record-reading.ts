import { decode } from '@passover/bus'
import { APPROVAL_MS, CLOCK_MS } from '../actors/caller-answers.js'
import type { SimServer } from '../server/server.js'
import { type Book, isHalf, verdictOn } from './pass-book.js'

/** What record and brief form of it say under the same names (decision 39). */
export interface Recorded {
  key: { originator: string; subagent: string; id: string }
  v: 1 | 2
  status: string
  attempt?: number
  digest?: string
  admitted_at?: number
  ended_at?: number
  error?: { code: string }
  sequences: { requests: number[]; held?: number; work?: number; fences: number[]; return?: number }
}

/** The records as their bucket has them, by the pass. */
export function recordsIn(server: SimServer): ReadonlyMap<string, Recorded> {
  const found = new Map<string, Recorded>()
  for (const { data } of server.table(server.subjects.bucket('passes')).rows.values()) {
    const body = data && decode(data)
    if (!body?.ok) continue
    const record = body.value as Recorded
    const { originator, subagent, id } = record.key
    found.set(`${originator}/${subagent}/${id}`, record)
  }
  return found
}

const BY_CODE: Record<string, string[]> = { E010: ['timed_out'], E043: ['cancelled'] }

/** In what the record of an ended pass differs from the stream; undefined: in nothing. `unread`: its request could not be read. */
export function wrongRecord(record: Recorded | undefined, book: Book, unread = false): string | undefined {
  const { ended } = book
  if (!ended) return undefined
  // It answers a request, and says nothing of the pass, which has its record (rule 5).
  const began = book.work > 0 || book.held !== undefined
  if (!began && ended.code === 'E005' && !unread) return undefined
  if (!record) return 'is not there'
  const { sequences } = record
  const facts: [string, unknown, unknown][] = [
    ['work', sequences.work ?? 0, book.work],
    ['held', sequences.held, book.held?.sequence],
    ['return', sequences.return, ended.kept.sequence],
    ['attempt', record.attempt ?? 1, book.attempt],
    ['ended_at', record.ended_at, ended.kept.time],
    ['digest', record.digest, began ? book.digest : record.digest],
    ['code', record.error?.code, codeOf(book, record)],
  ]
  for (const [what, is, should] of facts) if (is !== should) return `says ${what} ${is}, the stream ${should}`
  // Those that do not count are told too.
  const missing = book.fences.find(({ sequence }) => !sequences.fences.includes(sequence))
  if (missing) return `does not name the fence ${missing.sequence}`
  if (!sequences.requests.includes(book.answers ?? 0)) return `does not name the request ${book.answers}`
  const statuses = statusesOf(book)
  return statuses.includes(record.status) ? undefined : `says ${record.status}, the stream ${statuses.join(' or ')}`
}

/** What the record has to say for an error. */
export function codeOf(book: Book, { error }: Recorded): string | undefined {
  const { ended } = book
  if (!ended || ended.kept.by === 'evil') return error?.code
  if (!isHalf(book)) return ended.code
  const { verdict, time = 0 } = verdictOn(book) ?? {}
  // Decided when nobody could decide any more, or nearly.
  if (verdict === 'approve' && Math.abs(time - ended.kept.time - APPROVAL_MS) > CLOCK_MS)
    return time < ended.kept.time + APPROVAL_MS ? undefined : 'E013'
  return verdict === 'approve' ? error?.code : 'E013'
}

export function statusesOf({ ended, work }: Book): string[] {
  const bySystem = ended?.by === 'passover' ? BY_CODE[ended.code ?? ''] : undefined
  if (bySystem) return bySystem
  return work === 0 ? ['refused'] : ['returned', 'awaiting_release', 'processed', 'expired']
}
