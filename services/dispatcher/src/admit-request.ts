import type { Delivery, Outcome, Outgoing, Plan, Verdict } from '@passover/bus'
import { type Admission, type AdmitInput, admit, foldJournal, type JournalState, passError, sessionToken, tokensOf } from '@passover/core'
import { type Budget, idTime, keyText, type Part, type PassError, type PassKey, type Step, type WorkControl } from '@passover/schemas'
import type { Context } from './context.js'
import { firstDigest } from './first-digest.js'
import { type Answered, heldStep, systemReturn, workStep } from './first-step.js'
import { fits, stowParts } from './fit-parts.js'
import type { Parties, ReadRequest } from './read-request.js'
import { answerBad, idUsed } from './refuse.js'

/** A first step may turn out to be late (rule 5) when it is published this close to the end of the id's window. */
const LATE_MARGIN_MS = 30_000
const RETRY_MS = 1_000
const LATER_MS = 250
const FULL_RETRY_AFTER_MS = 30_000
const TRACEPARENT = /^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}$/

export interface Asked {
  delivery: Delivery
  parties: Parties
  reading: ReadRequest
}

/** One attempt to begin the journal that a request asks for. */
interface Begin {
  key: PassKey
  answered: Answered
  parts: Part[]
  decide: (now: number) => Admission
}

/** What may be published; what a limit counts may not be known yet. */
type Begun = Exclude<Admission, { kind: 'later' }>

/** Where the journal stands after it: begun by this very attempt, or by another; or it is to be tried later. */
type Stand = { by: 'me'; admission: Begun } | { by: 'other'; journal: JournalState } | { by: 'nobody' }

/**
 * Admits, holds or refuses one well-formed request: publishes the first step of its journal, expecting none.
 * The request is acknowledged only when its journal is begun (rule 7); nothing is read unless the publish is not "stored".
 */
export async function admitRequest(context: Context, asked: Asked): Promise<Verdict> {
  const { deps } = context
  const begin = await prepare(context, asked)
  if (deps.faults) await deps.faults.at('admission:before-publish')
  const stand = await publishFirst(context, begin)
  if (deps.faults) await deps.faults.at('admission:after-publish')
  const verdict = stand.ok ? await settle(context, asked, begin, stand.value) : retry(context, stand.outcome)
  if (deps.faults && 'ok' in verdict) await deps.faults.at('admission:before-ack')
  return verdict
}

async function prepare(context: Context, asked: Asked): Promise<Begin> {
  const { deps, options, registry, parents, counting } = context
  const { delivery, parties, reading } = asked
  const { request, digest, session_id, reply_type, traceparent } = reading
  const { parent } = request
  // Whose subagent it is not, it may not name as its parent: refused without a look.
  const found = parent?.subagent === parties.originator ? await parents.read(parent) : undefined
  const input: AdmitInput = {
    request,
    subject: parties,
    request_sequence: delivery.sequence,
    requested_at: delivery.time,
    now: 0,
    parts: reading.parts,
    digest,
    session_id,
    reply_type,
    agents: {
      originator: registry.get(parties.originator) ?? (await registry.load(parties.originator)),
      subagent: registry.get(parties.subagent) ?? (await registry.load(parties.subagent)),
      open: options.registration === 'open',
    },
    parent: found,
    policy: options.policy,
    id_window_ms: options.id_window_ms,
    return_id: Buffer.from(deps.random.bytes(16)).toString('base64url'),
    trace_id: traceparent === undefined ? undefined : TRACEPARENT.exec(traceparent)?.[1],
  }
  const key: PassKey = { originator: parties.originator, subagent: parties.subagent, id: request.id }
  const decide = (now: number): Admission => {
    counting.release(key)
    input.now = now
    input.counts = counting.for(key)
    return admit(input)
  }
  if (found?.control.budget) await chargeBudget(context, { input, key, parent: found.control, budget: found.control.budget }, decide)
  return {
    key,
    answered: { digest, request_sequence: delivery.sequence, requested_at: delivery.time, reply_type, traceparent },
    parts: fits(reading.parts) ? reading.parts : await stowAdmitted(context, { parties, parts: reading.parts, decide }),
    decide,
  }
}

interface Charging {
  input: AdmitInput
  key: PassKey
  parent: WorkControl
  budget: Budget
}

/** What a child takes is written down before its work step; asked again, it is found there. */
async function chargeBudget(context: Context, { input, key, parent, budget }: Charging, decide: Begin['decide']): Promise<void> {
  const at = context.deps.clock.now()
  const wanted = decide(at)
  if (wanted.kind !== 'admit' && wanted.kind !== 'hold') return
  const { root, timeout_ms, context_bytes } = wanted.control
  const above = { originator: parent.originating_agent_id, subagent: parent.subagent_id, id: parent.id }
  const asking = { pass: keyText(key), parent: { pass: keyText(above), budget }, tokens: tokensOf(context_bytes), time_ms: timeout_ms, at }
  input.charged = await context.budgets.charge(root, asking)
  await context.deps.faults?.at('admission:after-charge')
}

/** Large parts go to the object store only for what will be admitted, and only those that policy lets through. */
async function stowAdmitted(
  { deps }: Context,
  { parties, parts, decide }: { parties: Parties; parts: Part[]; decide: Begin['decide'] },
): Promise<Part[]> {
  const admission = decide(deps.clock.now())
  if (admission.kind !== 'admit') return parts
  const kept = parts.filter(admission.keep)
  return fits(kept) ? kept : stowParts(deps.bus, parties.originator, kept)
}

async function publishFirst(context: Context, begin: Begin): Promise<{ ok: true; value: Stand } | { ok: false; outcome: Outcome }> {
  const tried = await advance(context, begin, begin.decide)
  if (tried.ok || tried.outcome.kind !== 'refused') return tried
  // A small refusal may still fit where the work does not, and nobody has to wait for nothing.
  if (tried.outcome.reason === 'full') return advance(context, begin, () => ({ kind: 'refuse', error: streamFull() }))
  if (tried.outcome.reason === 'too_large') return advance(context, begin, () => ({ kind: 'refuse', error: tooLarge() }))
  return tried
}

function advance(context: Context, begin: Begin, decide: (now: number) => Admission, known: Step[] = []) {
  const plan = (steps: Step[]): Plan<Stand> => {
    const { journal } = foldJournal(steps, context.rules)
    if (journal.state !== 'none') return { done: { by: 'other', journal } }
    const admission = decide(context.deps.clock.now())
    if (admission.kind === 'later') return { done: { by: 'nobody' } }
    if (admission.kind !== 'refuse') context.counting.take(begin.key, sessionToken(admission.control))
    return { publish: firstStep(context, begin, admission, journal.last), stored: () => ({ by: 'me', admission }) }
  }
  /** Somebody filled the journal up before it began: it ends as refused, guarded on what only the system may write. */
  const too_long = (steps: Step[]): Plan<Stand> => {
    const { journal } = foldJournal(steps, context.rules)
    if (journal.state !== 'none') return { done: { by: 'other', journal } }
    const error = passError('E013', 'the journal of this id holds more steps than a pass can have', { id: begin.key.id })
    return { publish: refusal(context, begin, error), stored: () => ({ by: 'me', admission: { kind: 'refuse', error } }) }
  }
  const deadline_ms = context.options.step_deadline_ms
  return context.deps.bus.journal.advance(begin.key, plan, { read: 'leader', deadline_ms, known, too_long })
}

function refusal(context: Context, begin: Begin, error: PassError): Outgoing {
  const place = { subjects: context.deps.bus.subjects, key: begin.key, guard: 0, nonce: context.nonce() }
  const message = systemReturn(place, error, begin.answered)
  return { ...message, guard: { subject: message.subject, sequence: 0 } }
}

function firstStep(context: Context, begin: Begin, admission: Begun, guard: number): Outgoing {
  const place = { subjects: context.deps.bus.subjects, key: begin.key, guard, nonce: context.nonce() }
  const { answered } = begin
  switch (admission.kind) {
    case 'admit':
      return workStep(
        place,
        { control: admission.control, slot: admission.slot, parts: begin.parts.filter(admission.keep) },
        answered.traceparent,
      )
    case 'hold':
      return heldStep(place, admission, answered.traceparent)
    case 'refuse':
      return systemReturn(place, admission.error, answered)
  }
}

/** What a begun journal means for the request that was delivered. */
async function settle(context: Context, asked: Asked, begin: Begin, stand: Stand): Promise<Verdict> {
  if (stand.by === 'nobody') return { retry: true, delay_ms: LATER_MS }
  if (stand.by === 'other') return settleOther(context, asked, begin, stand.journal)
  context.counting.stored(begin.key, context.deps.clock.now())
  const counted = await mustCount(context, begin)
  if (!counted.ok) return retry(context, counted.outcome)
  const { admission } = stand
  const tally = { admit: 'admitted', hold: 'held', refuse: 'refused' } as const
  context.stats[tally[admission.kind]]++
  if (admission.kind === 'refuse') context.deps.log.info({ ...begin.key, code: admission.error.code }, 'pass refused')
  return { ok: true }
}

/** Somebody began it: this request asks again, or its id was used for another request (D8). */
async function settleOther(context: Context, asked: Asked, begin: Begin, journal: JournalState): Promise<Verdict> {
  context.counting.release(begin.key)
  const first = firstDigest(journal)
  const { digest, reply_type } = begin.answered
  if (first === undefined || first === digest) {
    context.stats.repeated++
    return { ok: true }
  }
  const { delivery, parties } = asked
  const { sequence, time, data } = delivery
  const answer = await answerBad(context, { parties, sequence, time, data, error: idUsed(begin.key.id), reply_type, digest })
  if (!answer.ok) return retry(context, answer.outcome)
  context.stats.bad++
  return { ok: true }
}

/** Rule 5: a first step that was stored too late does not count, unless it says that the id expired. */
async function mustCount(context: Context, begin: Begin): Promise<{ ok: true } | { ok: false; outcome: Outcome }> {
  const { clock, bus } = context.deps
  const asked_at = idTime(begin.key.id) ?? begin.answered.requested_at
  if (clock.now() - asked_at < context.rules.id_window_ms - LATE_MARGIN_MS) return { ok: true }
  const known = await bus.journal.read(begin.key)
  const expired = asked_at + context.rules.id_window_ms + 1
  return advance(context, begin, (now) => begin.decide(Math.max(now, expired)), known)
}

function retry(context: Context, outcome: Outcome): Verdict {
  context.deps.log.warn({ outcome }, 'first step not stored, trying again')
  return { retry: true, delay_ms: RETRY_MS }
}

function streamFull(): PassError {
  return passError('E014', 'the stream is full', { retry_after_ms: FULL_RETRY_AFTER_MS })
}

function tooLarge(): PassError {
  return passError('E012', 'what travels with the request is larger than a message may be')
}
