import {
  type ApprovalNotice,
  keyText,
  type Notice,
  type PassRecord,
  prefix,
  type ReturnNotice,
  type WorkControl,
  type WorkOutput,
} from '@passover/schemas'
import { omitUndefined } from '../runtime/omit-undefined.js'
import { evaluateRelease, hasIssue, shouldNotify } from './release-rules.js'

/** A pass as read from its stored messages. */
export interface NoticedPass {
  record: PassRecord
  control?: WorkControl | undefined
  /** The output, if it passed validation. */
  output?: WorkOutput | undefined
  /** SHA-256 of the stored return. */
  return_digest?: string | undefined
}

const SUMMARY_LENGTH = 2_000

/**
 * Returns the notifications that are due for a pass: that it returned, if its policy wants that, and that a person has to decide. Pure; the ids are
 * stable, so a repeated delivery has the same id.
 */
export function noticesOf(pass: NoticedPass): Notice[] {
  const { record } = pass
  const approval = approvalOf(pass)
  const returned = record.sequences.return === undefined || !isTold(pass) ? undefined : returnOf(pass, record.sequences.return)
  return [returned, approval].filter((one) => one !== undefined)
}

/** Returns true if the policy wants a notification of the return. A pass that ended before it had a policy is always notified. */
function isTold({ control, output }: NoticedPass): boolean {
  if (!control) return true
  return output ? shouldNotify(output, control.policy) : control.policy.notify_on_return !== 'never'
}

function returnOf(pass: NoticedPass, sequence: number): ReturnNotice {
  const { record, output } = pass
  const { entry, error, awaits } = record
  const artifacts = output?.artifacts ?? []
  const count = (severity: string) => artifacts.filter((one) => one.type === 'finding' && one.severity === severity).length
  return {
    v: 1,
    event: 'return',
    id: `${keyText(record.key)}/return/${sequence}`,
    ...aboutOf(pass),
    sequence,
    time: record.ended_at ?? 0,
    status: record.status,
    outcome: entry?.status ?? 'failed',
    summary: prefix(entry?.summary ?? '', SUMMARY_LENGTH),
    issues: output ? hasIssue(output) : true,
    findings: { error: count('error'), warning: count('warning'), info: count('info') },
    changes: artifacts.filter(({ type }) => type === 'file_modification').length,
    applied: entry?.applied ?? false,
    ...omitUndefined({ code: error?.code, decision: output?.summary.decision, awaits: awaits?.item }),
  }
}

function approvalOf(pass: NoticedPass): ApprovalNotice | undefined {
  const { record, control, output, return_digest } = pass
  const { awaits } = record
  if (!awaits || !control) return undefined
  const sequence = dueSince(record, awaits.item)
  const digest = awaits.item === 'dispatch' ? control.digest : return_digest
  if (sequence === undefined || digest === undefined) return undefined
  const release = output && awaits.item === 'return' ? evaluateRelease(output, control.policy, false) : undefined
  return {
    v: 1,
    event: 'approval',
    id: `${keyText(record.key)}/approval/${sequence}`,
    ...aboutOf(pass),
    sequence,
    time: awaits.since,
    item: awaits.item,
    digest,
    expires_at: awaits.expires_at,
    ...omitUndefined({ why: release && !release.deliver ? release.why : undefined, approvers: control.policy.approvers }),
  }
}

/** Returns the sequence from which an item is due. Changes of an output that had to be released wait from its release on. */
function dueSince({ sequences, decisions }: PassRecord, item: ApprovalNotice['item']): number | undefined {
  if (item === 'dispatch') return sequences.held
  const release = item === 'apply' ? decisions.find((one) => one.item === 'return' && one.counts !== false) : undefined
  return release?.sequence ?? sequences.return
}

function aboutOf({ record, control }: NoticedPass): Pick<Notice, 'pass' | 'root' | 'reason'> & { session_id?: string } {
  const { key, root, session_id, reason = '' } = record
  return { pass: key, root: control?.root ?? root ?? key, reason, ...omitUndefined({ session_id }) }
}
