import type { Bus } from '@passover/bus'
import { decidesOwn, type ModificationChoice, takesPart } from '@passover/core'
import type { AnsweredPass, InboxItem, WorkControl } from '@passover/schemas'
import type { Accepts } from '@passover/sdk/internal'
import { count, nameMarks } from '@passover/sdk/internal/format'
import { askPasses, findPass, type PassRef } from '../audit/ask.js'
import { askNameVerification } from '../audit/name-verification.js'
import { Failure, usage } from '../errors.js'
import { type KnownRevoked, markedPass, refuseRevoked } from '../passes/revoked.js'
import { decide, type StoredDecision } from './decide.js'
import { type DecisionReport, decidedByOther, nothingPending } from './previous-decision.js'
import { chooseShown, loadShownReturn, type ReadShown, reviewShown, type ShownReturn, verifyStored } from './reviewed-return.js'

export interface DecideOptions {
  ref: PassRef
  verdict: 'approve' | 'deny'
  reason?: string | undefined
  /** Decides only if this item is pending. */
  item?: InboxItem['item'] | undefined
  /** For item `apply`: the numbers of the approved changes. */
  only?: readonly number[] | undefined
  /** True to approve even if the credentials of an agent in the chain were revoked. */
  despite_revocation?: boolean | undefined
  /** Revocations that the audit service possibly does not know. */
  revoked?: KnownRevoked | undefined
  /** Changes without a diff that the approver accepts explicitly. Other changes without a diff cannot be approved. */
  accepts?: Accepts | undefined
  /**
   * Reads the return for `confirm`, and for the review of the selected changes.
   * @defaultValue Loads a return of any size.
   */
  read?: ReadShown | undefined
  /**
   * Shows the item and asks for confirmation, or verifies by {@link shownDigest} that it was shown. Required to approve item `apply`, since changes
   * must be shown before they are approved.
   */
  confirm?: ((due: InboxItem, returned: ShownReturn | undefined, pass: AnsweredPass) => Promise<boolean>) | undefined
}

const SETTLE_TIMEOUT_MS = 3_000
const POLL_MS = 100

/**
 * Decides the pending item of a pass: its dispatch while it is held, then the release of its return, then the application of its changes. Throws
 * Failure E041 if nothing is pending; E042 if --only is given for an item without changes; E013 (exit 6) if the approval has expired; E013 (exit 4)
 * if the person may not decide, the return is not the stored one, or an agent of the chain was revoked. If it throws, nothing is stored.
 */
export async function decidePending(bus: Bus, options: DecideOptions): Promise<DecisionReport> {
  const { ref, verdict, reason, item, only, despite_revocation, accepts, read, confirm } = options
  const pass = markedPass(await findPass(bus, ref, { due: true }), options.revoked ?? new Map())
  const { due } = pass
  if (!due || (item !== undefined && due.item !== item)) return nothingPending(bus, pass, { verdict, item, only })
  refuseOwnDecision(pass, bus.identity)
  refuseNonApprover(due, bus.identity)
  if (verdict === 'approve' && !despite_revocation) refuseRevoked(pass, 'approve')
  if (only && due.item !== 'apply') throw notToChoose(due)
  const takesChanges = due.item === 'apply' && verdict === 'approve'
  const shown = due.item === 'dispatch' ? undefined : await loadShownReturn(bus, pass, { due, takes: takesChanges, read })
  const takes = takesChanges && shown
  const modifications = takes ? chooseShown(shown, only) : undefined
  const returned: ShownReturn | undefined = takes ? { ...shown, review: reviewShown(shown, due, { only, accepts }) } : shown
  if (takes && !confirm)
    throw usage(`the changes of ${due.id} were not shown, so they cannot be approved`, `passover approve ${due.id} --item apply`)
  if (confirm && !(await confirm(due, returned, pass))) {
    return { document: { id: pass.row.id, item: due.item, decided: false, status: pass.status }, sentence: 'Nothing was decided.', exit: 1 }
  }
  if (returned) await verifyStored(bus, pass, due)
  const counts = (standing: StoredDecision) => decisionCounts(bus, pass, { item: due.item, standing })
  const { key, traceparent } = pass
  const request = { key, item: due.item, digest: due.digest, verdict, reason, modifications, despite_revocation, traceparent }
  const decided = await decide(bus, request, counts)
  if (decided.kind === 'lost') {
    const standing = { ...decided.standing, ...(await askNameVerification(bus)) }
    return decidedByOther(bus, pass, { item: due.item, verdict, only, standing })
  }
  return settled(bus, pass, { due, verdict, sequence: decided.sequence, modifications })
}

/** Returns the digest of the shown content: the digest of the review if changes are approved, else the digest of the stored content. */
export function shownDigest(due: Pick<InboxItem, 'digest'>, returned: ShownReturn | undefined): string {
  return returned?.review?.digest ?? due.digest
}

/**
 * Refuses a decision by a person who takes part in the pass, because such a decision does not count. Exception: if a local server has only one person,
 * this person may decide about passes that they started.
 */
export function refuseOwnDecision({ key, row, control }: Pick<AnsweredPass, 'key' | 'row' | 'control'>, person: string): void {
  const { ancestors, policy, local_person } = (control ?? {}) as Partial<WorkControl>
  const parties = { key, ancestors, approvers: policy?.approvers, local_person }
  if (!takesPart(person, parties) || decidesOwn(person, parties)) return
  throw new Failure('E013', `${person} takes part in ${row.id} and cannot approve or deny it`, {
    hint: `another person must decide, under their own name: passover approve ${row.id}; to cancel the pass: passover cancel ${row.id}`,
    exit: 4,
  })
}

/** Refuses a decision by a person who is not an approver, because such a decision does not count. */
function refuseNonApprover({ id, approvers }: InboxItem, person: string): void {
  if (!approvers || approvers.includes(person)) return
  const named = approvers.length === 0 ? 'nobody' : approvers.join(', ')
  throw new Failure('E013', `${person} may not decide about ${id}: the approvers in its policy are ${named}`, {
    hint: approvers[0] ? `ask one of them to run: passover approve ${id}` : 'name approvers in the policy',
    exit: 4,
  })
}

function notToChoose({ id, item }: InboxItem): Failure {
  const first = { dispatch: 'its start', return: 'the release of its result', apply: '' }[item]
  return usage(`--only selects changes, but ${id} waits for ${first}`, `decide that item first: passover approve ${id} --item ${item}`)
}

/** Returns true if a stored decision is valid. Asks the audit service again until the service has read the decision. */
async function decisionCounts(
  bus: Bus,
  pass: AnsweredPass,
  { item, standing }: { item: string; standing: StoredDecision },
): Promise<boolean> {
  const now = await until(bus, pass, (read) => read.row.last_sequence >= standing.sequence)
  return now.decisions.some((decision) => decision.item === item && decision.sequence === standing.sequence)
}

interface StoredByUs {
  due: InboxItem
  verdict: 'approve' | 'deny'
  sequence: number
  modifications: ModificationChoice | undefined
}

/** Reports a stored decision. Waits briefly for its effect, so that the next command sees it. */
async function settled(bus: Bus, pass: AnsweredPass, stored: StoredByUs): Promise<DecisionReport> {
  const { due, verdict, sequence, modifications } = stored
  const counts = (read: AnsweredPass) => read.decisions.some((decision) => decision.sequence === sequence)
  const moved = (read: AnsweredPass) => due.item !== 'dispatch' || read.status !== pass.status || !counts(read)
  const now = await until(bus, pass, (read) => read.row.last_sequence >= sequence && moved(read))
  const { id } = pass.row
  const { self, unverified } = now.decisions.find((decision) => decision.sequence === sequence) ?? {}
  const marks = { ...(self && { self }), ...(unverified && { unverified }) }
  const decided = { id, item: due.item, decided: counts(now), by: bus.identity, ...marks, verdict, digest: due.digest, status: now.status }
  const document = modifications ? { ...decided, modifications } : decided
  if (counts(now) || now.row.last_sequence < sequence)
    return { document, sentence: sentenceOf(now, { ...stored, by: `${bus.identity}${nameMarks(marks)}` }), exit: 0 }
  const why = `${bus.identity} is not a registered approver, the decision came too late, or an agent in the chain was revoked`
  return { document, sentence: `Your decision was stored but is not valid: ${why}. passover show ${id} shows why.`, exit: 4 }
}

/** Returns a sentence with the decision and the next step. */
function sentenceOf({ row, status, due: next }: AnsweredPass, stored: StoredByUs & { by: string }): string {
  const { due, verdict, modifications = {}, by } = stored
  const { id, originator, subagent } = row
  const yes = verdict === 'approve'
  const what = { dispatch: 'the start', return: 'the release', apply: 'the changes' }[due.item]
  const done = `${yes ? 'Approved' : 'Denied'} ${what} of ${id} as ${by}`
  if (due.item === 'dispatch') return `${done}; it is now ${status}.${yes ? ` To see the result: passover show ${id}` : ''}`
  if (due.item === 'return') {
    const then =
      next?.item === 'apply'
        ? ` Its changes wait for a decision: passover approve ${id} --item apply --from ${originator} --to ${subagent}`
        : ''
    return yes ? `${done}; ${originator} receives the result.${then}` : `${done}; ${originator} receives E013 instead of the result.`
  }
  if (!yes) return `${done}; no change is applied.`
  const all = Object.values(modifications)
  const taken = all.filter((one) => one === 'taken').length
  return `${done}: ${taken} of ${count(all.length, 'change')} approved. To write the changes: passover apply ${id}`
}

async function until(bus: Bus, pass: AnsweredPass, done: (pass: AnsweredPass) => boolean): Promise<AnsweredPass> {
  const { originator, subagent, id } = pass.key
  const deadline = Date.now() + SETTLE_TIMEOUT_MS
  for (;;) {
    const [now] = await askPasses(bus, { id, from: originator, to: subagent }, { due: true })
    if (now && (done(now) || Date.now() > deadline)) return now
    if (!now && Date.now() > deadline) return pass
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
  }
}
