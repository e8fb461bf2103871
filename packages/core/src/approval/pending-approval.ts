import type { Awaits, EffectivePolicy, RecordedDecision, WorkControl, WorkOutput } from '@passover/schemas'
import type { JournalState } from '../journal/state-machine.js'
import { SYSTEM_DEFAULTS } from '../policy/fields.js'
import { evaluateRelease } from './release-rules.js'

/** State of a pass that determines whether a person has to decide. */
export interface ApprovalState {
  journal: JournalState
  control?: Pick<WorkControl, 'policy'> | undefined
  /** Output of the worker's return, if it passed validation. */
  output?: WorkOutput | undefined
  /** Decisions as `countedDecisions` returns them. */
  decisions: readonly Pick<RecordedDecision, 'item' | 'verdict' | 'time' | 'counts'>[]
}

/**
 * Returns the item of a pass that waits for a person: its dispatch while it is held, then the release of its return, then the application of its
 * modifications. A counted decision ends the wait. So does the time in `expires_at` (server ms), but this function has no clock: the caller must
 * compare.
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

/** Returns true if an output proposes changes that need a person's approval. */
export function awaitsApproval(output: Pick<WorkOutput, 'artifacts'>, policy: Pick<EffectivePolicy, 'require_user_approval'>): boolean {
  return policy.require_user_approval && output.artifacts.some(({ type }) => type === 'file_modification')
}

/** Returns until when a decision about an item counts, server ms: the time when the item fell due plus the policy's approval time. */
export function approvalDeadline(pass: Pick<ApprovalState, 'journal' | 'control' | 'decisions'>, item: string): number {
  const { journal, control } = pass
  if (item === 'dispatch') {
    const held = 'held' in journal ? journal.held : undefined
    return held ? held.time + (held.expires_ms ?? SYSTEM_DEFAULTS.approval_expires_ms) : Number.POSITIVE_INFINITY
  }
  const since = item === 'return' ? returnedAt(journal) : item === 'apply' ? applicableSince(pass) : undefined
  return since === undefined || !control ? Number.POSITIVE_INFINITY : releaseExpiry(since, control.policy)
}

/** Returns when an output that waits for a release (or application) expires, which counts as a denial. Server ms. */
export function releaseExpiry(since: number, policy: Pick<EffectivePolicy, 'approval_expires_ms'>): number {
  return since + policy.approval_expires_ms
}

/** Returns when the changes can first be applied: from the release if there was one, otherwise from the return. */
function applicableSince(pass: Pick<ApprovalState, 'journal' | 'decisions'>): number {
  return decided(pass, 'return')?.time ?? returnedAt(pass.journal) ?? 0
}

function returnedAt(journal: JournalState): number | undefined {
  return journal.state === 'done' ? journal.return.time : undefined
}

function decided({ decisions }: Pick<ApprovalState, 'decisions'>, item: string) {
  return decisions.find((decision) => decision.item === item && decision.counts !== false)
}
