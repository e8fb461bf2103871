import { keyOfFact } from '@passover/archive'
import type { Bus } from '@passover/bus'
import { foldJournal, type JournalRules } from '@passover/core'
import type { Fact, PassKey } from '@passover/schemas'

/**
 * The order in which a closed pass's messages are deleted (docs/architecture/invariants.md#rule-4): its requests first, then what never counted, what tells that
 * it did not after it, then the steps in order, its return last. A crash after any of them leaves a journal that reads as it did, or one that
 * no guard can pass, and nothing that would be told as a violation again.
 */
export function deletionOrder(facts: readonly Fact[], rules: JournalRules): number[] {
  const steps = facts.filter((fact) => fact.type === 'step').sort((a, b) => a.sequence - b.sequence)
  const { journal, ignored } = foldJournal(steps, rules)
  const dead = new Set(ignored.map(({ step }) => step.sequence))
  const last = journal.state === 'done' ? journal.return.sequence : undefined
  const rank = (fact: Fact): number => {
    if (fact.type === 'request') return 0
    if (fact.type === 'event' && fact.kind === 'violation') return 3
    if (fact.type !== 'step') return 1
    if (dead.has(fact.sequence)) return 2
    return fact.sequence === last ? 5 : 4
  }
  return [...facts].sort((a, b) => rank(a) - rank(b) || a.sequence - b.sequence).map((fact) => fact.sequence)
}

/**
 * Deletes one pass from the stream, each message confirmed before the next; `requests` are the sequences of the requests for its id.
 * False: a deletion was not confirmed, and nothing after it was tried. Whether the pass may go is for the caller to know (rule 4).
 */
export async function deletePass(bus: Bus, key: PassKey, options: { requests?: readonly number[]; rules: JournalRules }): Promise<boolean> {
  const facts = (await bus.journal.history(key))
    .map((stored) => bus.subjects.toFact(stored))
    .filter((fact) => keyOfFact(fact) !== undefined)
  const named = facts.flatMap((fact) => (fact.type === 'step' && fact.request !== undefined ? [fact.request] : []))
  const requests = new Set([...named, ...(options.requests ?? [])])
  for (const sequence of [...[...requests].sort((a, b) => a - b), ...deletionOrder(facts, options.rules)]) {
    if (!(await bus.journal.deleteMessage(sequence))) return false
  }
  return true
}
