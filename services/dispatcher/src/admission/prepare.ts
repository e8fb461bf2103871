import type { Delivery } from '@passover/bus'
import { type Admission, type AdmitInput, admit, type Span, tokensOf } from '@passover/core'
import { type Budget, keyText, type Part, type PassKey, type Step, traceIdOf, type WorkControl } from '@passover/schemas'
import type { RequestRef } from '../messages/journal-steps.js'
import type { ParsedRequest, Parties } from '../messages/parse-request.js'
import { readSteps } from '../messages/read-journal.js'
import { streamFull } from '../messages/reject.js'
import { fitInMessage, partsRefusal, uploadParts } from '../registry/parts-bucket.js'
import type { Context } from './context.js'

export interface ReceivedRequest {
  delivery: Delivery
  parties: Parties
  reading: ParsedRequest
  /** True if the stream is above the high-water mark. The request is then refused, because its work would take the space reserved for returns. */
  full?: boolean
  /** Span of the decision about this request, if it is traced. */
  span?: Span | undefined
}

/** One attempt to begin the journal of the requested pass. */
export interface PreparedAdmission {
  key: PassKey
  answered: RequestRef
  parts: Part[]
  input: AdmitInput
  decide: (now: number) => Admission
  /** Steps of the journal, if it had to be read beforehand. */
  known?: Step[]
  span: Span | undefined
}

/** The registered agents and the parent of a request, as looked up. */
interface RequestParties {
  agents: Pick<AdmitInput['agents'], 'originator' | 'subagent'>
  parent: AdmitInput['parent']
}

/** Prepares the admission of a request. Synchronous if nothing has to be read or stored first, which is the case for nearly every request. */
export function prepareAdmission(context: Context, received: ReceivedRequest): PreparedAdmission | Promise<PreparedAdmission> {
  const { parties, reading } = received
  const { registry } = context
  const originator = registry.get(parties.originator)
  const subagent = registry.get(parties.subagent)
  const known = (originator || registry.isUnknown(parties.originator)) && (subagent || registry.isUnknown(parties.subagent))
  if (!known || reading.request.parent || !fitInMessage(reading.parts)) return prepareSlowly(context, received)
  return makeAdmission(context, received, { agents: { originator, subagent }, parent: undefined })
}

async function prepareSlowly(context: Context, received: ReceivedRequest): Promise<PreparedAdmission> {
  const { registry, parents } = context
  const { parties, reading } = received
  const { parent } = reading.request
  // A request may name only a parent whose subagent is its own originator. For any other, the parent is not read, and the request is refused.
  const found = parent?.subagent === parties.originator ? await parents.read(parent) : undefined
  const originator = registry.get(parties.originator) ?? (await registry.load(parties.originator))
  const subagent = registry.get(parties.subagent) ?? (await registry.load(parties.subagent))
  const begin = makeAdmission(context, received, { agents: { originator, subagent }, parent: found })
  if (found?.control.budget) await chargeBudget(context, begin, { parent: found.control, budget: found.control.budget })
  if (!fitInMessage(begin.parts)) await uploadOrRefuse(context, begin)
  return begin
}

function makeAdmission(
  context: Context,
  { delivery, parties, reading, span, full }: ReceivedRequest,
  { agents, parent }: RequestParties,
): PreparedAdmission {
  const { deps, options, counters } = context
  const { request, digest, session_id, unnamed_session, reply_type } = reading
  const traceparent = reading.traceparent ?? span?.traceparent
  const { originator, subagent } = parties
  const policy = context.policy.current()
  const input: AdmitInput = {
    request,
    subject: parties,
    request_sequence: delivery.sequence,
    requested_at: delivery.time,
    now: 0,
    parts: reading.parts,
    digest,
    session_id,
    unnamed_session,
    reply_type,
    agents: { originator: agents.originator, subagent: agents.subagent, open: options.registration === 'open' },
    parent,
    policy,
    id_window_ms: options.id_window_ms,
    local_person: options.local_person,
    return_id: Buffer.from(deps.random.bytes(16)).toString('base64url'),
    trace_id: traceIdOf(traceparent),
  }
  const key: PassKey = { originator, subagent, id: request.id }
  const decide = (now: number): Admission => {
    counters.release(key)
    // The local estimate of the server's time is off by some milliseconds. A stored message is never later than now, and a child never gets more time
    // than its parent had left when the request was stored.
    input.now = Math.max(now, delivery.time)
    input.counts = counters.for(key)
    const admission = admit(input)
    return full && admission.kind === 'admit' ? { kind: 'refuse', error: streamFull() } : admission
  }
  const answered: RequestRef = {
    digest,
    request_sequence: delivery.sequence,
    requested_at: delivery.time,
    reply_type,
    traceparent,
    policy_version: policy.version,
  }
  return { key, answered, parts: reading.parts, input, decide, span }
}

/** Charges the child to the budgets above it before its work step is stored. A repeated attempt finds its charge there. */
async function chargeBudget(
  context: Context,
  begin: PreparedAdmission,
  { parent, budget }: { parent: WorkControl; budget: Budget },
): Promise<void> {
  const at = context.deps.clock.now()
  const wanted = begin.decide(at)
  if (wanted.kind !== 'admit' && wanted.kind !== 'hold') {
    // A limit may have room again at the next evaluation. Without a charge the pass must not begin, so everything but a refusal becomes `later`.
    const { decide } = begin
    begin.decide = (now) => unlessBegun(decide(now))
    return
  }
  const { root, timeout_ms, context_bytes } = wanted.control
  const above = { originator: parent.originating_agent_id, subagent: parent.subagent_id, id: parent.id }
  const asking = {
    pass: keyText(begin.key),
    parent: { pass: keyText(above), budget },
    tokens: tokensOf(context_bytes),
    time_ms: timeout_ms,
    at,
  }
  const charged = await context.budgets.charge(root, asking)
  if (charged === 'taken') return waitForOther(context, begin)
  begin.input.charged = charged
  await context.deps.faults?.at('admission:after-charge')
}

/**
 * Handles an id whose charge another request took below other budgets, and which may begin. If that journal has begun, this request has lost;
 * otherwise it is retried later.
 */
async function waitForOther({ deps }: Context, begin: PreparedAdmission): Promise<void> {
  begin.decide = () => ({ kind: 'later' })
  begin.known = await readSteps(deps.bus, begin.key)
}

function unlessBegun(admission: Admission): Admission {
  return admission.kind === 'refuse' ? admission : { kind: 'later' }
}

/** Uploads large parts, or refuses the pass if the originator's bucket cannot store them. */
async function uploadOrRefuse(context: Context, begin: PreparedAdmission): Promise<void> {
  try {
    begin.parts = await uploadAdmitted(context, begin)
  } catch (error) {
    const refusal = partsRefusal(error)
    if (!refusal) throw error
    const { decide } = begin
    begin.decide = (now) => {
      const admission = decide(now)
      return admission.kind === 'admit' ? { kind: 'refuse', error: refusal } : admission
    }
  }
}

/** Uploads large parts to the object store only if the pass will be admitted, and only the parts that the policy lets through. */
async function uploadAdmitted(context: Context, { key, parts, decide }: PreparedAdmission): Promise<Part[]> {
  const admission = decide(context.deps.clock.now())
  if (admission.kind !== 'admit') return parts
  const kept = parts.filter(admission.keep)
  return fitInMessage(kept) ? kept : uploadParts(context, key.originator, kept)
}
