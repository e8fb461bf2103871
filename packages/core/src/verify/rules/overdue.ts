import { keyText, type RequestFact } from '@passover/schemas'
import { approvalDeadline } from '../../approval/pending-approval.js'
import { DEFAULT_TIMEOUT_MS } from '../../policy/fields.js'
import type { Erasures } from '../state/erasures.js'
import type { PassRegistry } from '../state/pass-registry.js'
import type { VerifyFinding } from '../state/recorded-message.js'

/** Yields passes and requests that should have ended by now (server ms) and have not (P2). */
export function* overdue(
  passes: PassRegistry,
  { now, slack_ms, erasures }: { now: number; slack_ms: number; erasures: Erasures },
): Generator<VerifyFinding> {
  const finding = { severity: 'fault', rule: 'one_return' } as const
  for (const { key, journal, partial, erased } of passes.open.values()) {
    if (partial || erased || (journal.state !== 'open' && journal.state !== 'held')) continue
    const due = journal.state === 'open' ? journal.deadline : approvalDeadline({ journal, decisions: [] }, 'dispatch')
    if (due + slack_ms >= now) continue
    const what = `has no return ${now - due} ms after ${journal.state === 'open' ? 'its deadline' : 'its approval expired'}`
    if (!erasures.namelessSince(journal.valid)) yield { ...finding, what, sequence: journal.valid, key, by: key.originator }
  }
  for (const { fact, recorded, text } of passes.asking.all()) {
    if (erasures.namelessSince(fact.sequence) || (text !== undefined && passes.isErased(text)) || passes.isErased(badText(fact))) continue
    const reading = recorded.reading()
    const timeout_ms = (reading.ok ? reading.value.request.timeout_ms : undefined) ?? DEFAULT_TIMEOUT_MS
    if (fact.time + timeout_ms + slack_ms >= now) continue
    const { originator, subagent, id, sequence } = fact
    yield {
      ...finding,
      what: 'was never answered: no step refers to it',
      sequence,
      by: originator,
      ...(id === undefined ? {} : { key: { originator, subagent, id } }),
    }
  }
}

/** Returns the key text of the answer to a request that is malformed or reuses an id with different content. Its id contains the sequence. */
function badText({ originator, subagent, sequence }: RequestFact): string {
  return keyText({ originator, subagent, id: `bad-${String(sequence).padStart(9, '0')}` })
}
