import { IndexesUnread } from '@passover/archive'
import { type Bus, type Consumption, QuestionLimits } from '@passover/bus'
import { type CheckSchema, isBody, passError } from '@passover/core'
import {
  type AcknowledgedAnswer,
  type AgentRow,
  type AgentsAnswer,
  type AnsweredDecision,
  type AnsweredPass,
  type CustodyAnswer,
  type DeadLetterAnswer,
  type DeadLettersAnswer,
  type ErrorCode,
  HEADER,
  type InboxAnswer,
  type IndexAnswer,
  issueTexts,
  type ListAnswer,
  type PassAnswer,
  type PassKey,
  type PassRecord,
  type PassRow,
  type QueryAnswer,
  type Question,
  question,
  type RepairAnswer,
  type StatsAnswer,
  type StoredReturn,
  sha256,
  storedId,
  type TimeAnswer,
  type TimelineEntry,
} from '@passover/schemas'
import type { Logger } from 'pino'
import type { AckIndex } from '../acknowledgments/ack-index.js'
import { findAcknowledgment, withRecordDelivery, withRowDelivery } from '../acknowledgments/delivery-status.js'
import { answerInbox } from '../inbox/answer-inbox.js'
import type { Inbox } from '../inbox/inbox.js'
import { findInboxItem } from '../inbox/inbox-item.js'
import { type LoadDeps, type LoadedPass, loadPass } from '../pass/load-pass.js'
import type { PassMemory } from '../pass/pass-memory.js'
import { buildCheckedRecord } from '../records/build-record.js'
import { controlOf } from '../records/pass-history.js'
import type { OverdueSegment } from '../retention/archive-retention.js'
import { type RevokedAgents, revokedOf } from '../watchers/agent-watcher.js'
import { answerCustody, type CustodyAnswerDeps } from './answer-custody.js'
import { answerDeadLetter, answerDeadLetters } from './answer-dead-letters.js'
import { answerRepair, type RepairAnswerDeps } from './answer-repair.js'
import { answerIndex, answerQuery, answerStats, type QueryAnswerDeps } from './answer-search.js'
import type { DeadLetters } from './dead-letters.js'
import type { PassLists } from './pass-lists.js'
import { timelineOf } from './timeline.js'

export interface AnswerDeps extends LoadDeps, QueryAnswerDeps, RepairAnswerDeps, CustodyAnswerDeps {
  log: Logger
  /** Returns the health checks of this process that are failing. */
  trouble?: (() => string[]) | undefined
  /** Returns the archived segments that are older than the retention and have to stay. */
  overdue?: (() => OverdueSegment[]) | undefined
  /** True if anyone other than a service may see every pass. */
  hasPeople?: boolean | undefined
  /** Applies output schemas. */
  check?: CheckSchema | undefined
  /** Revoked agents; absent if the asker may not see revocations. */
  revoked?: RevokedAgents | undefined
  inbox: Inbox
  dead: DeadLetters
  lists: PassLists
  acknowledged: Pick<AckIndex, 'has'>
  /** Settles when everything up to the given sequence is read; rejects if that takes too long. */
  untilRead: (sequence: number) => Promise<void>
  /** Returns the sequence of a pass's request if no step has answered it yet. */
  requestOf: (key: PassKey) => number | undefined
  /** Returns the sequence at which a pass begins, if memory or index know it. */
  beginOf: (key: PassKey) => number | undefined
}

export type Answer =
  | TimeAnswer
  | AcknowledgedAnswer
  | PassAnswer
  | ListAnswer
  | AgentsAnswer
  | InboxAnswer
  | DeadLettersAnswer
  | DeadLetterAnswer
  | QueryAnswer
  | StatsAnswer
  | IndexAnswer
  | RepairAnswer
  | CustodyAnswer

const DEFAULT_LIMIT = 50
/** Maximum number of passes in one answer. */
const MAX_PASSES = 20
/** Maximum number of passes with the same id that are read for one answer; erased ones among them are not returned. */
const MAX_LOOKED = 100
/** Number of messages before the known beginning of a pass at which reading starts, because messages sent together are stored in any order. */
const BEFORE = 4_096
/** Maximum number of children returned for each pass. */
const MAX_BELOW = 50
/** Maximum number of bytes of returns in one answer, which travels as one message. */
const MAX_RETURN_BYTES = 600 * 1024
const BUSY_RETRY_MS = 1_000
/** Maximum number of overdue segments of the archive in an answer. */
const MAX_OVERDUE = 5

/** Answers questions on `ask.<name>` (docs/architecture/audit-archive.md#answers). Answers E040 if stream or archive could not be read. */
export function serveQuestions(bus: Bus, deps: AnswerDeps): Promise<Consumption> {
  const limits = new QuestionLimits()
  return bus.answer(async (asker, asked) => {
    try {
      return (await limits.take(asker, () => answerQuestion(deps, asker, asked))) ?? tooMany(asker)
    } catch (error) {
      if (error instanceof IndexesUnread) return refuse('E040', `Not known yet: ${error.message}. Try again in a moment`)
      deps.log.warn({ asker, err: error }, 'query not answered')
      return refuse('E040', 'The stream cannot be read at the moment')
    }
  })
}

/**
 * Answers one question. An asker that may not see every pass gets only those in which it is originator or subagent; `own: true` limits any asker
 * to these. Error codes: E005 (invalid question), E041 (no such pass, or none that the asker may see), E040 (not known yet).
 */
export async function answerQuestion(known: AnswerDeps, asker: string, asked: unknown): Promise<Answer> {
  const { own, ...rest } = isBody(asked) ? asked : {}
  const parsed = question.safeParse(rest)
  const allowed = own === undefined ? known : { ...known, seesAll: () => false }
  const deps = allowed.seesAll(asker) ? allowed : { ...allowed, revoked: undefined }
  if (!parsed.success) return refuse('E005', `Not a valid query: ${issueTexts(parsed.error.issues, 1, 'it').join('')}`)
  const { data } = parsed
  switch (data.op) {
    case 'time':
      return {
        ok: true,
        now: deps.bus.now(),
        // Only the window that the stream itself declares, without the default: the asker may be configured with another one.
        ...(deps.bus.idWindow !== undefined && { id_window_ms: deps.bus.idWindow }),
        sees_all: deps.seesAll(asker),
        has_people: deps.hasPeople,
        ...(deps.rules.names && { names: deps.rules.names }),
        ...(deps.seesAll(asker) && deps.trouble && { trouble: deps.trouble() }),
        ...(deps.seesAll(asker) && overdueOf(deps)),
        ...(data.requests && { requests: (await deps.bus.usage()).requests }),
      }
    case 'list':
      return await answerList(deps, asker, data)
    case 'agents':
      return await answerAgents(deps, asker)
    case 'acknowledged':
      return { ok: true, returns: await acknowledgedOf(deps, asker, data.returns) }
    case 'inbox':
      return await answerInbox(deps, asker, data)
    case 'dead_letters':
      return await answerDeadLetters(deps, asker, data)
    case 'dead_letter':
      return await answerDeadLetter(deps, asker, data)
    case 'pass':
      return await answerPass(deps, asker, data)
    case 'query':
      return await answerQuery(deps, asker, data)
    case 'stats':
      return await answerStats(deps, asker, data)
    case 'index':
      return await answerIndex(deps, asker, data)
    case 'repair':
      return await answerRepair(deps, asker, data)
    case 'custody':
      return await answerCustody(deps, asker, data)
  }
}

/** Returns the number of overdue segments and the oldest of them, or nothing if there are none. */
function overdueOf({ overdue }: AnswerDeps): Pick<Extract<TimeAnswer, { ok: true }>, 'overdue'> {
  const segments = overdue?.() ?? []
  return segments.length > 0 ? { overdue: { count: segments.length, segments: segments.slice(0, MAX_OVERDUE) } } : {}
}

async function answerList(deps: AnswerDeps, asker: string, asked: Extract<Question, { op: 'list' }>): Promise<ListAnswer> {
  const { op: _, limit = DEFAULT_LIMIT, ...filter } = asked
  const own = deps.seesAll(asker) ? {} : { party: asker }
  return { ok: true, ...(await deps.lists.list({ ...filter, ...own }, limit)) }
}

/** Lists the registered agents. Limits, load and revocations of an agent are for people and for the agent itself. */
async function answerAgents({ lists, seesAll }: AnswerDeps, asker: string): Promise<AgentsAnswer> {
  const rows = await lists.agents()
  if (seesAll(asker)) return { ok: true, agents: rows }
  const own = ({ agent }: AgentRow) => agent.name === asker
  return { ok: true, agents: rows.map((row) => (own(row) ? row : { agent: { name: row.agent.name, roles: row.agent.roles } })) }
}

async function answerPass(deps: AnswerDeps, asker: string, asked: Extract<Question, { op: 'pass' }>): Promise<PassAnswer> {
  const none = refuse('E041', `Pass ${asked.id} does not exist`)
  // An invalid id names no pass, and must not be used as a filter.
  if (!storedId.safeParse(asked.id).success) return none
  const { last } = await deps.bus.bounds()
  const keys = (await deps.lists.keys(asked)).filter((key) => deps.seesAll(asker) || key.originator === asker || key.subagent === asker)
  const passes: AnsweredPass[] = []
  let room = MAX_RETURN_BYTES
  let looked = 0
  for (const key of keys) {
    if (passes.length === MAX_PASSES || looked === MAX_LOOKED) break
    looked += 1
    const request = deps.requestOf(key)
    const loaded = await loadPass(deps, key, {
      up_to: last,
      from: fromOf(deps.beginOf(key)),
      ...(request === undefined ? {} : { request }),
    })
    if (loaded.messages.length === 0 || isErased(deps, loaded)) continue
    const pass = await answered(deps, loaded, { room, history: asked.history ?? false })
    room -= pass.return?.data.length ?? 0
    // The subagent of a held pass may not see its context before a person approves it.
    const due = asked.due && (deps.seesAll(asker) || key.originator === asker) ? await findInboxItem(deps, loaded) : undefined
    if (due) pass.due = due
    passes.push(asked.history ? { ...pass, ...(await childPassesOf(deps, asker, pass)) } : pass)
  }
  const left_out = keys.length - looked
  if (passes.length > 0) return { ok: true, passes, ...(left_out > 0 && { left_out }) }
  if (left_out > 0) return refuse('E040', `More than ${looked} passes have the id ${asked.id}: name originator and subagent`)
  const erased = erasedOf(deps, asker, asked.id)
  if (erased) return erased
  return none
}

/** True if the pass was erased, and all that is left are events that an agent stored after the erasure. */
function isErased({ custody }: AnswerDeps, { memory: { key, journal, request } }: LoadedPass): boolean {
  return journal.state === 'none' && !request && custody.custody.erasureOf(sha256(key.id)) !== undefined
}

/** Returns the error for an erased pass, if the asker may see every pass. The erasure is found by the digest of the id. */
function erasedOf({ custody, seesAll }: AnswerDeps, asker: string, id: string): ReturnType<typeof refuse> | undefined {
  const erasure = custody.custody.erasureOf(sha256(id))
  if (!erasure || !seesAll(asker)) return undefined
  return refuse('E041', `Pass ${id} was erased on ${new Date(erasure.time).toISOString()}, requested by ${erasure.by}: ${erasure.reason}`)
}

/** Returns where to start reading a pass, so that the server skips older messages. A cancel event may be stored slightly before the request. */
function fromOf(begin: number | undefined): number {
  return Math.max(1, (begin ?? 0) - BEFORE)
}

async function childPassesOf(deps: AnswerDeps, asker: string, { row }: AnsweredPass): Promise<Pick<AnsweredPass, 'below' | 'below_more'>> {
  const { passes, more } = await deps.lists.below({ row, own: deps.seesAll(asker) ? {} : { party: asker }, limit: MAX_BELOW })
  return { below: passes, ...(more ? { below_more: true } : {}) }
}

async function answered(deps: AnswerDeps, loaded: LoadedPass, options: { room: number; history: boolean }): Promise<AnsweredPass> {
  const { memory } = loaded
  const described = await buildCheckedRecord(memory, deps.rules, deps.check)
  const row = await withRowDelivery(deps.acknowledged, described.row)
  const heard = row.send === 'acknowledged' && options.history ? await receivedOf(deps, row) : undefined
  const record = withRecordDelivery(described.record, row.send === 'acknowledged' ? { at: heard?.time } : undefined)
  const framed = memory.step('work') ?? memory.step('held')
  const control = framed && controlOf(framed)
  const returned = returnOf(loaded)
  const traceparent = traceOf(memory)
  const fits = returned !== undefined && returned.data.length <= options.room
  return {
    key: memory.key,
    status: row.status,
    row,
    ...(record.digest === undefined ? {} : { digest: record.digest }),
    ...(row.deadline === undefined ? {} : { deadline: row.deadline }),
    ...(control ? { control } : {}),
    ...revokedOf(deps.revoked ?? new Map(), [...(control?.ancestors ?? [row.originator]), row.subagent]),
    ...(fits ? { return: returned } : returned ? { return_left_out: true } : {}),
    decisions: countingDecisions(record),
    record,
    ...(traceparent === undefined ? {} : { traceparent }),
    ...(options.history ? timelineOf(loaded, record, { heard, names: deps.rules.names }) : {}),
  }
}

/** Returns the traceparent of a pass. All of its steps carry the same one, except that a return of the system may carry none. */
function traceOf({ noted }: PassMemory): string | undefined {
  for (const { fact } of noted) if (fact.type === 'step' && fact.traceparent !== undefined) return fact.traceparent
  return undefined
}

/** Returns which of the returns are acknowledged, after reading everything stored so far: an acknowledgment made a moment ago counts. */
async function acknowledgedOf({ acknowledged, bus, untilRead }: AnswerDeps, asker: string, returns: readonly number[]): Promise<number[]> {
  await untilRead((await bus.bounds()).last)
  const known = await Promise.all(returns.map((sequence) => acknowledged.has(asker, sequence)))
  return returns.filter((_, at) => known[at])
}

function receivedOf({ bus }: AnswerDeps, row: PassRow): Promise<TimelineEntry | undefined> {
  return row.return_sequence === undefined ? Promise.resolve(undefined) : findAcknowledgment(bus, row, row.return_sequence)
}

function returnOf(loaded: LoadedPass): StoredReturn | undefined {
  const { journal } = loaded.memory
  if (journal.state !== 'done') return undefined
  const stored = loaded.messages.find((message) => message.stored.sequence === journal.return.sequence)?.stored
  if (!stored) return undefined
  const { sequence, time, by, attempt } = journal.return
  const content_type = stored.headers.get(HEADER.contentType)
  return { sequence, time, by, attempt, ...(content_type === undefined ? {} : { content_type }), data: stored.data }
}

/** Returns the decisions that count: for each item the first valid one. */
function countingDecisions({ decisions }: PassRecord): AnsweredDecision[] {
  return decisions.filter(({ counts }) => counts !== false).map(({ counts: _, why: __, ...decision }) => decision)
}

function tooMany(asker: string): Refusal {
  const message = `Too many queries of ${asker}, or of all clients, are being answered: try again later`
  return { ok: false, error: passError('E014', message, { retry_after_ms: BUSY_RETRY_MS }) }
}

interface Refusal {
  ok: false
  error: ReturnType<typeof passError>
}

function refuse(code: ErrorCode, message: string): { ok: false; error: ReturnType<typeof passError> } {
  return { ok: false, error: passError(code, message) }
}
