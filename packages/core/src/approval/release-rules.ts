import type { EffectivePolicy, PassError, RecordedDecision, WorkControl, WorkOutput } from '@passover/schemas'
import { passError } from '../errors.js'

export type Release =
  | {
      deliver: true
      /** The first condition that applies. `not_releasable`: only completed or partial outputs can wait for a release. */
      because: 'completed_without_blockers' | 'review_passed' | 'approved' | 'auto_return' | 'not_releasable'
    }
  | { deliver: false; why: string }

type ReleasableOutput = Pick<WorkOutput, 'status' | 'artifacts' | 'summary'>

/** Returns true if there is a finding of severity error. */
export function hasCritical({ artifacts }: Pick<WorkOutput, 'artifacts'>): boolean {
  return artifacts.some((artifact) => artifact.type === 'finding' && artifact.severity === 'error')
}

/** Returns true if there is a critical finding, or if the output's decision is `blocked` or `rejected`. */
export function hasBlocker(output: ReleasableOutput): boolean {
  const { decision } = output.summary
  return hasCritical(output) || decision === 'blocked' || decision === 'rejected'
}

/** Returns true if there is any finding, or if the work was not completed. */
export function hasIssue({ status, artifacts, summary }: ReleasableOutput): boolean {
  return status !== 'completed' || summary.findings.length > 0 || artifacts.some(({ type }) => type === 'finding')
}

/** Decides if a worker's output is delivered at once or waits for a person (docs/architecture/protocol.md#release-and-apply). */
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
  if (hasCritical(output)) return 'the output has a critical finding'
  if (hasBlocker(output)) return `the subagent decided ${output.summary.decision}`
  return 'the work is only partly done'
}

/** Returns the error that the originator gets if a person refused to release the output. */
export function releaseDenied({ person, reason }: Pick<RecordedDecision, 'person' | 'reason'>): PassError {
  const said = reason ? `: ${reason}` : ''
  return passError('E013', `${person} did not release the output${said}`, { approval: 'denied', person })
}

/** Returns the error that the originator gets if the output was not released in time. */
export function releaseExpired(why: string): PassError {
  return passError('E013', `the output was not released in time (${why})`, { approval: 'expired' })
}

/** Returns true if the originator gets a notification in addition to the return itself. */
export function shouldNotify(output: ReleasableOutput, policy: Pick<EffectivePolicy, 'notify_on_return'>): boolean {
  if (policy.notify_on_return === 'only_issues') return hasIssue(output)
  return policy.notify_on_return === 'always'
}

/**
 * Returns true if modifications are applied without asking: allowed by request, policy, output and rights, nothing critical, no approval required.
 */
export function mayAutoApply(
  output: Pick<WorkOutput, 'artifacts' | 'auto_apply_allowed'>,
  control: Pick<WorkControl, 'auto_apply_on_success' | 'policy' | 'rights'>,
): boolean {
  const { policy, rights } = control
  const said = control.auto_apply_on_success && policy.auto_apply && output.auto_apply_allowed
  return said && rights.can_modify_files && !hasCritical(output) && !policy.require_user_approval
}
