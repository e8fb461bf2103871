import type { Bus } from '@passover/bus'
import {
  type DeadLetter,
  type DeadLetterDetail,
  type DeadLettersAnswer,
  deadLetterAnswer,
  deadLettersAnswer,
  type Question,
} from '@passover/schemas'
import { ambiguousId, ask, isUnmistakable, isWholeId, meantBy, type PassRef } from '../audit/ask.js'
import { Failure } from '../errors.js'

export type DeadLetterFilter = Omit<Extract<Question, { op: 'dead_letters' }>, 'op'>

const PAGE_SIZE = 500

type LettersPage = Omit<Extract<DeadLettersAnswer, { ok: true }>, 'ok'>

/** Lists dead letters, newest first. `next` is the cursor of the next page, and `rest` counts the remaining ones by originator. */
export async function listDeadLetters(bus: Bus, filter: DeadLetterFilter): Promise<LettersPage> {
  const { ok: _, ...page } = await ask(bus, { op: 'dead_letters', ...filter }, deadLettersAnswer)
  return page
}

/** Lists at most `most` dead letters. Reads as many pages as needed. */
export async function allDeadLetters(bus: Bus, filter: DeadLetterFilter, most: number): Promise<LettersPage> {
  const letters: DeadLetter[] = []
  for (let before = filter.before; ; ) {
    const page = await listDeadLetters(bus, { ...filter, limit: Math.min(PAGE_SIZE, most - letters.length), ...(before ? { before } : {}) })
    letters.push(...page.letters)
    before = page.next
    if (before === undefined || letters.length >= most) return { ...page, letters }
  }
}

/**
 * Finds the dead letter with an id or a unique prefix of an id. Throws Failure E041 if there is none, and E042 (exit 2) if there are several or the
 * id is empty.
 */
export async function findDeadLetter(bus: Bus, ref: PassRef): Promise<DeadLetterDetail> {
  const exact = isWholeId(ref) ? await deadLettersOf(bus, ref) : []
  const close = exact.length > 0 && isUnmistakable(ref) ? [] : await deadLettersLike(bus, ref)
  const rows = meantBy(ref.id, [...exact.map(({ letter }) => letter), ...close])
  if (rows.length > 1) throw ambiguousLetters(ref.id, rows)
  const [row] = rows
  const detail = exact[0] ?? (row && (await deadLettersOf(bus, { id: row.id, from: row.originator, to: row.subagent }))[0])
  if (detail) return detail
  throw new Failure('E041', `dead letter ${ref.id} does not exist`, { hint: '`passover dlq list` lists dead letters' })
}

async function deadLettersOf(bus: Bus, { id, from, to }: PassRef): Promise<DeadLetterDetail[]> {
  try {
    const question = { op: 'dead_letter' as const, id, ...(from ? { originator: from } : {}), ...(to ? { subagent: to } : {}) }
    return (await ask(bus, question, deadLetterAnswer)).letters
  } catch (error) {
    if (error instanceof Failure && error.code === 'E041') return []
    throw error
  }
}

async function deadLettersLike(bus: Bus, { id, from, to }: PassRef): Promise<DeadLetter[]> {
  const { letters } = await allDeadLetters(bus, { ...(from ? { originator: from } : {}), ...(to ? { subagent: to } : {}) }, 1_000)
  return letters.filter((letter) => letter.id.startsWith(id) && letter.id !== id)
}

function ambiguousLetters(id: string, letters: DeadLetter[]): Failure {
  return ambiguousId(
    id,
    letters.map((letter) => ({ ...letter, status: `${letter.state} ${letter.code}` })),
  )
}
