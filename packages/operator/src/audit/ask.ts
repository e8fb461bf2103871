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
/** Milliseconds to wait for a custody query, which searches every index of the archive for the passes of a session. */
const SEARCH_TIMEOUT_MS = 60_000
const LIST_LIMIT = 1_000
/** Pattern of a complete id. Anything else is treated as a prefix. */
const WHOLE_ID = /^[A-Za-z0-9_-]{9,64}$/
/** Number of characters of a generated id. A shorter id may be the prefix of one. */
const GENERATED_LENGTH = 32

export type ListFilter = Omit<Extract<Question, { op: 'list' }>, 'op'>

/** The part of an answer's schema that is used here. */
interface AnswerSchema<Answer> {
  safeParse(value: unknown): { success: true; data: Answer } | { success: false }
}

/** Sends a query to the audit service. Throws Failure E040 if there is no answer in time, else a Failure with the code of the service's error. */
export async function ask<Answer extends { ok: boolean }>(
  bus: Bus,
  question: Question,
  answer: AnswerSchema<Answer>,
  timeout_ms = question.op === 'custody' ? SEARCH_TIMEOUT_MS : ASK_TIMEOUT_MS,
): Promise<Extract<Answer, { ok: true }>> {
  let why: NoReply | undefined
  const reply = await bus.ask(question, {
    timeout_ms,
    onUnanswered: (none) => {
      why = none
    },
  })
  if (reply === undefined) throw unanswered(why, timeout_ms)
  const parsed = answer.safeParse(reply)
  if (!parsed.success)
    throw new Failure('E040', 'the answer of the audit service has a format that this version does not know', {
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
    return new Failure('E040', 'the server is running, but no audit service answers', {
      hint: 'to start one: `passover up`; `passover doctor` shows details',
    })
  return new Failure('E040', `the audit service did not answer within ${timeout_ms / 1_000} s`, {
    hint: 'it is busy or not running: try again; `passover doctor` shows details',
  })
}

/** Lists passes, newest first. */
export async function askList(bus: Bus, filter: ListFilter): Promise<{ passes: PassRow[]; more: boolean }> {
  const { passes, more } = await ask(bus, { op: 'list', ...filter }, listAnswer)
  return { passes, more }
}

export type InboxFilter = Omit<Extract<Question, { op: 'inbox' }>, 'op'>

/** Lists pending items, oldest first. `next` is the cursor of the next page. `left_out` names agents whose items did not fit into the inbox. */
export async function askInbox(bus: Bus, filter: InboxFilter): Promise<Omit<Extract<InboxAnswer, { ok: true }>, 'ok'>> {
  const { ok: _, ...page } = await ask(bus, { op: 'inbox', ...filter }, inboxAnswer)
  return page
}

/** Returns the registered agents with their open passes. Throws Failure E013 if the person may not see every pass. */
export async function askAgents(bus: Bus): Promise<AgentRow[]> {
  const { agents } = await ask(bus, { op: 'agents' }, agentsAnswer)
  return agents.map((row) => {
    if ('open' in row) return row
    throw new Failure('E013', `${bus.identity} may read only the names and roles of other agents; only people may read the rest`)
  })
}

export interface PassRef {
  id: string
  from?: string | undefined
  to?: string | undefined
}

/** Optional details of a pass besides its status: its stored history, and its pending item. */
export interface PassDetails {
  history?: true
  due?: true
}

function passQuestion(ref: PassRef, details: PassDetails): Question {
  return { op: 'pass', id: ref.id, ...details, ...(ref.from ? { originator: ref.from } : {}), ...(ref.to ? { subagent: ref.to } : {}) }
}

/** Returns every pass with the id, or an empty list. */
export async function askPasses(bus: Bus, ref: PassRef, details: PassDetails = {}): Promise<AnsweredPass[]> {
  return (await askNamed(bus, ref, details)).passes
}

/** Returns every pass with the id, and the number of passes that were left out. */
async function askNamed(
  bus: Bus,
  ref: PassRef,
  details: PassDetails,
  timeout_ms?: number,
): Promise<{ passes: AnsweredPass[]; left_out?: number | undefined }> {
  try {
    return await ask(bus, passQuestion(ref, details), passAnswer, timeout_ms)
  } catch (error) {
    if (error instanceof Failure && error.code === 'E041') return { passes: [] }
    throw error
  }
}

/** Returns true if the id is complete and not a prefix. Throws Failure E042 (exit 2) for an empty id, which would be a prefix of every id. */
export function isWholeId({ id }: PassRef): boolean {
  if (id === '') throw new Failure('E042', 'the id is empty', { hint: '`passover list` lists passes', exit: 2 })
  return WHOLE_ID.test(id)
}

/** Returns true if the id cannot be a prefix of an id of another originator. */
export function isUnmistakable({ id, from }: PassRef): boolean {
  return from !== undefined || id.length >= GENERATED_LENGTH
}

/**
 * Returns the rows that a typed id can refer to: the rows with exactly this id, and the rows of other originators whose id begins with it. Without the
 * second group, an agent could choose the beginning of another agent's id as its own id, and a person who types it would decide about the wrong pass.
 */
export function meantBy<Row extends PassKey>(id: string, rows: readonly Row[]): Row[] {
  const exact = rows.filter((row) => row.id === id)
  if (exact.length === 0) return [...rows]
  return [...exact, ...rows.filter((row) => row.id !== id && !exact.some(({ originator }) => originator === row.originator))]
}

/**
 * Finds the pass with an id or a unique prefix of an id. Throws Failure E041 if there is no such pass, and E042 (exit 2) if there are several (the
 * failure lists them) or if the id is empty. `timeout_ms`: milliseconds to wait for the audit service's answer about a complete id.
 */
export async function findPass(bus: Bus, ref: PassRef, details: PassDetails = {}, timeout_ms?: number): Promise<AnsweredPass> {
  const isWhole = isWholeId(ref)
  const { passes: exact, left_out } = isWhole ? await askNamed(bus, ref, details, timeout_ms) : { passes: [] }
  if (exact.length === 1 && exact[0] && isUnmistakable(ref)) return exact[0]
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
  const close = passes.filter(({ id }) => id.startsWith(ref.id) && id !== ref.id)
  const meant = meantBy(ref.id, [...exact.map(({ row }) => row), ...close])
  if (meant.length > 1) throw ambiguousId(ref.id, meant)
  if (exact[0]) return exact[0]
  const [only] = meant
  const matches = only ? await askPasses(bus, { id: only.id, from: only.originator, to: only.subagent }, details) : []
  if (matches[0]) return matches[0]
  const erased = isWhole ? await erasedError(bus, ref) : undefined
  if (erased) throw erased
  throw new Failure('E041', `pass ${ref.id} does not exist`, { hint: '`passover list` lists passes' })
}

/** Returns the error of the audit service for an erased pass. */
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
  return new Failure('E042', `the ids of several passes start with ${id}:\n${[...shown, ...rest].join('\n')}`, {
    hint: 'use more characters of the id; if the ids are equal, add --from <agent> and --to <agent>',
    exit: 2,
  })
}
