import { type Book, isHalf, verdictOn } from '../checks/pass-book.js'
import type { Violation } from '../checks/violation.js'
import { OTHER_REASON, OWN_REASON } from '../plans/plan.js'

/** What a caller was told about a pass. */
export interface Told {
  name: string
  key: string
  by: string
  /** False: it asked with another request under the same id. Undefined: its request is not compared with the pass's. */
  same: boolean | undefined
  output?: string
  code?: string
  /** The error's message. */
  why?: string
  /** The pass under that id when it was told: there may be another one later. */
  book?: Book | undefined
}

/** How long a person has to decide. */
export const APPROVAL_MS = 6_000
/** A process's clock may be off by half of the longest round trip that it believes. */
export const CLOCK_MS = 130

/** What a caller may be told though the stream says otherwise, or nothing: its own trouble. */
export const OWN = new Set(['E040', 'E041', 'E022'])

type Wrong = Omit<Violation, 'at'>

/** What is wrong with what a caller is told, at the moment when it is (`now`, server ms); `reason`: of the request that the pass answers. */
export function* wrongIn(told: Told, { reason, now }: { reason: string | undefined; now: number }): Iterable<Wrong> {
  const { key, code, output, book } = told
  const ended = book?.ended
  const said = `${told.by} was told ${output ?? code} of ${told.name} (${key})`
  if (code !== undefined && OWN.has(code)) return
  // Another request under the same id, or one whose id has expired.
  if (code === 'E005') return
  if (!ended) {
    yield { promise: 'P2', kind: 'told_unended', text: `${said}, which has not ended` }
    return
  }
  // What a dishonest worker returned is judged before it is delivered.
  if (ended.kept.by === 'evil' && (code === 'E021' || code === 'E013')) return
  if (told.same !== undefined && reason !== undefined && reason !== (told.same ? OWN_REASON : OTHER_REASON))
    yield { promise: 'P1', kind: 'told_other', text: `${said}, which answers another request` }
  if (isHalf(book)) {
    yield* wrongRelease(told, { book, now, said })
    return
  }
  if (ended.by === 'passover' ? output !== undefined || code !== ended.code : output === undefined && code !== ended.code)
    yield { promise: 'P2', kind: 'told_wrong', text: `${said}; its return says ${ended.code ?? 'an output'}` }
  const [, attempt] = /attempt (\d+)/.exec(output ?? '') ?? []
  if (attempt !== undefined && Number(attempt) !== ended.attempt)
    yield { promise: 'P1', kind: 'told_attempt', text: `${said}; attempt ${ended.attempt} returned` }
}

/** What is only half done is delivered when a person has said so about just that, and refused when one has, or when nobody did in time. */
function* wrongRelease({ output, code }: Told, { book, now, said }: { book: Book; now: number; said: string }): Iterable<Wrong> {
  const { ended } = book
  if (!ended) return
  const verdict = verdictOn(book)?.verdict
  if (output !== undefined && verdict !== 'approve') yield { promise: 'P5', kind: 'unreleased', text: `${said}, which nobody released` }
  if (output !== undefined) return
  const expired = now >= ended.kept.time + APPROVAL_MS - CLOCK_MS
  if (code !== 'E013' || (verdict !== 'deny' && !expired))
    yield { promise: 'P2', kind: 'refused_release', text: `${said}, about which it was decided: ${verdict ?? 'nothing yet'}` }
}
