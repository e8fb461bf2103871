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
  /** At the high-water mark: it gets no work, which would take the room of returns. */
  full?: boolean
  /** What is made of it, where that is traced here. */
  span?: Span | undefined
}

/** One attempt to begin the journal that a request asks for. */
export interface PreparedAdmission {
  key: PassKey
  answered: RequestRef
  parts: Part[]
  input: AdmitInput
  decide: (now: number) => Admission
  /** Steps of its journal, where that had to be read first. */
  known?: Step[]
  span: Span | undefined
}

/** What was found out about a request's agents and its parent. */
interface RequestParties {
  agents: Pick<AdmitInput['agents'], 'originator' | 'subagent'>
  parent: AdmitInput['parent']
}

/** At once, without a promise, where nothing has to be asked or stored first: that is the way of nearly every request. */
export function prepareAdmission(context: Context, asked: ReceivedRequest): PreparedAdmission | Promise<PreparedAdmission> {
  const { parties, reading } = asked
  const { registry } = context
  const originator = registry.get(parties.originator)
  const subagent = registry.get(parties.subagent)
  const known = (originator || registry.isUnknown(parties.originator)) && (subagent || registry.isUnknown(parties.subagent))
  if (!known || reading.request.parent || !fitInMessage(reading.parts)) return prepareSlowly(context, asked)
  return makeAdmission(context, asked, { agents: { originator, subagent }, parent: undefined })
}

async function prepareSlowly(context: Context, asked: ReceivedRequest): Promise<PreparedAdmission> {
  const { registry, parents } = context
  const { parties, reading } = asked
  const { parent } = reading.request
  // Whose subagent it is not, it may not name as its parent: refused without a look.
  const found = parent?.subagent === parties.originator ? await parents.read(parent) : undefined
  const originator = registry.get(parties.originator) ?? (await registry.load(parties.originator))
  const subagent = registry.get(parties.subagent) ?? (await registry.load(parties.subagent))
  const begin = makeAdmission(context, asked, { agents: { originator, subagent }, parent: found })
  if (found?.control.budget) await chargeBudget(context, begin, { parent: found.control, budget: found.control.budget })
  if (!fitInMessage(begin.parts)) await uploadOrRefuse(context, begin)
  return begin
}

function makeAdmission(
  context: Context,
  { delivery, parties, reading, span, full }: ReceivedRequest,
  { agents, parent }: RequestParties,
): PreparedAdmission {
  const { deps, options, counting } = context
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
    counting.release(key)
    // The server's time is known here to some ms: what was stored is no later than now, and a child has no more than its parent had left then.
    input.now = Math.max(now, delivery.time)
    input.counts = counting.for(key)
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

/** What a child takes is written down before its work step; asked again, it is found there. */
async function chargeBudget(
  context: Context,
  begin: PreparedAdmission,
  { parent, budget }: { parent: WorkControl; budget: Budget },
): Promise<void> {
  const at = context.deps.clock.now()
  const wanted = begin.decide(at)
  if (wanted.kind !== 'admit' && wanted.kind !== 'hold') {
    // A limit may have room again at the next look: it took nothing, so it does not begin.
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

/** Another request of its id took from other budgets, and may begin: this one has lost if it did, and is tried later while that is not known. */
async function waitForOther({ deps }: Context, begin: PreparedAdmission): Promise<void> {
  begin.decide = () => ({ kind: 'later' })
  begin.known = await readSteps(deps.bus, begin.key)
}

function unlessBegun(admission: Admission): Admission {
  return admission.kind === 'refuse' ? admission : { kind: 'later' }
}

/** Refuses the pass where the originator's bucket cannot hold its parts. */
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

/** Large parts go to the object store only for what will be admitted, and only those that policy lets through. */
async function uploadAdmitted(context: Context, { key, parts, decide }: PreparedAdmission): Promise<Part[]> {
  const admission = decide(context.deps.clock.now())
  if (admission.kind !== 'admit') return parts
  const kept = parts.filter(admission.keep)
  return fitInMessage(kept) ? kept : uploadParts(context, key.originator, kept)
}
