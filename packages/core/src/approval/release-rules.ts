import type { EffectivePolicy, PassError, RecordedDecision, WorkControl, WorkOutput } from '@passover/schemas'
import { passError } from '../errors.js'

export type Release =
  | {
      deliver: true
      /** The first condition that holds; `not_releasable`: only completed or partial outputs can wait. */
      because: 'completed_without_blockers' | 'review_passed' | 'approved' | 'auto_return' | 'not_releasable'
    }
  | { deliver: false; why: string }

type ReleasableOutput = Pick<WorkOutput, 'status' | 'artifacts' | 'summary'>

/** A finding of severity error. */
export function hasCritical({ artifacts }: Pick<WorkOutput, 'artifacts'>): boolean {
  return artifacts.some((artifact) => artifact.type === 'finding' && artifact.severity === 'error')
}

/** Something critical, or a decision that stops the work. */
export function hasBlocker(output: ReleasableOutput): boolean {
  const { decision } = output.summary
  return hasCritical(output) || decision === 'blocked' || decision === 'rejected'
}

/** Any finding, or work that was not completed. */
export function hasIssue({ status, artifacts, summary }: ReleasableOutput): boolean {
  return status !== 'completed' || summary.findings.length > 0 || artifacts.some(({ type }) => type === 'finding')
}

/** Whether a worker's output is delivered at once or waits for a person (docs/architecture/protocol.md#release-and-apply). */
export function evaluateRelease(
  output: ReleasableOutput,
  policy: Pick<EffectivePolicy, 'auto_review' | 'auto_return'>,
  approved: boolean,
): Release {
  if (output.status !== 'completed' && output.status !== 'partial') return { deliver: true, because: 'not_releasable' }
  if (output.status === 'completed' && !hasBlocker(output)) return { deliver: true, because: 'completed_without_blockers' }
  if (policy.auto_review && !hasCritical(output)) return { deliver: true, because: 'review_passed' }
  if (approved) return { deliver: true, because: 'approved' }
  if (policy.auto_return) return { deliver: true, because: 'auto_return' }
  return { deliver: false, why: holdReason(output) }
}

function holdReason(output: ReleasableOutput): string {
  if (hasCritical(output)) return 'something critical was found'
  if (hasBlocker(output)) return `the subagent decided ${output.summary.decision}`
  return 'the work is only partly done'
}

/** What the originator gets in place of an output that a person did not release. */
export function releaseDenied({ person, reason }: Pick<RecordedDecision, 'person' | 'reason'>): PassError {
  const said = reason ? `: ${reason}` : ''
  return passError('E013', `${person} did not release the output${said}`, { approval: 'denied', person })
}

/** What the originator gets in place of an output that nobody released in time. */
export function releaseExpired(why: string): PassError {
  return passError('E013', `nobody released the output in time (${why})`, { approval: 'expired' })
}

/** Whether the originator is told of the return beyond getting it. */
export function shouldNotify(output: ReleasableOutput, policy: Pick<EffectivePolicy, 'notify_on_return'>): boolean {
  if (policy.notify_on_return === 'only_issues') return hasIssue(output)
  return policy.notify_on_return === 'always'
}

/** Whether modifications are applied without asking: request ∧ policy ∧ output ∧ right ∧ nothing critical ∧ no approval required. */
export function mayAutoApply(
  output: Pick<WorkOutput, 'artifacts' | 'auto_apply_allowed'>,
  control: Pick<WorkControl, 'auto_apply_on_success' | 'policy' | 'rights'>,
): boolean {
  const { policy, rights } = control
  const said = control.auto_apply_on_success && policy.auto_apply && output.auto_apply_allowed
  return said && rights.can_modify_files && !hasCritical(output) && !policy.require_user_approval
}
