import type { EffectivePolicy, PassError, PassKey, Priority, WorkControl } from '@passover/schemas'
import { passError } from '../errors.js'
import { type Budgeted, budgeted, budgetFault } from '../limits/check-budget.js'
import { limitFault } from '../limits/check-limits.js'
import { countedSession, countToken } from '../limits/session-counter.js'
import { basePolicy, type ResolvedPolicy } from '../policy/base-policy.js'
import { resolvePolicy } from '../policy/resolve-policy.js'
import { omitUndefined } from '../runtime/omit-undefined.js'
import { validateChain } from './chain.js'
import { contextFault, keeps, sizeOf } from './check-context.js'
import { type ParentBound, parentBound, parentFault } from './check-parent.js'
import { originatorFault, requestFault, subagentFault } from './check-request.js'
import { underPolicy } from './refusal-rule.js'
import { rightsOf } from './rights.js'
import type { AdmissionDecision, AdmitInput } from './types.js'

const DEFAULT_PRIORITY: Priority = 'medium'

/**
 * Decides if a request becomes work, waits for a person, or is refused (docs/architecture/dispatcher.md#admission). Ancestry, deadline, rights and
 * budget are read from the stored parent, never from what the request claims (I3, I5).
 * The result is `later` if a limit is set and its counts are not loaded yet. Refusals: E001, E002, E003, E004, E005, E010, E012, E013, E014.
 */
export function admit(input: AdmitInput): AdmissionDecision {
  const fault = requestFault(input) ?? originatorFault(input) ?? parentFault(input)
  if (fault) return refuse(fault)
  const bound = parentBound(input)
  const parent = bound.parent?.control
  const ancestors = parent?.ancestors ?? []
  // A loop is reported as a loop even if the agent that it leads back to takes no passes.
  const { originator, subagent } = input.subject
  const loop = validateChain({ originator, subagent, ancestors, max_chain_depth: Number.POSITIVE_INFINITY })
  if (!loop.ok) return refuse(loop.error)
  const unknown = subagentFault(input)
  if (unknown) return refuse(unknown)
  const resolved = policyOf(input)
  if (!resolved.ok) return refuse(underPolicy(resolved.error, input, baseOf(input)))
  const { effective } = resolved.value
  const max_chain_depth = Math.min(effective.max_chain_depth, parent?.max_chain_depth ?? effective.max_chain_depth)
  const chain = validateChain({ originator, subagent, ancestors, max_chain_depth })
  if (!chain.ok) return refuse(underPolicy(chain.error, input, resolved.value))

  const budget = budgeted([effective.budget, input.request.budget], parent?.budget, input.charged)
  const kept = input.parts.filter(keeps(effective))
  const denied =
    pairFault(input, effective) ??
    timeFault(input, effective) ??
    contextFault(kept, effective, budget.allowance?.tokens) ??
    budgetFault(budget, input.charged)
  if (denied) return refuse(underPolicy(denied, input, resolved.value))
  const root = parent?.root ?? keyOf(input)
  const counted_session = countedSession(parent, input.session_id)
  const { limits } = resolved.value
  const counted = () => countToken({ ...input, originating_agent_id: originator, root, parent: input.request.parent })
  const limited = limitFault({
    counts: input.counts,
    limits,
    policy: effective,
    key: keyOf(input),
    root: parent && root,
    counted,
    now: input.now,
  })
  if (limited) return limited === 'later' ? { kind: 'later' } : refuse(underPolicy(limited, input, resolved.value))
  const control = controlOf(input, {
    bound,
    resolved: resolved.value,
    chain_depth: chain.depth,
    max_chain_depth,
    budget,
    counted_session,
    context_bytes: sizeOf(kept),
  })
  if (effective.hold_before_dispatch) {
    const rest = Math.max(1, restOf(bound.deadline, input.now))
    return { kind: 'hold', control, expires_ms: Math.min(effective.approval_expires_ms, rest) }
  }
  return { kind: 'admit', control, keep: keeps(effective) }
}

/** Returns what a held pass becomes after its approval. Its timeout counts from now; its parent's deadline keeps running while it is held. */
export function approveHeld(control: WorkControl, now: number): AdmissionDecision {
  const rest = restOf(control.parent_deadline, now)
  if (rest <= 0) return refuse(passError('E013', 'Approved too late: the deadline of its parent has passed', { approval: 'expired' }))
  const timeout_ms = Math.min(control.timeout_ms, rest)
  return { kind: 'admit', control: { ...control, timeout_ms }, keep: keeps(control.policy) }
}

function refuse(error: PassError): AdmissionDecision {
  return { kind: 'refuse', error }
}

function policyOf({ request, subject, policy, agents }: AdmitInput) {
  const { override, timeout_ms, auto_apply_on_success } = request
  const own = { timeout_ms, auto_apply_on_success }
  return resolvePolicy(policy.document, { from: subject.originator, to: subject.subagent, override, request: own, agent: agents.subagent })
}

/** Returns the policy without the request's override, to name the rule that the override violates. */
function baseOf({ subject, policy, agents }: AdmitInput): ResolvedPolicy {
  return basePolicy(policy.document, { from: subject.originator, to: subject.subagent }, agents.subagent)
}

function restOf(deadline: number | undefined, now: number): number {
  return Math.max(0, Math.floor((deadline ?? Number.POSITIVE_INFINITY) - now))
}

function pairFault({ subject }: AdmitInput, policy: EffectivePolicy): PassError | undefined {
  const pair = `${subject.originator}->${subject.subagent}`
  if (!policy.enabled) {
    const reason = policy.reason
    return passError('E004', `The pair ${pair} is disabled${reason ? `: ${reason}` : ''}`, { pair, ...(reason ? { reason } : {}) })
  }
  if (!policy.can_receive_passes) return passError('E001', `${subject.subagent} may not receive passes`, { agent: subject.subagent })
  return undefined
}

/** Refuses a request that waited longer than its own timeout, as if it had not been admitted: its originator no longer waits for it. */
function timeFault({ requested_at, now }: AdmitInput, { timeout_ms }: EffectivePolicy): PassError | undefined {
  if (now - requested_at < timeout_ms) return undefined
  const details = { timeout_ms, waited_ms: now - requested_at }
  return passError('E010', `Not admitted within its ${timeout_ms} ms`, details)
}

interface Decided {
  bound: ParentBound
  resolved: ResolvedPolicy
  chain_depth: number
  max_chain_depth: number
  budget: Budgeted
  counted_session: string | undefined
  context_bytes: number
}

function keyOf({ request, subject }: AdmitInput): PassKey {
  return { originator: subject.originator, subagent: subject.subagent, id: request.id }
}

function controlOf(input: AdmitInput, decided: Decided): WorkControl {
  const { request, subject } = input
  const { bound, resolved, budget } = decided
  const { effective, policy_name, overridden } = resolved
  const parent = bound.parent?.control
  const constraints = request.constraints ?? []
  const timeout_ms = Math.min(effective.timeout_ms, restOf(bound.deadline, input.now), budget.time_ms)
  return {
    id: request.id,
    originating_agent_id: subject.originator,
    subagent_id: subject.subagent,
    reason: request.reason,
    priority: request.priority ?? DEFAULT_PRIORITY,
    timeout_ms: Math.max(1, timeout_ms),
    return_required: request.return_required,
    auto_apply_on_success: request.override?.auto_apply ?? request.auto_apply_on_success ?? false,
    constraints,
    digest: input.digest,
    request_sequence: input.request_sequence,
    requested_at: input.requested_at,
    return_id: input.return_id,
    chain_depth: decided.chain_depth,
    max_chain_depth: decided.max_chain_depth,
    ancestors: [...(parent?.ancestors ?? []), subject.originator],
    origination_chain: originationOf(input, parent),
    root: parent?.root ?? keyOf(input),
    rights: rightsOf(effective, constraints, parent?.rights),
    policy: effective,
    policy_name,
    policy_override: overridden,
    policy_version: input.policy.version,
    max_attempts: effective.max_attempts,
    lease_ms: effective.lease_ms,
    session_id: input.session_id,
    context_bytes: decided.context_bytes,
    reply_type: input.reply_type,
    ...omitUndefined({
      expected_output_type: request.expected_output_type,
      override: overridesOf(request),
      retry_of: request.retry_of,
      user_id: request.user_id ?? parent?.user_id,
      trace_id: input.trace_id ?? request.trace_id ?? parent?.trace_id,
      budget: budget.granted,
      counted_session: decided.counted_session,
      unnamed_session: input.unnamed_session,
      local_person: localPerson(input, parent),
    }),
    ...parentFields(input, bound),
  }
}

/** Returns the local person only for chains that this person began; in other chains the value has no effect. */
function localPerson({ local_person, subject }: AdmitInput, parent: WorkControl | undefined): string | undefined {
  return local_person === (parent?.ancestors[0] ?? subject.originator) ? local_person : undefined
}

/**
 * Returns all settings of the policy that the request changes, for the record: its own two fields and its inline override, which takes precedence.
 */
function overridesOf({ timeout_ms, auto_apply_on_success, override }: AdmitInput['request']): WorkControl['override'] {
  if (timeout_ms === undefined && auto_apply_on_success === undefined) return override
  const all: Record<string, unknown> = omitUndefined({ timeout_ms, auto_apply: auto_apply_on_success })
  for (const [field, value] of Object.entries(override ?? {})) if (value !== undefined) all[field] = value
  return all as WorkControl['override']
}

function parentFields({ request }: AdmitInput, bound: ParentBound): Pick<WorkControl, 'parent' | 'proof' | 'parent_deadline'> {
  if (!request.parent || bound.deadline === undefined) return {}
  const { originator, subagent, id, proof } = request.parent
  return { parent: { originator, subagent, id }, proof, parent_deadline: bound.deadline }
}

function originationOf({ subject, requested_at }: AdmitInput, parent: WorkControl | undefined): WorkControl['origination_chain'] {
  const action = parent ? ('delegated' as const) : ('initiated' as const)
  return [...(parent?.origination_chain ?? []), { agent_id: subject.originator, timestamp: requested_at, action }]
}
