import type { Awaits, EffectivePolicy, RecordedDecision, WorkControl, WorkOutput } from '@passover/schemas'
import type { JournalState } from '../journal/state-machine.js'
import { SYSTEM_DEFAULTS } from '../policy/fields.js'
import { evaluateRelease } from './release-rules.js'

/** What a pass's messages say of what a person may have to decide. */
export interface ApprovalState {
  journal: JournalState
  control?: Pick<WorkControl, 'policy'> | undefined
  /** Of the worker's return, where that is acceptable. */
  output?: WorkOutput | undefined
  /** As `countedDecisions` gives them. */
  decisions: readonly Pick<RecordedDecision, 'item' | 'verdict' | 'time' | 'counts'>[]
}

/**
 * Which item of a pass waits for a person: its dispatch while it is held, then the release of its return, then what of its
 * modifications is to be applied. A counted decision ends the wait, so does the time in `expires_at` (server ms), which is
 * for whoever knows the time to see.
 */
export function pendingApproval(pass: ApprovalState): Awaits | undefined {
  const { journal, output } = pass
  if (journal.state === 'held') {
    return decided(pass, 'dispatch')
      ? undefined
      : { item: 'dispatch', since: journal.held.time, expires_at: approvalDeadline(pass, 'dispatch') }
  }
  if (journal.state !== 'done' || !output || !pass.control) return undefined
  const release = decided(pass, 'return')
  if (!release && !evaluateRelease(output, pass.control.policy, false).deliver) {
    return { item: 'return', since: journal.return.time, expires_at: approvalDeadline(pass, 'return') }
  }
  if (release?.verdict === 'deny' || decided(pass, 'apply') || !awaitsApproval(output, pass.control.policy)) return undefined
  return { item: 'apply', since: applicableSince(pass), expires_at: approvalDeadline(pass, 'apply') }
}

/** Whether an output proposes changes that only a person may say yes to. */
export function awaitsApproval(output: Pick<WorkOutput, 'artifacts'>, policy: Pick<EffectivePolicy, 'require_user_approval'>): boolean {
  return policy.require_user_approval && output.artifacts.some(({ type }) => type === 'file_modification')
}

/** Until when a decision about an item counts, server ms: from when the item fell due, as long as the policy lets an approval take. */
export function approvalDeadline(pass: Pick<ApprovalState, 'journal' | 'control' | 'decisions'>, item: string): number {
  const { journal, control } = pass
  if (item === 'dispatch') {
    const held = 'held' in journal ? journal.held : undefined
    return held ? held.time + (held.expires_ms ?? SYSTEM_DEFAULTS.approval_expires_ms) : Number.POSITIVE_INFINITY
  }
  const since = item === 'return' ? returnedAt(journal) : item === 'apply' ? applicableSince(pass) : undefined
  return since === undefined || !control ? Number.POSITIVE_INFINITY : releaseExpiry(since, control.policy)
}

/** When an output that a person must release (or apply) expires to a denial, server ms. */
export function releaseExpiry(since: number, policy: Pick<EffectivePolicy, 'approval_expires_ms'>): number {
  return since + policy.approval_expires_ms
}

/** A released output can be applied from its release on. */
function applicableSince(pass: Pick<ApprovalState, 'journal' | 'decisions'>): number {
  return decided(pass, 'return')?.time ?? returnedAt(pass.journal) ?? 0
}

function returnedAt(journal: JournalState): number | undefined {
  return journal.state === 'done' ? journal.return.time : undefined
}

function decided({ decisions }: Pick<ApprovalState, 'decisions'>, item: string) {
  return decisions.find((decision) => decision.item === item && decision.counts !== false)
}
