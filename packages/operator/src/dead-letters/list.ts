import type { Bus } from '@passover/bus'
import {
  type DeadLetter,
  type DeadLetterDetail,
  type DeadLettersAnswer,
  deadLetterAnswer,
  deadLettersAnswer,
  type Question,
} from '@passover/schemas'
import { ask, isWholeId, type PassRef, severalPasses } from '../audit/ask.js'
import { Failure } from '../errors.js'

export type LetterFilter = Omit<Extract<Question, { op: 'dead_letters' }>, 'op'>

const PAGE = 500

type LettersPage = Omit<Extract<DeadLettersAnswer, { ok: true }>, 'ok'>

/** Dead letters, newest first; `next` goes on where the limit cut it off, and `rest` counts by originator what comes then. */
export async function askLetters(bus: Bus, filter: LetterFilter): Promise<LettersPage> {
  const { ok: _, ...page } = await ask(bus, { op: 'dead_letters', ...filter }, deadLettersAnswer)
  return page
}

/** At most so many of them, however many an answer holds. */
export async function everyLetter(bus: Bus, filter: LetterFilter, most: number): Promise<LettersPage> {
  const letters: DeadLetter[] = []
  for (let before = filter.before; ; ) {
    const page = await askLetters(bus, { ...filter, limit: Math.min(PAGE, most - letters.length), ...(before ? { before } : {}) })
    letters.push(...page.letters)
    before = page.next
    if (before === undefined || letters.length >= most) return { ...page, letters }
  }
}

/** The one dead letter that an id, or the beginning of one, names. Failure E041: none; E042 (exit 2): several, or no id at all. */
export async function findLetter(bus: Bus, ref: PassRef): Promise<DeadLetterDetail> {
  const found = isWholeId(ref) ? await lettersOf(bus, ref) : []
  const close = found.length > 0 ? [] : await lettersLike(bus, ref)
  const rows = found.length > 0 ? found.map(({ letter }) => letter) : close
  if (rows.length > 1) throw several(ref.id, rows)
  const [row] = rows
  const detail = found[0] ?? (row && (await lettersOf(bus, { id: row.id, from: row.originator, to: row.subagent }))[0])
  if (detail) return detail
  throw new Failure('E041', `there is no dead letter ${ref.id}`, { hint: '`passover dlq list` shows what is dead' })
}

async function lettersOf(bus: Bus, { id, from, to }: PassRef): Promise<DeadLetterDetail[]> {
  try {
    const question = { op: 'dead_letter' as const, id, ...(from ? { originator: from } : {}), ...(to ? { subagent: to } : {}) }
    return (await ask(bus, question, deadLetterAnswer)).letters
  } catch (error) {
    if (error instanceof Failure && error.code === 'E041') return []
    throw error
  }
}

async function lettersLike(bus: Bus, { id, from, to }: PassRef): Promise<DeadLetter[]> {
  const { letters } = await everyLetter(bus, { ...(from ? { originator: from } : {}), ...(to ? { subagent: to } : {}) }, 1_000)
  return letters.filter((letter) => letter.id.startsWith(id))
}

function several(id: string, letters: DeadLetter[]): Failure {
  return severalPasses(
    id,
    letters.map((letter) => ({ ...letter, status: `${letter.state} ${letter.code}` })),
  )
}
