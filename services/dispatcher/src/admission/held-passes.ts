/**
 * Stage 2 of a pass that is held: approval. In: a held pass about which a person decided.
 * Out: its `work` step, or a refusing `return`.
 */

import { type AckDecision, CONTENT_TYPE, decode, encode, type Plan, type PublishMessage, type StoredMessage } from '@passover/bus'
import {
  type AdmissionDecision,
  approveHeld,
  foldJournal,
  type JournalState,
  judgeDecision,
  openControl,
  passError,
  REVOKED,
} from '@passover/core'
import {
  type DecisionBody,
  HEADER,
  type HeldEnvelope,
  type PassError,
  type PassKey,
  type Step,
  SYSTEM,
  violationBody,
  WIRE_VERSION,
  type WorkControl,
} from '@passover/schemas'
import { type RequestRef, systemReturn, workStep } from '../messages/journal-steps.js'
import { type ParsedRequest, parseRequest } from '../messages/parse-request.js'
import { inSpan } from '../messages/tracing.js'
import { fitInMessage, partsRefusal, uploadParts } from '../registry/parts-bucket.js'
import type { Context } from './context.js'

const RETRY_MS = 1_000
const ITEM = 'dispatch'

/** Fields of a decision that its subject contains. */
export interface DecisionSubject {
  key: PassKey
  item: string
  person: string
}

type HeldJournal = Extract<JournalState, { state: 'held' }>

/** A held pass as the leader has it, with all of its stored messages. */
interface HeldPass {
  key: PassKey
  history: StoredMessage[]
  journal: HeldJournal
  control: WorkControl
  expires_at: number
  traceparent: string | undefined
}

interface CountedDecision {
  person: string
  body: DecisionBody
}

/** Result of the preparation for a decided pass, before its next step is planned: the reason to end it, or the request to dispatch. */
type PreparedDecision = { end: PassError } | { request: ParsedRequest }

/** Next step of a held pass: its work, or its end. */
type NextStep = { request: ParsedRequest; admission: Extract<AdmissionDecision, { kind: 'admit' }> } | { end: PassError }

/** `moved on`: the pass is no longer held, through this call or another one. `undecided`: no decision about it counts. */
export type AdvanceResult = 'moved on' | 'undecided' | 'failed'

/** Applies the decisions about a held pass. Acknowledges the delivery once the pass is no longer held, or if no decision counts. */
export async function decideHeld(context: Context, subject: DecisionSubject): Promise<AckDecision> {
  if (subject.item !== ITEM) return { ok: true }
  const advanced = await advanceHeldPass(context, subject.key)
  if (advanced === 'failed') return { retry: true, delay_ms: RETRY_MS }
  await context.deps.faults?.at('decision:before-ack')
  return { ok: true }
}

/**
 * Applies the decision of a person to a held pass. The first decision of an approver that names the digest of the pass counts, regardless of the
 * order of delivery (I6). An approval that ignores a revocation is recorded as a violation, so that every other reader ignores the approval.
 */
export async function advanceHeldPass(context: Context, key: PassKey): Promise<AdvanceResult> {
  const pass = await readHeld(context, key)
  if (pass === 'moved on') return pass
  if (pass === 'unreadable') return 'failed'
  const counted = await firstThatCounts(context, pass)
  if (counted === 'failed') return counted
  if (!counted) return 'undecided'
  const about = { key, parent: pass.traceparent, facts: { item: ITEM, decision: counted.body.verdict, person: counted.person } }
  return inSpan(context, about, () => applyDecision(context, pass, counted))
}

async function applyDecision(context: Context, pass: HeldPass, counted: CountedDecision): Promise<AdvanceResult> {
  const prepared = await prepareDecision(context, pass, counted)
  await context.deps.faults?.at('decision:before-publish')
  const stored = await publish(context, pass, { counted, prepared })
  await context.deps.faults?.at('decision:after-publish')
  if (!stored) return 'failed'
  context.stats.decided++
  return 'moved on'
}

/**
 * Reads a held pass. `moved on`: it is not held, or its journal is flooded with steps, so that only its expiry can end it. `unreadable`: its policy
 * cannot be decoded here, for example because a newer dispatcher wrote it; the decision is left to a dispatcher that can.
 */
async function readHeld(context: Context, key: PassKey): Promise<HeldPass | 'moved on' | 'unreadable'> {
  const { bus, log } = context.deps
  let cut = false
  const history = await bus.journal.history(key, 1, (what) => {
    if (what === 'steps') cut = true
  })
  if (cut) {
    log.warn({ ...key }, 'journal of a held pass is too long to read')
    return 'moved on'
  }
  const { journal } = foldJournal(stepsOf(context, history), context.rules)
  if (journal.state !== 'held') return 'moved on'
  const step = history.find(({ sequence }) => sequence === journal.held.sequence)
  const body = step && decode(step.data, 'msgpack')
  const held = body?.ok ? (body.value as HeldEnvelope) : undefined
  const control = held?.control?.policy && openControl(held.control, journal.held)
  if (!held || !control) {
    log.error({ ...key, base: held?.control?.policy?.base }, 'policy of a held pass cannot be read; it may be of a newer version')
    return 'unreadable'
  }
  const { traceparent } = journal.held
  return { key, history, journal, control, expires_at: journal.held.time + held.expires_ms, traceparent }
}

function stepsOf(context: Context, history: StoredMessage[]): Step[] {
  return history.map((stored) => context.deps.bus.subjects.toFact(stored)).filter((fact) => fact.type === 'step')
}

async function firstThatCounts(context: Context, pass: HeldPass): Promise<CountedDecision | 'failed' | undefined> {
  const { registry, deps } = context
  const revoked = await registry.revoked()
  if (!revoked) {
    deps.log.warn({ ...pass.key }, 'the newest agent records cannot be read; retrying')
    return 'failed'
  }
  const { control, journal, key } = pass
  const digest = journal.held.digest ?? control.digest
  const isPerson = (name: string) => registry.get(name) === undefined
  const rules = {
    key,
    approvers: control.policy.approvers,
    ancestors: control.ancestors,
    local_person: control.local_person,
    isPerson,
    digest,
    expires_at: pass.expires_at,
    revoked,
  }
  const violated = violatedIn(context, pass.history)
  for (const stored of pass.history) {
    const fact = deps.bus.subjects.toFact(stored)
    if (fact.type !== 'decision' || fact.item !== ITEM || violated.has(fact.sequence)) continue
    const decoded = decode(stored.data, stored.headers.get(HEADER.contentType))
    const judged = judgeDecision(fact, decoded.ok ? decoded.value : undefined, rules)
    // The registry of this process may not have an agent yet that another dispatcher has just registered, so the bucket is asked.
    if (judged.counts && !(await registry.load(judged.person))) return judged
    const why = judged.counts ? 'not a person' : judged.why
    deps.log.warn({ ...key, person: fact.person, sequence: fact.sequence, why }, 'decision is not valid; ignored')
    if (why === REVOKED && !(await recordViolation(context, key, fact.sequence))) return 'failed'
  }
  return undefined
}

/** Returns the sequences of the messages that are recorded as violations. Such a decision does not count, even if the revocation is taken back. */
function violatedIn({ deps }: Context, history: readonly StoredMessage[]): ReadonlySet<unknown> {
  return new Set(
    history.map((stored) => {
      const fact = deps.bus.subjects.toFact(stored)
      if (fact.type !== 'event' || fact.kind !== 'violation' || fact.sender !== SYSTEM) return undefined
      const decoded = decode(stored.data, stored.headers.get(HEADER.contentType))
      return decoded.ok ? violationBody.safeParse(decoded.value).data?.sequence : undefined
    }),
  )
}

/** Returns false if the violation could not be stored, so that the decision has to be judged again. */
async function recordViolation({ deps: { bus } }: Context, key: PassKey, sequence: number): Promise<boolean> {
  const subject = bus.subjects.event(key, 'violation', SYSTEM)
  const last = await bus.journal.last(subject)
  const outcome = await bus.publish({
    subject,
    headers: { [HEADER.contentType]: CONTENT_TYPE.msgpack },
    data: encode({ v: WIRE_VERSION, sequence, what: `an approval without despite_revocation: ${REVOKED}` }),
    guard: { subject, sequence: last?.sequence ?? 0 },
  })
  return outcome.kind === 'stored'
}

async function prepareDecision(context: Context, { key, control }: HeldPass, { person, body }: CountedDecision): Promise<PreparedDecision> {
  if (body.verdict === 'deny') {
    const reason = body.reason === undefined ? '' : `: ${body.reason}`
    return { end: passError('E013', `${person} denied the dispatch${reason}`, { approval: 'denied', person }) }
  }
  if (!(await parentLives(context, control))) return { end: passError('E043', 'its parent ended before the approval') }
  const request = await rereadRequest(context, control)
  if (!request) return { end: passError('E005', 'the request that was approved is no longer in the stream') }
  const admission = approveHeld(control, context.deps.clock.now())
  if (admission.kind !== 'admit') return { request }
  const kept = request.parts.filter(admission.keep)
  if (fitInMessage(kept)) return { request: { ...request, parts: kept } }
  try {
    return { request: { ...request, parts: await uploadParts(context, key.originator, kept) } }
  } catch (error) {
    const refusal = partsRefusal(error)
    if (refusal) return { end: refusal }
    throw error
  }
}

async function parentLives(context: Context, { parent, proof = 0 }: WorkControl): Promise<boolean> {
  if (!parent) return true
  const found = await context.parents.read({ ...parent, proof })
  return found?.journal.state === 'open' && found.journal.valid === proof
}

/** Reads the context of a held pass from its request, by sequence at the leader. The held step does not contain it. */
async function rereadRequest(context: Context, control: WorkControl): Promise<ParsedRequest | undefined> {
  const stored = await context.deps.bus.journal.message(control.request_sequence)
  if (!stored) return undefined
  const parties = { originator: control.originating_agent_id, subagent: control.subagent_id }
  const parsed = parseRequest(stored, parties)
  return parsed.ok && parsed.value.digest === control.digest ? parsed.value : undefined
}

interface DecidedPass {
  counted: CountedDecision
  prepared: PreparedDecision
}

/**
 * Publishes the next step. Returns true if the pass is no longer held, through this step or another one. Each try evaluates the current time again.
 */
async function publish(context: Context, pass: HeldPass, decided: DecidedPass): Promise<boolean> {
  const { bus, log, clock } = context.deps
  const plan = (steps: Step[]): Plan<true> => {
    const { journal } = foldJournal(steps, context.rules)
    if (journal.state !== 'held') return { done: true }
    const outcome = decideNextStep(pass, decided, clock.now())
    return { publish: buildNextStep(context, pass, { outcome, guard: journal.last }), stored: () => true }
  }
  const known = stepsOf(context, pass.history)
  const advanced = await bus.journal.advance(pass.key, plan, { read: 'leader', known, deadline_ms: context.options.step_deadline_ms })
  if (!advanced.ok) log.warn({ ...pass.key, outcome: advanced.outcome }, 'decided step not stored; retrying')
  return advanced.ok
}

function decideNextStep({ control, expires_at }: HeldPass, { counted, prepared }: DecidedPass, now: number): NextStep {
  if ('end' in prepared) return prepared
  const { person } = counted
  if (expires_at <= now) return { end: passError('E013', 'the approval came after its expiry', { approval: 'expired', person }) }
  const admission = approveHeld(control, now)
  if (admission.kind === 'admit') return { request: prepared.request, admission }
  return { end: admission.kind === 'refuse' ? admission.error : passError('E013', 'the approved pass may not be dispatched') }
}

function buildNextStep(context: Context, pass: HeldPass, how: { outcome: NextStep; guard: number }): PublishMessage {
  const position = { subjects: context.deps.bus.subjects, key: pass.key, guard: how.guard, nonce: context.nonce() }
  const { outcome } = how
  if ('end' in outcome) return systemReturn(position, outcome.end, requestRefOf(pass))
  const { admission, request } = outcome
  const { control, keep } = admission
  return workStep(position, { control, parts: request.parts.filter(keep) }, pass.traceparent)
}

function requestRefOf({ control, traceparent }: HeldPass): RequestRef {
  const { digest, request_sequence, requested_at, reply_type } = control
  return { digest, request_sequence, requested_at, reply_type, traceparent }
}
