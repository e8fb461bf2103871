import { type DecisionBody, type DecisionFact, decisionBody, type PassKey, type RecordedDecision } from '@passover/schemas'
import type { PassHistory } from '../journal/pass-history.js'
import type { JournalState } from '../journal/state-machine.js'
import { omitUndefined } from '../runtime/omit-undefined.js'
import { approvalDeadline } from './pending-approval.js'

/** What a decision is judged by. */
export interface DecisionRules {
  key: PassKey
  /** Approvers by policy; absent: everybody with a person's identity. */
  approvers?: readonly string[] | undefined
  /** Agents above the subagent: they are no persons, whoever the approvers are. */
  ancestors?: readonly string[] | undefined
  /** The only person of a local server, who may decide about passes of their own. */
  local_person?: string | undefined
  /** Whether a name is a person's, where that is known. */
  isPerson?: ((name: string) => boolean) | undefined
  /** Digest of what was shown: what was held, the return's stored bytes. Absent: the item has none. */
  digest?: string | undefined
  /** Server ms from which on it is too late; absent: the item has no such time. */
  expires_at?: number | undefined
}

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
    }

/**
 * Whether a stored decision counts (docs/architecture/security-model.md#approvals): by a person who may, about what was shown, in time by the server's
 * clock. The decoded body says verdict and digest; headers are for readers without it, so one that says otherwise makes it count for nothing.
 * Dispatcher and audit ask the same (P4); that the first of an item counts is theirs to keep (`countedDecisions`).
 */
export function judgeDecision(
  fact: Pick<DecisionFact, 'person' | 'verdict' | 'digest' | 'time'>,
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
  return { counts: true, person: fact.person, body: parsed.data }
}

type Parties = Pick<DecisionRules, 'key' | 'ancestors' | 'approvers' | 'local_person'>

export function takesPart(name: string, { key, ancestors }: Parties): boolean {
  return name === key.originator || name === key.subagent || ancestors?.includes(name) === true
}

/**
 * Whether a person may decide about a pass that they take part in: as the only person of a local server, who began its chain and works
 * on none of it, and where the policy names no other approver. An agent never may: it is a subagent or an originator further down.
 */
export function decidesOwn(name: string, { key, ancestors = [key.originator], approvers, local_person }: Parties): boolean {
  if (local_person !== name || name === key.subagent) return false
  if (ancestors[0] !== name || ancestors.lastIndexOf(name) !== 0) return false
  return approvers === undefined || approvers.every((approver) => approver === name)
}

/**
 * The decisions about a pass, each with whether it counts, or why not; of those that would, the first of its item.
 *
 * @param names - `unverified`: the reader's server checks no names. What the messages say about that proves nothing.
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

/** Why a decision does not count; undefined: it does. */
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

/** Where only its headers are known, they are taken for the body. */
function bodyOf(decision: Stored): unknown {
  if ('body' in decision) return decision.body
  const { verdict, digest = '', reason } = decision
  return { v: 1, verdict, digest, ...(reason === undefined ? {} : { reason }) }
}

/** What a decision says, for the record; undefined: neither yes nor no. */
function saidBy({ verdict, digest, reason }: Stored, body: unknown): Pick<RecordedDecision, 'verdict' | 'digest' | 'reason'> | undefined {
  const parsed = decisionBody.safeParse(body)
  const said = parsed.success ? parsed.data : { verdict, digest: digest ?? '', reason }
  return said.verdict && { verdict: said.verdict, digest: said.digest, ...omitUndefined({ reason: said.reason }) }
}

/** What an application takes, kept of the decision that counts alone: there is no end to those that do not. */
function takenBy(item: string, body: unknown): Pick<RecordedDecision, 'modifications'> {
  const parsed = item === 'apply' ? decisionBody.safeParse(body) : undefined
  return omitUndefined({ modifications: parsed?.data?.modifications })
}

/** Undefined: nothing of this item was shown, so no decision about it counts. */
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

/** A worker's return: nobody releases or applies what the system ended. */
function hasOutput({ returned, return_digest }: PassHistory): boolean {
  return return_digest !== undefined && returned !== undefined && 'output' in returned
}
