import type { Bus, NoReply } from '@passover/bus'
import {
  type AgentRow,
  type AnsweredPass,
  agentsAnswer,
  type InboxAnswer,
  inboxAnswer,
  listAnswer,
  type PassKey,
  type PassRow,
  passAnswer,
  type Question,
} from '@passover/schemas'
import { Failure } from '../errors.js'

const ASK_TIMEOUT_MS = 5_000
/** The passes of a session are looked for in every index of the archive. */
const SEARCH_TIMEOUT_MS = 60_000
const LIST_LIMIT = 1_000
/** What may be asked for as it stands; anything shorter is the beginning of an id. */
const WHOLE_ID = /^[A-Za-z0-9_-]{9,64}$/

export type ListFilter = Omit<Extract<Question, { op: 'list' }>, 'op'>

/** A schema of answers, as far as it is used here. */
interface Answers<Answer> {
  safeParse(value: unknown): { success: true; data: Answer } | { success: false }
}

/** Asks the audit service. Failure E040 when nobody answers in time; else its own refusal's code. */
export async function ask<Answer extends { ok: boolean }>(
  bus: Bus,
  question: Question,
  answer: Answers<Answer>,
  timeout_ms = question.op === 'custody' ? SEARCH_TIMEOUT_MS : ASK_TIMEOUT_MS,
): Promise<Extract<Answer, { ok: true }>> {
  let why: NoReply | undefined
  const given = await bus.ask(question, {
    timeout_ms,
    onUnanswered: (none) => {
      why = none
    },
  })
  if (given === undefined) throw unanswered(why, timeout_ms)
  const parsed = answer.safeParse(given)
  if (!parsed.success)
    throw new Failure('E040', 'the audit service answered in a form that this version does not know', {
      hint: 'run the same version of passover on both sides',
    })
  if (!parsed.data.ok) {
    const { error } = parsed.data as unknown as { error: { code: Failure['code']; message: string } }
    throw new Failure(error.code, error.message)
  }
  return parsed.data as Extract<Answer, { ok: true }>
}

function unanswered(why: NoReply | undefined, timeout_ms: number): Failure {
  if (why !== 'timeout')
    return new Failure('E040', 'the server is there, but no audit service answers', {
      hint: 'start one with `passover up`; `passover doctor` tells more',
    })
  return new Failure('E040', `the audit service did not answer within ${timeout_ms / 1_000} s`, {
    hint: 'it is busy, or does not run: ask again; `passover doctor` tells more',
  })
}

/** Passes, newest first. */
export async function askList(bus: Bus, filter: ListFilter): Promise<{ passes: PassRow[]; more: boolean }> {
  const { passes, more } = await ask(bus, { op: 'list', ...filter }, listAnswer)
  return { passes, more }
}

export type InboxFilter = Omit<Extract<Question, { op: 'inbox' }>, 'op'>

/** What waits for a person, oldest first; `next` goes on where the limit cut it off. `left_out`: items of these agents had no room in the inbox. */
export async function askInbox(bus: Bus, filter: InboxFilter): Promise<Omit<Extract<InboxAnswer, { ok: true }>, 'ok'>> {
  const { ok: _, ...page } = await ask(bus, { op: 'inbox', ...filter }, inboxAnswer)
  return page
}

/** Registered agents with their open passes. */
export async function askAgents(bus: Bus): Promise<AgentRow[]> {
  return (await ask(bus, { op: 'agents' }, agentsAnswer)).agents
}

export interface PassRef {
  id: string
  from?: string | undefined
  to?: string | undefined
}

/** What is told of a pass besides where it stands: everything that was stored, what of it waits for a person. */
export interface PassDetails {
  history?: true
  due?: true
}

function passQuestion(ref: PassRef, wants: PassDetails): Question {
  return { op: 'pass', id: ref.id, ...wants, ...(ref.from ? { originator: ref.from } : {}), ...(ref.to ? { subagent: ref.to } : {}) }
}

/** Every pass with that id; none is []. */
export async function askPasses(bus: Bus, ref: PassRef, wants: PassDetails = {}): Promise<AnsweredPass[]> {
  return (await askNamed(bus, ref, wants)).passes
}

/** The same, and how many more there are. */
async function askNamed(
  bus: Bus,
  ref: PassRef,
  wants: PassDetails,
  timeout_ms?: number,
): Promise<{ passes: AnsweredPass[]; left_out?: number | undefined }> {
  try {
    return await ask(bus, passQuestion(ref, wants), passAnswer, timeout_ms)
  } catch (error) {
    if (error instanceof Failure && error.code === 'E041') return { passes: [] }
    throw error
  }
}

/** Of an id that is asked for, before it is taken for the beginning of one: nothing is the beginning of all. Failure E042 (exit 2). */
export function isWholeId({ id }: PassRef): boolean {
  if (id === '') throw new Failure('E042', 'the id is empty', { hint: '`passover list` shows the passes', exit: 2 })
  return WHOLE_ID.test(id)
}

/**
 * The one pass that an id, or the beginning of one, names. Failure E041: none; E042 (exit 2): several, which it lists, or no id at all. `timeout_ms`: how
 * long the audit may take to answer about a whole id.
 */
export async function findPass(bus: Bus, ref: PassRef, wants: PassDetails = {}, timeout_ms?: number): Promise<AnsweredPass> {
  const isWhole = isWholeId(ref)
  const { passes: exact, left_out } = isWhole ? await askNamed(bus, ref, wants, timeout_ms) : { passes: [] }
  if (exact.length === 1 && exact[0]) return exact[0]
  if (exact.length > 1)
    throw ambiguousId(
      ref.id,
      exact.map(({ row }) => row),
      left_out,
    )
  const { passes } = await askList(bus, {
    limit: LIST_LIMIT,
    ...(ref.from ? { originator: ref.from } : {}),
    ...(ref.to ? { subagent: ref.to } : {}),
  })
  const close = passes.filter(({ id }) => id.startsWith(ref.id))
  if (close.length > 1) throw ambiguousId(ref.id, close)
  const [only] = close
  const found = only ? await askPasses(bus, { id: only.id, from: only.originator, to: only.subagent }, wants) : []
  if (found[0]) return found[0]
  const erased = isWhole ? await erasedError(bus, ref) : undefined
  if (erased) throw erased
  throw new Failure('E041', `there is no pass ${ref.id}`, { hint: '`passover list` shows the passes' })
}

/** What the audit says of a pass that was erased. */
async function erasedError(bus: Bus, ref: PassRef): Promise<Failure | undefined> {
  try {
    await ask(bus, passQuestion(ref, {}), passAnswer)
  } catch (error) {
    if (error instanceof Failure && error.code === 'E041' && error.message.includes('was erased')) return error
  }
  return undefined
}

export function ambiguousId(id: string, rows: (PassKey & { status?: string })[], left_out = 0): Failure {
  const shown = rows
    .slice(0, 10)
    .map((row) => `  ${row.id}  ${row.originator} → ${row.subagent}${row.status === undefined ? '' : `  ${row.status}`}`)
  const more = rows.length + left_out - shown.length
  const rest = more > 0 ? [`  … and ${more} more`] : []
  return new Failure('E042', `several passes have the id ${id}:\n${[...shown, ...rest].join('\n')}`, {
    hint: 'say which: the whole id, with --from <agent> and --to <agent>',
    exit: 2,
  })
}
