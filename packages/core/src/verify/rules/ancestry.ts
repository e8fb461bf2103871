import { keyText, type Step, type WorkControl } from '@passover/schemas'
import type { PassState } from '../state/recorded-message.js'

/** Milliseconds by which a dispatcher's clock may lag behind the stored time of the request. */
const SKEW_MS = 1_000

/** Checks depth, loops, the parent's proof and the limits set by the parent (P3): first within the control frame, then against the stored parent. */
export function ancestryFault(control: WorkControl, step: Step, parent: PassState | 'unseen' | undefined): string | undefined {
  const { ancestors, chain_depth, max_chain_depth, originating_agent_id, subagent_id } = control
  const chain = [...ancestors, subagent_id]
  if (chain_depth !== ancestors.length) return `has depth ${chain_depth}, but ${ancestors.length} ancestors`
  if (chain_depth > max_chain_depth) return `has depth ${chain_depth}, but the limit is ${max_chain_depth}`
  if (new Set(chain).size < chain.length) return `is a loop: ${chain.join(' → ')}`
  if (ancestors.at(-1) !== originating_agent_id) return `names ${ancestors.at(-1)} as its last ancestor, which is not its originator`
  if (!control.parent) {
    if (ancestors.length > 1) return 'has ancestors, but no parent'
    return keyText(control.root) === keyText(step.key) ? undefined : `names the root ${keyText(control.root)}, but has no parent`
  }
  if (parent === 'unseen') return undefined
  if (!parent) return `names the parent ${keyText(control.parent)}, which is missing`
  return againstParent(control, step, parent)
}

function againstParent(control: WorkControl, step: Step, parent: PassState): string | undefined {
  const named = keyText(parent.key)
  const above = parent.control
  if (!above || !('work' in parent.journal) || !parent.journal.work) return `names the parent ${named}, which was never admitted`
  if (parent.key.subagent !== step.key.originator) return `names the parent ${named}, whose subagent it is not`
  if (control.proof === undefined || !parent.proofs.includes(control.proof))
    return `its proof ${control.proof} is not a step of its parent ${named}`
  if (control.proof < parent.journal.work.sequence) return `its proof ${control.proof} is older than the admission of its parent ${named}`
  if (keyText(control.root) !== keyText(above.root))
    return `names the root ${keyText(control.root)}, but the root of its parent is ${keyText(above.root)}`
  const expected = [...above.ancestors, step.key.originator].join(' → ')
  if (control.ancestors.join(' → ') !== expected)
    return `names the ancestors ${control.ancestors.join(' → ')}, but according to its parent they are ${expected}`
  const deadline = parent.journal.work.time + (parent.journal.work.timeout_ms ?? above.timeout_ms)
  if (control.parent_deadline !== deadline) return `records ${control.parent_deadline} as the deadline of its parent, which is ${deadline}`
  const rest = deadline - control.requested_at + SKEW_MS
  if (control.timeout_ms > rest) return `has a timeout of ${control.timeout_ms} ms, more than the ${rest} ms that its parent had left`
  return undefined
}
