import { decode, encode, type Plan, type PublishMessage, type PublishResult, type StoredMessage } from '@passover/bus'
import { foldJournal, passError } from '@passover/core'
import { type DeadLetterBody, HEADER, type PassError, type PassKey, type Step, SYSTEM, sha256, WIRE_VERSION } from '@passover/schemas'
import type { BaseContext } from '../runtime/base-context.js'
import { type ReplyType, systemReturn } from './journal-steps.js'
import type { Parties } from './parse-request.js'

/** Maximum number of bytes of a dead message that are kept for inspection. */
const MAX_KEPT_BYTES = 512 * 1024
const FULL_RETRY_AFTER_MS = 30_000

/** A stored request that gets no pass of its own: it is malformed, or its id belongs to another request. */
export interface BadRequest {
  parties: Parties
  sequence: number
  /** Server time of the request in milliseconds. */
  time: number
  data: Uint8Array
  error: PassError
  reply_type: ReplyType
  /** Digest of a well-formed request whose id is taken. If absent, the bytes are kept as a dead letter. */
  digest?: string
}

/**
 * Returns the E005 for an id that belongs to another request, open or closed. That pass is not changed (docs/architecture/protocol.md#idempotency).
 */
export function idConflict(id: string): PassError {
  return passError('E005', `the id "${id}" was already used for a different request`, { id, reason: 'id_used' })
}

export function streamFull(): PassError {
  return passError('E014', 'the stream is full or nearly full', { retry_after_ms: FULL_RETRY_AFTER_MS })
}

/** Outcome of storing an answer or a dead letter. */
export type RejectResult = { ok: true } | { ok: false; outcome: PublishResult }

/**
 * Answers a request that cannot be read. Uses the id in its header, so that the caller receives the answer, unless another request began that pass
 * (docs/architecture/malformed-requests.md). Returns `later` if an earlier unanswered request may ask for the same pass; that one is answered first.
 */
export async function rejectMalformed(
  context: BaseContext,
  bad: BadRequest & { id?: string | undefined },
): Promise<RejectResult | { ok: false; later: true }> {
  const { deps, options } = context
  const { id, sequence, data, error } = bad
  if (id === undefined) return rejectUnderBadId(context, bad)
  const key: PassKey = { ...bad.parties, id }
  if (context.asksEarlier(key, sequence) !== false) return { ok: false, later: true }
  await deps.faults?.at('admission:before-bad-return')
  const request = { digest: sha256(data), request_sequence: sequence, requested_at: bad.time, reply_type: bad.reply_type }
  const plan = (steps: Step[]): Plan<'mine' | 'repeated' | 'other'> => {
    const { journal } = foldJournal(steps, context.rules)
    if (journal.state === 'none') {
      const position = { subjects: deps.bus.subjects, key, guard: journal.last, nonce: context.nonce(), first: true }
      return { publish: systemReturn(position, error, request), stored: () => 'mine' }
    }
    if (journal.state !== 'done' || journal.work || journal.held) return { done: 'other' }
    if (journal.return.request === sequence) return { done: 'mine' }
    return { done: journal.return.digest === request.digest ? 'repeated' : 'other' }
  }
  const advanced = await deps.bus.journal.advance(key, plan, {
    read: 'leader',
    deadline_ms: options.step_deadline_ms,
    too_long: () => ({ done: 'other' }),
  })
  if (!advanced.ok) return { ok: false, outcome: advanced.outcome }
  if (advanced.value === 'other') return rejectUnderBadId(context, bad)
  if (advanced.value === 'repeated') return { ok: true }
  await deps.faults?.at('admission:before-dead-letter')
  return storeDeadLetter(context, key, { sequence, error, data })
}

/**
 * Answers a request under `bad-<its sequence>` to the originator in its subject, and keeps the bytes of a malformed one. Both messages are guarded,
 * so that replicas and redeliveries store each of them once. A repetition that the server refuses counts as answered.
 */
export async function rejectUnderBadId(context: BaseContext, bad: BadRequest): Promise<RejectResult> {
  const { deps, options } = context
  const key: PassKey = { ...bad.parties, id: deps.bus.subjects.badId(bad.sequence) }
  if (bad.digest === undefined) {
    await deps.faults?.at('admission:before-dead-letter')
    const kept = await storeDeadLetter(context, key, { sequence: bad.sequence, error: bad.error, data: bad.data })
    if (!kept.ok) return kept
  }
  await deps.faults?.at('admission:before-bad-return')
  const request = {
    digest: bad.digest ?? sha256(bad.data),
    request_sequence: bad.sequence,
    requested_at: bad.time,
    reply_type: bad.reply_type,
  }
  // The agents of the pass can guess the id and store steps under it, also before the request. Only a step of the system is the answer.
  const isAnswered = (steps: Step[]) => steps.some(({ by, untrusted }) => by === SYSTEM && untrusted === undefined)
  const answer = (guard: number) =>
    systemReturn({ subjects: deps.bus.subjects, key, guard, nonce: context.nonce(), first: true }, bad.error, request)
  const plan = (steps: Step[], _tries: number, last = steps.at(-1)?.sequence ?? 0): Plan<true> =>
    isAnswered(steps) ? { done: true } : { publish: answer(last), stored: () => true }
  /** Handles a flooded journal: guards on a subject that only the system may write. */
  const too_long = (steps: Step[]): Plan<true> => {
    if (isAnswered(steps)) return { done: true }
    const message = answer(0)
    return { publish: { ...message, guard: { subject: message.subject, sequence: 0 } }, stored: () => true }
  }
  const how = { read: 'leader' as const, deadline_ms: options.step_deadline_ms, from: bad.sequence, too_long }
  const advanced = await deps.bus.journal.advance(key, plan, how)
  return advanced.ok ? { ok: true } : { ok: false, outcome: advanced.outcome }
}

/** Stores the `dead_letter` event of a pass once. The event's own subject is its guard. */
export async function storeDeadLetter(
  context: BaseContext,
  key: PassKey,
  dead: { sequence: number; error: PassError; data?: Uint8Array },
): Promise<RejectResult> {
  const { bus } = context.deps
  const subject = bus.subjects.event(key, 'dead_letter', 'passover')
  const bytes = dead.data?.subarray(0, MAX_KEPT_BYTES)
  const body: Omit<DeadLetterBody, 'bytes'> & { bytes?: Uint8Array } = {
    v: WIRE_VERSION,
    sequence: dead.sequence,
    error: dead.error,
    ...(bytes && { bytes }),
    ...(bytes && dead.data && dead.data.length > bytes.length && { truncated: true }),
  }
  const publish = (after: number) => {
    const message: PublishMessage = { subject, data: encode(body, 'msgpack'), guard: { subject, sequence: after } }
    return bus.publish(message)
  }
  const outcome = await publish(0)
  if (outcome.kind !== 'lost') return outcome.kind === 'stored' ? { ok: true } : { ok: false, outcome }
  // Either another replica or an earlier delivery of this message has stored it, or the stored dead letter is about another message, such as a notice
  // of lost work.
  const last = await bus.journal.last(subject)
  if (!last || (bus.subjects.isTrusted(last) && deadLetterSequence(last) === dead.sequence)) return { ok: true }
  const second = await publish(last.sequence)
  return second.kind === 'stored' || second.kind === 'lost' ? { ok: true } : { ok: false, outcome: second }
}

/** Returns the sequence of the message that a stored dead letter is about. */
function deadLetterSequence({ data, headers }: StoredMessage): unknown {
  const decoded = decode(data, headers.get(HEADER.contentType))
  return decoded.ok ? (decoded.value as { sequence?: unknown } | null)?.sequence : undefined
}
