import { canonicalJson, type Step, type WorkOutput } from '@passover/schemas'
import { countedDecisions, judgeDecision } from '../../approval/decisions.js'
import { modificationsIn } from '../../approval/modifications.js'
import { mayAutoApply } from '../../approval/release-rules.js'
import type { PassHistory } from '../../journal/pass-history.js'
import type { PassState } from '../state/recorded-message.js'
import type { VersionHistory } from '../state/version-history.js'

/** Returns why a step after a hold is invalid, or `undefined` if a person who may decide approved what was shown. */
export function dispatchFault(pass: PassState, held: Step, versions: VersionHistory): string | undefined {
  const control = pass.held_control
  const { key } = pass
  if (pass.erased) return undefined
  const digest = held.digest ?? control?.digest
  const rules = {
    key,
    approvers: control?.policy.approvers,
    ancestors: control?.ancestors,
    local_person: control?.local_person,
    isPerson: (name: string) => !versions.isAgent(name),
    digest,
    expires_at: held.expires_ms === undefined ? undefined : held.time + held.expires_ms,
    revoked: versions.revoked,
  }
  let why: string | undefined
  for (const decision of pass.decisions) {
    if (decision.item !== 'dispatch' || pass.violated.includes(decision.sequence)) continue
    const judged = judgeDecision(decision, decision.body, rules)
    if (judged.counts) {
      if (judged.body.verdict === 'approve') return undefined
      return `was dispatched although ${judged.person} denied it`
    }
    why = `the decision of ${decision.person} at ${decision.sequence} is not valid: ${judged.why}`
  }
  return why === undefined ? 'was dispatched although nobody approved it' : `was dispatched without a valid approval; ${why}`
}

/** Returns true if there is a denial of the dispatch by this person. */
export function deniedBy(pass: PassState, person: unknown): boolean {
  return pass.decisions.some(({ item, person: by, body }) => item === 'dispatch' && by === person && isDenial(body))
}

function isDenial(body: unknown): boolean {
  return typeof body === 'object' && body !== null && (body as { verdict?: unknown }).verdict === 'deny'
}

/** Checks that an approved pass runs under the control frame that was shown. Only its timeout may be shorter. */
export function heldDiffers(pass: PassState): string | undefined {
  const { control, held_control } = pass
  if (!control || !held_control) return undefined
  const { timeout_ms, ...rest } = control
  const { timeout_ms: shown, ...before } = held_control
  if (timeout_ms > shown) return `has a timeout of ${timeout_ms} ms, but the approver was shown ${shown}`
  return same(rest, before) ? undefined : 'has a different control frame from the one that the approver was shown'
}

function same(one: unknown, other: unknown): boolean {
  return canonicalJson(JSON.parse(JSON.stringify(one))) === canonicalJson(JSON.parse(JSON.stringify(other)))
}

/** An originator can store any number of `applied` events, and a digest covers the whole contents of a file. */
const digestsByOutput = new WeakMap<WorkOutput, ReadonlySet<string>>()

function modificationDigests(output: WorkOutput): ReadonlySet<string> {
  const known = digestsByOutput.get(output) ?? new Set(modificationsIn(output).map(({ digest }) => digest))
  digestsByOutput.set(output, known)
  return known
}

/** Checks an `applied` event (P4): it may name only modifications of the output that a person took, or that needed no approval. */
export function appliedFault(
  pass: PassState,
  applied: { digests?: string[] | undefined; undone?: boolean | undefined; applied: string[] },
): string | undefined {
  const { output, control } = pass
  if (applied.undone || applied.applied.length === 0 || !output || !control || !pass.whole) return undefined
  const known = modificationDigests(output)
  const stranger = applied.digests?.find((digest) => !known.has(digest))
  if (stranger !== undefined) return `applied ${stranger.slice(0, 12)}…, which is not a modification of the output`
  if (pass.erased || !control.policy.require_user_approval || mayAutoApply(output, control)) return undefined
  const taken = decisionsOf(pass).find(({ item, counts, verdict }) => item === 'apply' && counts !== false && verdict === 'approve')
  if (!taken) return 'applied changes that nobody approved'
  const untaken = applied.digests?.find((digest) => taken.modifications?.[digest] !== 'taken')
  return untaken === undefined ? undefined : `applied ${untaken.slice(0, 12)}…, which ${taken.person} did not approve`
}

/** Maximum number of modifications per pass that are remembered as applied by a person. */
const MAX_APPLIED = 10_000
/** Digest list of an event from before digests existed, which names the whole output. */
const WHOLE = ['']

/**
 * Notes which changes people applied. Returns a remark for an `applied` event in which the originator claims to have undone such changes: the record
 * keeps them as applied, because the stream cannot prove that they left the files.
 */
export function undoneRemark(
  { key, applied_by }: PassState,
  sender: string,
  { applied, digests, undone }: { applied: string[]; digests?: string[] | undefined; undone?: boolean | undefined },
): string | undefined {
  if (applied.length === 0) return undefined
  const named = digests ?? (undone ? [...applied_by.keys()] : WHOLE)
  if (sender !== key.originator) {
    for (const digest of named) {
      if (undone) applied_by.delete(digest)
      else if (applied_by.size < MAX_APPLIED) applied_by.set(digest, sender)
    }
    return undefined
  }
  const people = undone ? [...new Set(named.flatMap((digest) => applied_by.get(digest) ?? []))] : []
  if (people.length === 0) return undefined
  const who = people.length > 1 ? `${people[0]} and ${people.length - 1} more` : people[0]
  return `${sender} reports that changes applied by ${who} were undone; the record still shows them as applied`
}

/** Returns the decisions of a pass, judged by the same rules as in every reader. */
export function decisionsOf(pass: PassState): ReturnType<typeof countedDecisions> {
  const { key, steps, decisions, events, control, output, return_digest, violated, journal } = pass
  const history: PassHistory = {
    key,
    requests: [],
    steps,
    decisions,
    events,
    violated,
    control,
    returned: output && { v: 1, output: output as unknown as Record<string, unknown> },
    return_digest,
  }
  return countedDecisions(history, journal)
}
