import { type PassError, type PassRecord, type RecordedDecision, SYSTEM, type WorkOutput } from '@passover/schemas'
import { appliedChanges } from '../approval/applied-changes.js'
import { countedDecisions } from '../approval/decisions.js'
import { modificationsIn } from '../approval/modifications.js'
import { approvalDeadline, pendingApproval } from '../approval/pending-approval.js'
import { evaluateRelease, releaseDenied, releaseExpired } from '../approval/release-rules.js'
import { type PassHistory, sorted } from '../journal/pass-history.js'
import { passStatus } from '../journal/pass-status.js'
import { foldJournal, type JournalRules, type JournalState } from '../journal/state-machine.js'
import { deadLetterResolution } from '../results/dead-letter-resolution.js'
import { hasReferences } from '../results/part-placeholders.js'
import { acceptError, acceptReturn } from '../results/validate-return.js'
import { omitUndefined } from '../runtime/omit-undefined.js'
import { auditEntry, metadataOf, type Told } from './audit-entry.js'

/**
 * Builds the audit service's record of a pass (docs/architecture/audit-archive.md#records): its state, its evidence, and the sequences of that
 * evidence in the stream. Deterministic: the same messages give the same record, in whatever order they are passed in (I6).
 */
export function auditRecord(history: PassHistory, rules: JournalRules): PassRecord {
  const pass = sorted(history)
  const { journal, ignored } = foldJournal(pass.steps, rules)
  const said = tell(pass, journal, rules.names)
  const told: Told = { ...said, application: appliedChanges(pass, said.decisions, modificationsKnown(said)) }
  const ended = journal.state === 'done'
  return {
    v: 1,
    key: pass.key,
    status: passStatus(journal, {
      awaiting_release: told.awaiting_release,
      expired: told.expired !== undefined,
      processed: pass.acknowledged_at !== undefined,
    }),
    attempt: 'attempt' in journal ? journal.attempt : 0,
    ...identityOf(told),
    ...timesOf(told),
    sequences: sequencesOf(pass, journal),
    ...(ended ? { entry: auditEntry(told), metadata: metadataOf(told) } : {}),
    ...omitUndefined({ error: told.error ?? withheld(told) }),
    decisions: told.decisions,
    ...omitUndefined({
      awaits:
        told.expired === undefined
          ? pendingApproval({ journal, control: pass.control, output: told.output, decisions: told.decisions })
          : undefined,
      application: marked(told.application.record, pass, rules.names),
      settlement: marked(
        deadLetterResolution(pass.events, ({ sequence }) => !pass.violated?.includes(sequence)),
        pass,
        rules.names,
      ),
    }),
    ...(told.output ? omitUndefined({ output_unchecked: pass.schema_unchecked }) : {}),
    ...(ignored.length > 0 ? { violations: ignored.map(({ step, why }) => ({ sequence: step.sequence, what: why })) } : {}),
  }
}

/** Marks a person's action as unverified if the server does not check names. Actions of the originator are not marked, because it is not a person. */
function marked<Done extends { by: string }>(done: Done | undefined, { key }: PassHistory, names: JournalRules['names']): Done | undefined {
  return done && names && done.by !== key.originator ? { ...done, unverified: true as const } : done
}

type Said = Omit<Told, 'application'>

/**
 * Returns the digests of an output's modifications, or `undefined` if there is no output or parts of it are stored separately. Skips them if nothing was
 * applied: each digest covers the whole contents of a file, and most records have no use for it.
 */
function modificationsKnown({ pass: { events, returned }, output }: Said): Set<string> | undefined {
  if (!events.some(({ kind }) => kind === 'applied')) return undefined
  if (!output || !returned || 'error' in returned || hasReferences(returned.output)) return undefined
  return new Set(modificationsIn(output).map(({ digest }) => digest))
}

/** Derives the state of a pass from its messages. An invalid stored return is read as E021 or E013. */
function tell(pass: PassHistory, journal: JournalState, names: 'unverified' | undefined): Said {
  const ended = journal.state === 'done' ? journal.return : undefined
  const { returned } = pass
  const decisions = countedDecisions(pass, journal, names)
  const told: Said = { pass, journal, decisions, awaiting_release: false }
  if (!ended || !returned) return told
  if ('error' in returned) return { ...told, error: acceptError(returned.error, ended.by).error }
  const accepted = acceptReturn(returned.output, pass.key, { rights: pass.control?.rights, schema_faults: pass.schema_faults })
  if (!accepted.ok) return { ...told, error: accepted.error }
  const why = awaitsFor(accepted.output, told)
  if (why !== undefined && isExpired(told)) return { ...told, output: accepted.output, expired: why }
  return { ...told, output: accepted.output, awaiting_release: why !== undefined }
}

/** Returns why an output still waits for its release, or `undefined` if it needs none or a person has decided. */
function awaitsFor(output: WorkOutput, { pass, decisions }: Said): string | undefined {
  if (!pass.control || releaseDecision(decisions)) return undefined
  const release = evaluateRelease(output, pass.control.policy, false)
  return release.deliver ? undefined : release.why
}

/** Returns true if the system recorded the expiry after the deadline, by the server's clock. An earlier event is ignored. */
function isExpired({ pass, journal, decisions }: Said): boolean {
  const until = approvalDeadline({ journal, control: pass.control, decisions }, 'return')
  return pass.events.some(({ kind, sender, time }) => kind === 'expired' && sender === SYSTEM && time >= until)
}

/**
 * Returns the error that the originator gets instead of an output that a person denied, or that was not released in time. A denial of
 * an output that is delivered at once has no effect: the originator has it already.
 */
function withheld({ pass, decisions, output, expired }: Told): PassError | undefined {
  if (expired !== undefined) return releaseExpired(expired)
  if (!output || !pass.control || evaluateRelease(output, pass.control.policy, false).deliver) return undefined
  const release = releaseDecision(decisions)
  return release?.verdict === 'deny' ? releaseDenied(release) : undefined
}

function releaseDecision(decisions: readonly RecordedDecision[]): RecordedDecision | undefined {
  return decisions.find(({ item, counts }) => item === 'return' && counts)
}

function identityOf({ pass, journal }: Told): Partial<PassRecord> {
  const { control } = pass
  const digest = control?.digest ?? (journal.state === 'done' ? journal.return.digest : undefined)
  return omitUndefined({
    session_id: control?.session_id ?? pass.session_id,
    reason: control?.reason ?? pass.request?.reason,
    priority: control?.priority ?? pass.request?.priority,
    digest,
    policy_version: control?.policy_version,
    chain_depth: control?.chain_depth,
    ancestors: control?.ancestors,
    root: control?.root,
    parent: control?.parent ?? parentAsked(pass),
    retry_of: control?.retry_of ?? pass.request?.retry_of,
  })
}

function parentAsked({ request }: PassHistory): PassRecord['parent'] {
  if (!request?.parent) return undefined
  const { originator, subagent, id } = request.parent
  return { originator, subagent, id }
}

function timesOf({ pass, journal }: Told): Partial<PassRecord> {
  const held = 'held' in journal ? journal.held : undefined
  const work = 'work' in journal ? journal.work : undefined
  const expiry = held?.expires_ms === undefined ? undefined : held.time + held.expires_ms
  return omitUndefined({
    requested_at: pass.control?.requested_at ?? pass.requests[0]?.time,
    held_at: held?.time,
    admitted_at: work?.time,
    deadline: work ? work.time + (work.timeout_ms ?? pass.control?.timeout_ms ?? 0) : expiry,
    ended_at: journal.state === 'done' ? journal.return.time : undefined,
    undelivered_at: pass.events.find(({ kind, sender }) => kind === 'undelivered' && sender === SYSTEM)?.time,
  })
}

function sequencesOf(pass: PassHistory, journal: JournalState): PassRecord['sequences'] {
  const late = pass.events.filter(({ kind }) => kind === 'late').map(({ sequence }) => sequence)
  const all = [...pass.requests, ...pass.steps, ...pass.decisions, ...pass.events].map(({ sequence }) => sequence)
  const step = (name: 'held' | 'work' | 'return') =>
    name in journal ? (journal as Partial<Record<typeof name, { sequence: number }>>)[name]?.sequence : undefined
  return {
    requests: pass.requests.map(({ sequence }) => sequence),
    ...omitUndefined({ held: step('held'), work: step('work'), return: step('return') }),
    fences: pass.steps.filter(({ kind }) => kind === 'fence').map(({ sequence }) => sequence),
    ...(late.length > 0 ? { late } : {}),
    last: Math.max(0, ...all),
  }
}
