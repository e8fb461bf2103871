import { type DecisionBody, type DecisionFact, decisionBody, type PassKey, type RecordedDecision } from '@passover/schemas'
import type { PassHistory } from '../journal/pass-history.js'
import type { JournalState } from '../journal/state-machine.js'
import { omitUndefined } from '../runtime/omit-undefined.js'
import { approvalDeadline } from './pending-approval.js'

/** Rules that a decision is checked against. */
export interface DecisionRules {
  key: PassKey
  /** Approvers named by the policy. If absent, every person may decide. */
  approvers?: readonly string[] | undefined
  /** Agents above the subagent. They never count as persons, even if the policy lists them as approvers. */
  ancestors?: readonly string[] | undefined
  /** The only person of a local server, who may decide about their own passes. */
  local_person?: string | undefined
  /** Returns true if a name belongs to a person. Absent if that is not known. */
  isPerson?: ((name: string) => boolean) | undefined
  /** Digest of what was shown: the held request or the stored bytes of the return. Absent if the item has none. */
  digest?: string | undefined
  /** Server ms after which decisions no longer count. Absent if the item does not expire. */
  expires_at?: number | undefined
  /** Agents that are revoked, with the sequence of the message in the stream that says so. Absent if that is not known. */
  revoked?: ReadonlyMap<string, number> | undefined
}

/** Reason why an approval does not count that was stored after the revocation of an agent in the chain and does not say `despite_revocation`. */
export const REVOKED = 'an agent of its chain was revoked'

export type JudgedDecision =
  | { counts: true; person: string; body: DecisionBody }
  | {
      counts: false
      why:
        | 'no decision'
        | 'headers and body differ'
        | 'takes part in the pass'
        | 'not a person'
        | 'not an approver'
        | 'about something else'
        | 'too late'
        | typeof REVOKED
    }

/**
 * Checks if a stored decision counts (docs/architecture/security-model.md#approvals): it must come from a person who may decide, name what was shown,
 * and be in time by the server's clock. Verdict and digest come from the decoded body. Headers are for readers without the body; if they differ from
 * it, the decision does not count.
 * Dispatcher and audit use the same check (P4). Each of them also has to enforce that only the first decision per item counts (`countedDecisions`).
 */
export function judgeDecision(
  fact: Pick<DecisionFact, 'person' | 'verdict' | 'digest' | 'time' | 'sequence'>,
  body: unknown,
  rules: DecisionRules,
): JudgedDecision {
  const parsed = decisionBody.safeParse(body)
  if (!parsed.success) return { counts: false, why: 'no decision' }
  const { verdict, digest } = parsed.data
  const differs = (fact.verdict ?? verdict) !== verdict || (fact.digest ?? digest) !== digest
  if (differs) return { counts: false, why: 'headers and body differ' }
  if (takesPart(fact.person, rules) && !decidesOwn(fact.person, rules)) return { counts: false, why: 'takes part in the pass' }
  if (rules.isPerson?.(fact.person) === false) return { counts: false, why: 'not a person' }
  if (rules.approvers && !rules.approvers.includes(fact.person)) return { counts: false, why: 'not an approver' }
  if (rules.digest !== undefined && digest !== rules.digest) return { counts: false, why: 'about something else' }
  if (rules.expires_at !== undefined && fact.time >= rules.expires_at) return { counts: false, why: 'too late' }
  if (verdict === 'approve' && !parsed.data.despite_revocation && revokedBefore(fact.sequence, rules))
    return { counts: false, why: REVOKED }
  return { counts: true, person: fact.person, body: parsed.data }
}

function revokedBefore(sequence: number, { key, ancestors = [key.originator], revoked }: DecisionRules): boolean {
  return [...ancestors, key.subagent].some((agent) => (revoked?.get(agent) ?? Number.POSITIVE_INFINITY) < sequence)
}

type Parties = Pick<DecisionRules, 'key' | 'ancestors' | 'approvers' | 'local_person'>

export function takesPart(name: string, { key, ancestors }: Parties): boolean {
  return name === key.originator || name === key.subagent || ancestors?.includes(name) === true
}

/**
 * Returns true if a person may decide about a pass that they take part in: they are the only person of a local server, began the chain, work on no
 * part of it, and the policy names no other approver. An agent never may, because it appears as a subagent or as an originator further down.
 */
export function decidesOwn(name: string, { key, ancestors = [key.originator], approvers, local_person }: Parties): boolean {
  if (local_person !== name || name === key.subagent) return false
  if (ancestors[0] !== name || ancestors.lastIndexOf(name) !== 0) return false
  return approvers === undefined || approvers.every((approver) => approver === name)
}

/**
 * Returns the decisions about a pass, each with whether it counts or why not. Only the first valid decision per item counts.
 *
 * @param names - `unverified` if the reader's server does not check names. What the messages claim about that proves nothing.
 */
export function countedDecisions(pass: PassHistory, journal: JournalState, names?: 'unverified'): RecordedDecision[] {
  const decisions: RecordedDecision[] = []
  for (const decision of pass.decisions) {
    const { item, person, sequence, time } = decision
    const body = bodyOf(decision)
    const said = saidBy(decision, body)
    if (!said) continue
    const why = objection(decision, body, { pass, journal, decisions })
    const one = { item, person, ...said, sequence, time, ...(names && { unverified: true as const }) }
    const self = takesPart(person, { key: pass.key, ancestors: pass.control?.ancestors }) && { self: 'local' as const }
    if (why === undefined) decisions.push({ ...one, ...takenBy(item, body), counts: true, ...self })
    else decisions.push({ ...one, counts: false, why })
  }
  return decisions
}

/** Returns why a decision does not count, or `undefined` if it does. */
function objection(
  decision: Stored,
  body: unknown,
  seen: { pass: PassHistory; journal: JournalState; decisions: readonly RecordedDecision[] },
): string | undefined {
  const { item, sequence } = decision
  if (seen.decisions.some((before) => before.item === item && before.counts)) return 'decided before'
  const rules = rulesOf(item, seen)
  if (!rules) return 'nothing to decide'
  const judged = judgeDecision(decision, body, rules)
  if (!judged.counts) return judged.why
  return seen.pass.violated?.includes(sequence) ? 'a violation' : undefined
}

type Stored = PassHistory['decisions'][number]

/** Returns the body of a decision, rebuilt from its headers if only those are known. */
function bodyOf(decision: Stored): unknown {
  if ('body' in decision) return decision.body
  const { verdict, digest = '', reason } = decision
  return { v: 1, verdict, digest, ...(reason === undefined ? {} : { reason }) }
}

/** Returns the content of a decision for the record, or `undefined` if it neither approves nor denies. */
function saidBy({ verdict, digest, reason }: Stored, body: unknown): Pick<RecordedDecision, 'verdict' | 'digest' | 'reason'> | undefined {
  const parsed = decisionBody.safeParse(body)
  const said = parsed.success ? parsed.data : { verdict, digest: digest ?? '', reason }
  return said.verdict && { verdict: said.verdict, digest: said.digest, ...omitUndefined({ reason: said.reason }) }
}

/** Returns the modifications that an `apply` decision takes. Kept only for the decision that counts, because the number of others is unlimited. */
function takenBy(item: string, body: unknown): Pick<RecordedDecision, 'modifications'> {
  const parsed = item === 'apply' ? decisionBody.safeParse(body) : undefined
  return omitUndefined({ modifications: parsed?.data?.modifications })
}

/** Returns `undefined` if nothing was shown for this item, so that no decision about it counts. */
function rulesOf(item: string, seen: Parameters<typeof objection>[2]): DecisionRules | undefined {
  const { pass, journal } = seen
  const { key, control } = pass
  const { ancestors, local_person } = control ?? {}
  const rules = { key, approvers: control?.policy.approvers, ancestors, local_person }
  const expires_at = approvalDeadline({ journal, control, decisions: seen.decisions }, item)
  if (item === 'return' || item === 'apply') return hasOutput(pass) ? { ...rules, digest: pass.return_digest, expires_at } : undefined
  if (item !== 'dispatch') return rules
  const held = 'held' in journal ? journal.held : undefined
  const digest = held && (held.digest ?? control?.digest)
  return digest === undefined ? undefined : { ...rules, digest, expires_at }
}

/** Returns true for a return of a worker. A return of the system cannot be released or applied. */
function hasOutput({ returned, return_digest }: PassHistory): boolean {
  return return_digest !== undefined && returned !== undefined && 'output' in returned
}
