/**
 * Stage 2 of a pass, admission. In: a parsed request, as its consumer delivered it.
 * Out: the first step of the journal (`work`, `held` or a refusing `return`), and whether to acknowledge the request.
 */

import type { AckDecision, Advanced, Plan, PublishMessage, PublishResult } from '@passover/bus'
import { type AdmissionDecision, countToken, foldJournal, type JournalState, passError } from '@passover/core'
import { idTime, type PassError, type Step } from '@passover/schemas'
import { heldStep, systemReturn, workStep } from '../messages/journal-steps.js'
import { firstDigest } from '../messages/read-journal.js'
import { idConflict, rejectUnderBadId, streamFull } from '../messages/reject.js'
import { inDecisionSpan, noteDecision } from '../messages/tracing.js'
import type { Context } from './context.js'
import { type AdmissionTask, prepareAdmission, type ReceivedRequest } from './prepare-admission.js'

/** Milliseconds before the end of the id window in which a published first step may be stored too late to count (rule 5). */
const LATE_MARGIN_MS = 30_000
const RETRY_MS = 1_000
/** Milliseconds until a request whose journal has not begun is delivered again. */
const NOT_BEGUN_RETRY_MS = 250
const STAT_OF = { admit: 'admitted', hold: 'held', refuse: 'refused' } as const

/** A decision that can be published. Excludes `later`, which means that the counts for a limit are not known yet. */
type FinalDecision = Exclude<AdmissionDecision, { kind: 'later' }>

/** State of the journal once a first step was published or turned out not to be needed. */
type JournalOutcome =
  | { kind: 'begun'; decision: FinalDecision }
  /** Another request, or an earlier delivery of this one, began the journal. */
  | { kind: 'begun_before'; journal: JournalState }
  /** The counts for a limit are not loaded yet, or another request has charged the budget: the request is delivered again. */
  | { kind: 'not_begun' }

/**
 * Admits, holds or refuses one well-formed request: publishes the first step of its journal, expecting an empty journal.
 * The request is acknowledged only after its journal has begun (rule 7). The journal is read only if the publish was not stored.
 */
export function admitRequest(context: Context, received: ReceivedRequest): Promise<AckDecision> {
  return context.deps.tracing?.on
    ? inDecisionSpan(context, received, (traced) => reserveAndAdmit(context, traced))
    : reserveAndAdmit(context, received)
}

/** Reserves space in the stream for the work, publishes the first step, and decides about the acknowledgment. */
async function reserveAndAdmit(context: Context, received: ReceivedRequest): Promise<AckDecision> {
  const { deps, backpressure } = context
  const bytes = received.delivery.data.byteLength
  const reserving = backpressure.reserve(bytes)
  const fits = reserving instanceof Promise ? await reserving : reserving
  let task: AdmissionTask
  let published: Advanced<JournalOutcome>
  try {
    const preparing = prepareAdmission(context, fits ? received : { ...received, full: true })
    task = preparing instanceof Promise ? await preparing : preparing
    if (deps.faults) await deps.faults.at('admission:before-publish')
    published = await publishFirstStep(context, task, task.decide, task.knownSteps)
    if (isRefusedForSize(published)) published = await publishRefusal(context, task, published.outcome)
  } finally {
    if (fits) backpressure.release(bytes)
  }
  if (deps.faults) await deps.faults.at('admission:after-publish')
  const deciding = published.ok ? decideAck(context, received, task, published.value) : retry(context, published.outcome)
  const ackDecision = deciding instanceof Promise ? await deciding : deciding
  if (deps.faults && 'ok' in ackDecision) await deps.faults.at('admission:before-ack')
  return ackDecision
}

type Refused = Extract<PublishResult, { kind: 'refused' }>

function isRefusedForSize(published: Advanced<JournalOutcome>): published is { ok: false; outcome: Refused } {
  if (published.ok || published.outcome.kind !== 'refused') return false
  return published.outcome.reason === 'full' || published.outcome.reason === 'too_large'
}

/**
 * Publishes a refusal in place of work that the stream cannot store. The refusal is small and usually fits, so that the originator gets an answer.
 */
function publishRefusal(context: Context, task: AdmissionTask, { reason }: Refused): Promise<Advanced<JournalOutcome>> {
  const error =
    reason === 'full' ? streamFull() : passError('E012', 'the data sent with the request is larger than the maximum message size')
  return publishFirstStep(context, task, () => ({ kind: 'refuse', error }))
}

/** Decides and publishes the first step, unless the journal has begun. Decides again after each publish that was not stored. */
function publishFirstStep(
  context: Context,
  task: AdmissionTask,
  decide: AdmissionTask['decide'],
  known: Step[] = [],
): Promise<Advanced<JournalOutcome>> {
  const plan = (steps: Step[]): Plan<JournalOutcome> => {
    const { journal } = foldJournal(steps, context.rules)
    if (journal.state !== 'none') return { done: { kind: 'begun_before', journal } }
    const decision = decide(context.deps.clock.now())
    if (decision.kind === 'later') return { done: { kind: 'not_begun' } }
    if (decision.kind !== 'refuse') context.counters.take(task.key, countToken(decision.control), decision.kind === 'hold')
    return { publish: firstStep(context, task, decision, journal.last), stored: () => ({ kind: 'begun', decision }) }
  }
  /** Handles a journal that was flooded with steps before it began: refuses the pass, guarded on a subject that only the system may write. */
  const too_long = (steps: Step[]): Plan<JournalOutcome> => {
    const { journal } = foldJournal(steps, context.rules)
    if (journal.state !== 'none') return { done: { kind: 'begun_before', journal } }
    const error = passError('E013', 'the journal of this id has more steps than a pass can have', { id: task.key.id })
    return { publish: refusalOfFlooded(context, task, error), stored: () => ({ kind: 'begun', decision: { kind: 'refuse', error } }) }
  }
  const deadline_ms = context.options.step_deadline_ms
  return context.deps.bus.journal.advance(task.key, plan, { read: 'leader', deadline_ms, known, too_long })
}

function refusalOfFlooded(context: Context, task: AdmissionTask, error: PassError): PublishMessage {
  const position = { subjects: context.deps.bus.subjects, key: task.key, guard: 0, nonce: context.nonce() }
  const message = systemReturn(position, error, task.request)
  return { ...message, guard: { subject: message.subject, sequence: 0 } }
}

function firstStep(context: Context, task: AdmissionTask, decision: FinalDecision, guard: number): PublishMessage {
  const position = { subjects: context.deps.bus.subjects, key: task.key, guard, nonce: context.nonce(), first: true }
  const { request, parts } = task
  switch (decision.kind) {
    case 'admit':
      return workStep(position, { control: decision.control, parts: parts.filter(decision.keep) }, request.traceparent)
    case 'hold':
      return heldStep(position, decision, request.traceparent)
    case 'refuse':
      return systemReturn(position, decision.error, request)
  }
}

/** Decides from the state of the journal whether the delivered request is acknowledged. */
function decideAck(
  context: Context,
  received: ReceivedRequest,
  task: AdmissionTask,
  outcome: JournalOutcome,
): AckDecision | Promise<AckDecision> {
  if (outcome.kind === 'not_begun') return { retry: true, delay_ms: NOT_BEGUN_RETRY_MS }
  if (outcome.kind === 'begun_before') return ackRepeatedOrReject(context, received, task, outcome.journal)
  const now = context.deps.clock.now()
  context.counters.stored(task.key, now)
  return now < expiryOf(context, task) - LATE_MARGIN_MS
    ? ackBegun(context, task, outcome.decision)
    : expireAndAck(context, task, outcome.decision)
}

function ackBegun({ stats, deps }: Context, { key, span, request }: AdmissionTask, decision: FinalDecision): AckDecision {
  stats[STAT_OF[decision.kind]]++
  if (span) noteDecision(span, decision, request.policy_version)
  if (decision.kind === 'refuse') deps.log.info({ ...key, code: decision.error.code }, 'pass refused')
  return { ok: true }
}

/**
 * Publishes that the id has expired, because a first step that was stored too late does not count (rule 5). Does nothing if the first step was stored
 * in time.
 */
async function expireAndAck(context: Context, task: AdmissionTask, decision: FinalDecision): Promise<AckDecision> {
  const known = await context.deps.bus.journal.read(task.key)
  const expired = expiryOf(context, task) + 1
  const published = await publishFirstStep(context, task, (now) => task.decide(Math.max(now, expired)), known)
  return published.ok ? ackBegun(context, task, decision) : retry(context, published.outcome)
}

/** Returns the server time (ms) after which no first step of the pass counts. */
function expiryOf({ rules }: Context, { key, request }: AdmissionTask): number {
  return (idTime(key.id) ?? request.requested_at) + rules.id_window_ms
}

/**
 * Handles a request whose journal had begun: it is a repetition of the request that began it, or a different request with the same id
 * (docs/architecture/protocol.md#idempotency).
 */
async function ackRepeatedOrReject(
  context: Context,
  received: ReceivedRequest,
  task: AdmissionTask,
  journal: JournalState,
): Promise<AckDecision> {
  context.counters.release(task.key)
  const first = firstDigest(journal)
  const { digest, reply_type } = task.request
  if (first === undefined || first === digest) {
    context.stats.repeated++
    task.span?.note({ decision: 'repeated' })
    return { ok: true }
  }
  const { delivery, parties } = received
  const { sequence, time, data } = delivery
  const rejected = await rejectUnderBadId(context, { parties, sequence, time, data, error: idConflict(task.key.id), reply_type, digest })
  if (!rejected.ok) return retry(context, rejected.outcome)
  context.stats.bad++
  return { ok: true }
}

function retry(context: Context, outcome: PublishResult): AckDecision {
  context.deps.log.warn({ outcome }, 'first step not stored; retrying')
  return { retry: true, delay_ms: RETRY_MS }
}
