/**
 * Looks up what the decision about a request needs. In: a parsed request. Out: an `AdmissionTask`, which decides and holds the content of the first
 * step. Charges budgets and uploads large parts beforehand.
 */

import type { Delivery } from '@passover/bus'
import { type AdmissionDecision, type AdmitInput, admit, type Span, tokensOf } from '@passover/core'
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
  parsed: ParsedRequest
  /** True if the stream is above the high-water mark. The request is then refused, because its work would take the space reserved for returns. */
  full?: boolean
  /** Span of the decision about this request, if it is traced. */
  span?: Span | undefined
}

/** Everything that is needed to decide about a request and to publish the first step of its pass. */
export interface AdmissionTask {
  key: PassKey
  /** The request, as the first step refers to it. */
  request: RequestRef
  parts: Part[]
  input: AdmitInput
  /** Decides for this server time (ms). Called again before each try to publish. */
  decide: (now: number) => AdmissionDecision
  /** Steps of the journal, if it had to be read beforehand. */
  knownSteps?: Step[]
  span: Span | undefined
}

/** The registered agents and the parent of a request, as looked up. */
interface LookedUpParties {
  agents: Pick<AdmitInput['agents'], 'originator' | 'subagent'>
  parent: AdmitInput['parent']
}

/** Prepares the admission of a request. Synchronous if nothing has to be read or stored first, which is the case for nearly every request. */
export function prepareAdmission(context: Context, received: ReceivedRequest): AdmissionTask | Promise<AdmissionTask> {
  const { parties, parsed } = received
  const { registry } = context
  const originator = registry.get(parties.originator)
  const subagent = registry.get(parties.subagent)
  const known = (originator || registry.isUnknown(parties.originator)) && (subagent || registry.isUnknown(parties.subagent))
  if (!known || parsed.request.parent || !fitInMessage(parsed.parts)) return lookUpAndPrepare(context, received)
  return makeTask(context, received, { agents: { originator, subagent }, parent: undefined })
}

async function lookUpAndPrepare(context: Context, received: ReceivedRequest): Promise<AdmissionTask> {
  const { registry, parents } = context
  const { parties, parsed } = received
  const { parent } = parsed.request
  // A request may name only a parent whose subagent is its own originator. If it names another parent, the parent is not read, and the request is
  // refused.
  const found = parent?.subagent === parties.originator ? await parents.read(parent) : undefined
  const originator = registry.get(parties.originator) ?? (await registry.load(parties.originator))
  const subagent = registry.get(parties.subagent) ?? (await registry.load(parties.subagent))
  const task = makeTask(context, received, { agents: { originator, subagent }, parent: found })
  if (found?.control.budget) await chargeBudget(context, task, { parent: found.control, budget: found.control.budget })
  if (!fitInMessage(task.parts)) await uploadOrRefuse(context, task)
  return task
}

function makeTask(
  context: Context,
  { delivery, parties, parsed, span, full }: ReceivedRequest,
  { agents, parent }: LookedUpParties,
): AdmissionTask {
  const { deps, options, counters } = context
  const { request, digest, session_id, unnamed_session, reply_type } = parsed
  const traceparent = parsed.traceparent ?? span?.traceparent
  const { originator, subagent } = parties
  const policy = context.policy.current()
  const input: AdmitInput = {
    request,
    subject: parties,
    request_sequence: delivery.sequence,
    requested_at: delivery.time,
    now: 0,
    parts: parsed.parts,
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
  const decide = (now: number): AdmissionDecision => {
    counters.release(key)
    // The local estimate of the server's time is off by some milliseconds. A stored message is never later than now, and a child never gets more time
    // than its parent had left when the request was stored.
    input.now = Math.max(now, delivery.time)
    input.counts = counters.for(key)
    const decision = admit(input)
    return full && decision.kind === 'admit' ? { kind: 'refuse', error: streamFull() } : decision
  }
  const ref: RequestRef = {
    digest,
    request_sequence: delivery.sequence,
    requested_at: delivery.time,
    reply_type,
    traceparent,
    policy_version: policy.version,
  }
  return { key, request: ref, parts: parsed.parts, input, decide, span }
}

/** Charges the child to the budgets above it before its work step is stored. A repeated attempt finds its charge there. */
async function chargeBudget(
  context: Context,
  task: AdmissionTask,
  { parent, budget }: { parent: WorkControl; budget: Budget },
): Promise<void> {
  const at = context.deps.clock.now()
  const decision = task.decide(at)
  if (decision.kind !== 'admit' && decision.kind !== 'hold') {
    // A limit may have room again at the next evaluation. Without a charge the pass must not begin, so every decision except a refusal becomes `later`.
    const { decide } = task
    task.decide = (now) => onlyRefusal(decide(now))
    return
  }
  const { root, timeout_ms, context_bytes } = decision.control
  const above = { originator: parent.originating_agent_id, subagent: parent.subagent_id, id: parent.id }
  const budgetRequest = {
    pass: keyText(task.key),
    parent: { pass: keyText(above), budget },
    tokens: tokensOf(context_bytes),
    time_ms: timeout_ms,
    at,
  }
  const charged = await context.budgets.charge(root, budgetRequest)
  if (charged === 'taken') return deferToOtherRequest(context, task)
  task.input.charged = charged
  await context.deps.faults?.at('admission:after-charge')
}

/**
 * Handles a request whose id another request has already charged to other budgets. If the journal has begun, this request has lost. Otherwise it is
 * retried later.
 */
async function deferToOtherRequest({ deps }: Context, task: AdmissionTask): Promise<void> {
  task.decide = () => ({ kind: 'later' })
  task.knownSteps = await readSteps(deps.bus, task.key)
}

function onlyRefusal(decision: AdmissionDecision): AdmissionDecision {
  return decision.kind === 'refuse' ? decision : { kind: 'later' }
}

/** Uploads large parts, or refuses the pass if the originator's bucket cannot store them. */
async function uploadOrRefuse(context: Context, task: AdmissionTask): Promise<void> {
  try {
    task.parts = await uploadIfAdmitted(context, task)
  } catch (error) {
    const refusal = partsRefusal(error)
    if (!refusal) throw error
    const { decide } = task
    task.decide = (now) => {
      const decision = decide(now)
      return decision.kind === 'admit' ? { kind: 'refuse', error: refusal } : decision
    }
  }
}

/** Uploads large parts to the object store only if the pass will be admitted, and only the parts that the policy lets through. */
async function uploadIfAdmitted(context: Context, { key, parts, decide }: AdmissionTask): Promise<Part[]> {
  const decision = decide(context.deps.clock.now())
  if (decision.kind !== 'admit') return parts
  const kept = parts.filter(decision.keep)
  return fitInMessage(kept) ? kept : uploadParts(context, key.originator, kept)
}
