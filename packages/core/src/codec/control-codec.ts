import type { ControlFrame, PassKey, Priority, Step, WorkControl } from '@passover/schemas'
import { openPolicy, packPolicy } from './policy-codec.js'

/** Fields of a step, from its subject and headers, that determine fields of the control frame. */
export type FramedStep = Pick<Step, 'key' | 'by' | 'digest' | 'request' | 'requested_at' | 'timeout_ms' | 'parent' | 'proof' | 'reply'>

const DEFAULT_POLICY_NAME = 'system'
/** Number of rights that this file handles. Rights with more fields are sent completely. */
const RIGHTS = 3

/**
 * Packs a control frame for a work or held step: leaves out what the step's subject and headers, its policy or the rest of the frame imply (decision
 * 39). Unknown fields are kept unchanged.
 */
export function packControl(control: WorkControl, kind: 'work' | 'held'): ControlFrame {
  const frame: Record<string, unknown> = {}
  for (const name in control) {
    const value = control[name as keyof WorkControl]
    if (value !== undefined && name !== 'policy' && !isImplied(name, control, kind)) frame[name] = value
  }
  frame.policy = packPolicy(control.policy)
  return frame as ControlFrame
}

/** Restores the complete frame. `undefined` if its policy cannot be restored. */
export function openControl(frame: ControlFrame, step: FramedStep): WorkControl | undefined {
  const policy = openPolicy(frame.policy)
  if (!policy) return undefined
  const { key } = step
  const requested_at = frame.requested_at ?? step.requested_at ?? 0
  const constraints = frame.constraints ?? []
  const ancestors = frame.ancestors ?? [key.originator]
  const control: Partial<WorkControl> = {
    id: key.id,
    originating_agent_id: key.originator,
    subagent_id: key.subagent,
    reason: '',
    priority: step.by as Priority,
    timeout_ms: step.timeout_ms ?? policy.timeout_ms,
    return_required: true,
    auto_apply_on_success: false,
    constraints,
    digest: step.digest ?? '',
    request_sequence: step.request ?? 0,
    requested_at,
    return_id: '',
    chain_depth: ancestors.length,
    max_chain_depth: policy.max_chain_depth,
    ancestors,
    origination_chain: frame.origination_chain ?? [{ agent_id: key.originator, timestamp: requested_at, action: 'initiated' }],
    root: key,
    rights: frame.rights ?? { can_modify_files: policy.can_modify_files, can_run_tools: policy.can_run_tools, constraints },
    policy,
    policy_name: DEFAULT_POLICY_NAME,
    policy_override: false,
    policy_version: 0,
    max_attempts: policy.max_attempts,
    lease_ms: policy.lease_ms,
    session_id: '',
    context_bytes: 0,
    reply_type: step.reply ?? 'msgpack',
  }
  if (step.parent) control.parent = step.parent
  if (step.proof !== undefined) control.proof = step.proof
  for (const name in frame) {
    if (name !== 'policy') (control as Record<string, unknown>)[name] = frame[name as keyof ControlFrame]
  }
  return control as WorkControl
}

/** Returns true if `openControl` restores the same value for a field that is left out. */
function isImplied(name: string, control: WorkControl, kind: 'work' | 'held'): boolean {
  const { policy } = control
  switch (name) {
    case 'id':
    case 'originating_agent_id':
    case 'subagent_id':
    case 'digest':
    case 'request_sequence':
    case 'requested_at':
    case 'reply_type':
    case 'parent':
    case 'proof':
      return true
    case 'priority':
    case 'timeout_ms':
      return kind === 'work'
    case 'return_required':
      return control.return_required
    case 'auto_apply_on_success':
    case 'policy_override':
      return !control[name]
    case 'constraints':
      return control.constraints.length === 0
    case 'chain_depth':
      return control.chain_depth === control.ancestors.length
    case 'ancestors':
      return control.ancestors.length === 1 && control.ancestors[0] === control.originating_agent_id
    case 'origination_chain':
      return isOneOwn(control)
    case 'root':
      return isOwn(control.root, control)
    case 'rights':
      return isPlain(control)
    case 'policy_name':
      return control.policy_name === DEFAULT_POLICY_NAME
    case 'policy_version':
      return control.policy_version === 0
    case 'max_chain_depth':
    case 'max_attempts':
    case 'lease_ms':
      return control[name] === policy[name]
    case 'reason':
    case 'session_id':
      return control[name] === ''
    case 'context_bytes':
      return control.context_bytes === 0
    default:
      return false
  }
}

function isOneOwn({ origination_chain, originating_agent_id, requested_at }: WorkControl): boolean {
  const [first, more] = origination_chain
  if (!first || more || Object.keys(first).length !== 3) return false
  return first.agent_id === originating_agent_id && first.timestamp === requested_at && first.action === 'initiated'
}

function isOwn(key: PassKey, control: WorkControl): boolean {
  return key.id === control.id && key.originator === control.originating_agent_id && key.subagent === control.subagent_id
}

/** Returns true if the rights are those of the policy with the pass's own constraints. */
function isPlain({ rights, policy, constraints }: WorkControl): boolean {
  if (rights.can_modify_files !== policy.can_modify_files || rights.can_run_tools !== policy.can_run_tools) return false
  const named = rights.constraints
  return named.length === constraints.length && named.every((one, i) => one === constraints[i]) && Object.keys(rights).length === RIGHTS
}
