import { type DecisionBody, type DecisionFact, decisionBody, type PassKey, type RecordedDecision } from '@passover/schemas'
import type { PassHistory } from './history.js'
import type { JournalState } from './lifecycle.js'
import { present } from './present.js'

/** What a decision is judged by. */
export interface DecisionRules {
  key: PassKey
  /** Approvers by policy; absent: everybody with a person's identity. */
  approvers?: readonly string[] | undefined
  /** Agents above the subagent: they are no persons, whoever the approvers are. */
  ancestors?: readonly string[] | undefined
  /** Whether a name is a person's, where that is known. */
  isPerson?: ((name: string) => boolean) | undefined
  /** Digest of what was shown: what was held, the return's stored bytes. Absent: the item has none. */
  digest?: string | undefined
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
    }

/**
 * Whether a stored decision counts (DESIGN §2 Identity): by a person who may, about what was shown. The decoded body says
 * verdict and digest; headers are for readers without it, so one that says otherwise makes it count for nothing.
 * Dispatcher and audit ask the same (P4); that the first of an item counts is theirs to keep (`countedDecisions`).
 */
export function judgeDecision(
  fact: Pick<DecisionFact, 'person' | 'verdict' | 'digest'>,
  body: unknown,
  rules: DecisionRules,
): JudgedDecision {
  const parsed = decisionBody.safeParse(body)
  if (!parsed.success) return { counts: false, why: 'no decision' }
  const { verdict, digest } = parsed.data
  const differs = (fact.verdict ?? verdict) !== verdict || (fact.digest ?? digest) !== digest
  if (differs) return { counts: false, why: 'headers and body differ' }
  if (takesPart(fact.person, rules)) return { counts: false, why: 'takes part in the pass' }
  if (rules.isPerson?.(fact.person) === false) return { counts: false, why: 'not a person' }
  if (rules.approvers && !rules.approvers.includes(fact.person)) return { counts: false, why: 'not an approver' }
  if (rules.digest !== undefined && digest !== rules.digest) return { counts: false, why: 'about something else' }
  return { counts: true, person: fact.person, body: parsed.data }
}

function takesPart(name: string, { key, ancestors }: DecisionRules): boolean {
  return name === key.originator || name === key.subagent || ancestors?.includes(name) === true
}

/** The decisions about a pass, each with whether it counts, or why not; of those that would, the first of its item. */
export function countedDecisions(pass: PassHistory, journal: JournalState): RecordedDecision[] {
  const decided = new Set<string>()
  return pass.decisions.flatMap((decision): RecordedDecision[] => {
    const { item, person, sequence, time } = decision
    const body = bodyOf(decision)
    const said = saidBy(decision, body)
    if (!said) return []
    const why = objection(decision, body, { pass, journal, decided })
    if (why !== undefined) return [{ item, person, ...said, sequence, time, counts: false, why }]
    decided.add(item)
    return [{ item, person, ...said, ...takenBy(item, body), sequence, time, counts: true }]
  })
}

/** Why a decision does not count; undefined: it does. */
function objection(
  decision: Stored,
  body: unknown,
  { pass, journal, decided }: { pass: PassHistory; journal: JournalState; decided: ReadonlySet<string> },
): string | undefined {
  const { item, sequence } = decision
  if (decided.has(item)) return 'decided before'
  const rules = rulesOf(pass, journal, item)
  if (!rules) return 'nothing to decide'
  const judged = judgeDecision(decision, body, rules)
  if (!judged.counts) return judged.why
  return pass.violated?.includes(sequence) ? 'a violation' : undefined
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
  return said.verdict && { verdict: said.verdict, digest: said.digest, ...present({ reason: said.reason }) }
}

/** What an application takes, kept of the decision that counts alone: there is no end to those that do not. */
function takenBy(item: string, body: unknown): Pick<RecordedDecision, 'modifications'> {
  const parsed = item === 'apply' ? decisionBody.safeParse(body) : undefined
  return present({ modifications: parsed?.data?.modifications })
}

/** Undefined: nothing of this item was shown, so no decision about it counts. */
function rulesOf(pass: PassHistory, journal: JournalState, item: string): DecisionRules | undefined {
  const { key, control } = pass
  const rules = { key, approvers: control?.policy.approvers, ancestors: control?.ancestors }
  if (item === 'return' || item === 'apply') return hasOutput(pass) ? { ...rules, digest: pass.return_digest } : undefined
  if (item !== 'dispatch') return rules
  const held = 'held' in journal ? journal.held : undefined
  const digest = held && (held.digest ?? control?.digest)
  return digest === undefined ? undefined : { ...rules, digest }
}

/** A worker's return: nobody releases or applies what the system ended. */
function hasOutput({ returned, return_digest }: PassHistory): boolean {
  return return_digest !== undefined && returned !== undefined && 'output' in returned
}
