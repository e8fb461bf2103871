import type { AckDecision, Advanced, Plan, PublishMessage, PublishResult } from '@passover/bus'
import { type Admission, countToken, foldJournal, type JournalState, passError } from '@passover/core'
import { idTime, type PassError, type Step } from '@passover/schemas'
import { heldStep, systemReturn, workStep } from '../messages/journal-steps.js'
import { firstDigest } from '../messages/read-journal.js'
import { idConflict, rejectUnderBadId, streamFull } from '../messages/reject.js'
import { inDecisionSpan, noteDecision } from '../messages/tracing.js'
import type { Context } from './context.js'
import { type PreparedAdmission, prepareAdmission, type ReceivedRequest } from './prepare.js'

/** Milliseconds before the end of the id window in which a published first step may be stored too late to count (rule 5). */
const LATE_MARGIN_MS = 30_000
const RETRY_MS = 1_000
/** Milliseconds until a request whose pass nothing began is delivered again. */
const NOT_BEGUN_RETRY_MS = 250
const STAT_OF = { admit: 'admitted', hold: 'held', refuse: 'refused' } as const

/** An admission that can be published. Excludes `later`, which means that the counts for a limit are not known yet. */
type DecidedAdmission = Exclude<Admission, { kind: 'later' }>

/**
 * The journal after an attempt: begun by this attempt (`me`), begun by another one (`other`), or not begun, to be retried later (`nobody`): the counts
 * for a limit are not loaded yet, or another request has charged the budget.
 */
type JournalOutcome = { by: 'me'; admission: DecidedAdmission } | { by: 'other'; journal: JournalState } | { by: 'nobody' }

/**
 * Admits, holds or refuses one well-formed request: publishes the first step of its journal, expecting an empty journal.
 * The request is acknowledged only after its journal has begun (rule 7). The journal is read only if the publish was not stored.
 */
export function admitRequest(context: Context, received: ReceivedRequest): Promise<AckDecision> {
  return context.deps.tracing?.on
    ? inDecisionSpan(context, received, (traced) => admitReceived(context, traced))
    : admitReceived(context, received)
}

async function admitReceived(context: Context, received: ReceivedRequest): Promise<AckDecision> {
  const { deps, backpressure } = context
  const bytes = received.delivery.data.byteLength
  const taken = backpressure.reserve(bytes)
  const fits = taken instanceof Promise ? await taken : taken
  let begin: PreparedAdmission
  let advanced: Advanced<JournalOutcome>
  try {
    const prepared = prepareAdmission(context, fits ? received : { ...received, full: true })
    begin = prepared instanceof Promise ? await prepared : prepared
    if (deps.faults) await deps.faults.at('admission:before-publish')
    const tried = await advance(context, begin, begin.decide, begin.known)
    advanced = isTooMuch(tried) ? await publishRefusal(context, begin, tried) : tried
  } finally {
    if (fits) backpressure.release(bytes)
  }
  if (deps.faults) await deps.faults.at('admission:after-publish')
  const settled = advanced.ok ? answerDelivery(context, received, begin, advanced.value) : retry(context, advanced.outcome)
  const verdict = settled instanceof Promise ? await settled : settled
  if (deps.faults && 'ok' in verdict) await deps.faults.at('admission:before-ack')
  return verdict
}

/**
 * Publishes a refusal in place of work that the stream cannot store. The refusal is small and may still fit, so that the originator gets an answer.
 */
function publishRefusal(context: Context, begin: PreparedAdmission, { outcome }: TooMuch): Promise<Advanced<JournalOutcome>> {
  const error = outcome.reason === 'full' ? streamFull() : tooLarge()
  return advance(context, begin, () => ({ kind: 'refuse', error }))
}

interface TooMuch {
  ok: false
  outcome: Extract<PublishResult, { kind: 'refused' }>
}

function isTooMuch(tried: Advanced<JournalOutcome>): tried is TooMuch {
  return !tried.ok && tried.outcome.kind === 'refused' && (tried.outcome.reason === 'full' || tried.outcome.reason === 'too_large')
}

function advance(
  context: Context,
  begin: PreparedAdmission,
  decide: PreparedAdmission['decide'],
  known: Step[] = [],
): Promise<Advanced<JournalOutcome>> {
  const plan = (steps: Step[]): Plan<JournalOutcome> => {
    const { journal } = foldJournal(steps, context.rules)
    if (journal.state !== 'none') return { done: { by: 'other', journal } }
    const admission = decide(context.deps.clock.now())
    if (admission.kind === 'later') return { done: { by: 'nobody' } }
    if (admission.kind !== 'refuse') context.counters.take(begin.key, countToken(admission.control), admission.kind === 'hold')
    return { publish: firstStep(context, begin, admission, journal.last), stored: () => ({ by: 'me', admission }) }
  }
  /** Handles a journal that was flooded with steps before it began: refuses the pass, guarded on a subject that only the system may write. */
  const too_long = (steps: Step[]): Plan<JournalOutcome> => {
    const { journal } = foldJournal(steps, context.rules)
    if (journal.state !== 'none') return { done: { by: 'other', journal } }
    const error = passError('E013', 'the journal of this id has more steps than a pass can have', { id: begin.key.id })
    return { publish: refusal(context, begin, error), stored: () => ({ by: 'me', admission: { kind: 'refuse', error } }) }
  }
  const deadline_ms = context.options.step_deadline_ms
  return context.deps.bus.journal.advance(begin.key, plan, { read: 'leader', deadline_ms, known, too_long })
}

function refusal(context: Context, begin: PreparedAdmission, error: PassError): PublishMessage {
  const place = { subjects: context.deps.bus.subjects, key: begin.key, guard: 0, nonce: context.nonce() }
  const message = systemReturn(place, error, begin.answered)
  return { ...message, guard: { subject: message.subject, sequence: 0 } }
}

function firstStep(context: Context, begin: PreparedAdmission, admission: DecidedAdmission, guard: number): PublishMessage {
  const place = { subjects: context.deps.bus.subjects, key: begin.key, guard, nonce: context.nonce(), first: true }
  const { answered } = begin
  switch (admission.kind) {
    case 'admit':
      return workStep(place, { control: admission.control, parts: begin.parts.filter(admission.keep) }, answered.traceparent)
    case 'hold':
      return heldStep(place, admission, answered.traceparent)
    case 'refuse':
      return systemReturn(place, admission.error, answered)
  }
}

/** Decides what the state of the journal means for the delivered request. */
function answerDelivery(
  context: Context,
  received: ReceivedRequest,
  begin: PreparedAdmission,
  outcome: JournalOutcome,
): AckDecision | Promise<AckDecision> {
  if (outcome.by === 'nobody') return { retry: true, delay_ms: NOT_BEGUN_RETRY_MS }
  if (outcome.by === 'other') return answerOtherOwner(context, received, begin, outcome.journal)
  const now = context.deps.clock.now()
  context.counters.stored(begin.key, now)
  return now - askedAt(begin) < context.rules.id_window_ms - LATE_MARGIN_MS
    ? acknowledgeBegun(context, begin, outcome.admission)
    : answerLate(context, begin, outcome.admission)
}

function acknowledgeBegun({ stats, deps }: Context, { key, span, answered }: PreparedAdmission, admission: DecidedAdmission): AckDecision {
  stats[STAT_OF[admission.kind]]++
  if (span) noteDecision(span, admission, answered.policy_version)
  if (admission.kind === 'refuse') deps.log.info({ ...key, code: admission.error.code }, 'pass refused')
  return { ok: true }
}

/** Rule 5: a first step that was stored too late does not count, unless it says that the id has expired. */
async function answerLate(context: Context, begin: PreparedAdmission, admission: DecidedAdmission): Promise<AckDecision> {
  const known = await context.deps.bus.journal.read(begin.key)
  const expired = askedAt(begin) + context.rules.id_window_ms + 1
  const counted = await advance(context, begin, (now) => begin.decide(Math.max(now, expired)), known)
  return counted.ok ? acknowledgeBegun(context, begin, admission) : retry(context, counted.outcome)
}

function askedAt({ key, answered }: PreparedAdmission): number {
  return idTime(key.id) ?? answered.requested_at
}

/**
 * Handles a journal that another request began: this request is a repetition, or reuses the id of a different one
 * (docs/architecture/protocol.md#idempotency).
 */
async function answerOtherOwner(
  context: Context,
  received: ReceivedRequest,
  begin: PreparedAdmission,
  journal: JournalState,
): Promise<AckDecision> {
  context.counters.release(begin.key)
  const first = firstDigest(journal)
  const { digest, reply_type } = begin.answered
  if (first === undefined || first === digest) {
    context.stats.repeated++
    begin.span?.note({ decision: 'repeated' })
    return { ok: true }
  }
  const { delivery, parties } = received
  const { sequence, time, data } = delivery
  const answer = await rejectUnderBadId(context, { parties, sequence, time, data, error: idConflict(begin.key.id), reply_type, digest })
  if (!answer.ok) return retry(context, answer.outcome)
  context.stats.bad++
  return { ok: true }
}

function retry(context: Context, outcome: PublishResult): AckDecision {
  context.deps.log.warn({ outcome }, 'first step not stored; retrying')
  return { retry: true, delay_ms: RETRY_MS }
}

function tooLarge(): PassError {
  return passError('E012', 'the data sent with the request is larger than the maximum message size')
}
