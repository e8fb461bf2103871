import { keyOfFact } from '@passover/archive'
import type { Bus } from '@passover/bus'
import { foldJournal, type JournalRules } from '@passover/core'
import type { Fact, PassKey } from '@passover/schemas'

/**
 * Returns the order in which the messages of a closed pass are deleted (docs/architecture/invariants.md#rule-4): requests, other messages, ignored
 * steps, violations, the steps in order, the return last. After a crash at any point, the remaining journal reads as before or cannot pass any guard,
 * and no violation is reported again.
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
 * Deletes one pass from the stream and confirms each deletion before the next. `requests` are the sequences of the requests for its id. Returns false
 * if a deletion was not confirmed; no further deletion is tried then. The caller must make sure that the pass may be deleted (rule 4).
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
