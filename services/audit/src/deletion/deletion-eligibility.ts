import { type JournalRules, SYSTEM_DEFAULTS } from '@passover/core'
import { type AgentRecord, type PassKey, SYSTEM } from '@passover/schemas'
import type { AckIndex } from '../acknowledgments/ack-index.js'
import type { PassMemory } from '../pass/pass-memory.js'
import { buildRecord } from '../records/build-record.js'
import { compactRecordOf } from '../records/compact-record.js'
import { controlOf } from '../records/pass-history.js'

/**
 * Result of the check if a pass may leave the stream (docs/architecture/audit-archive.md#deletion-from-the-stream). `later`: not before another
 * message of it is stored; it is checked again with that message. `wait`: no further message is necessary; it is checked again at `due` (server ms)
 * at the latest.
 */
export type DeletionEligibility =
  | { may: 'go' }
  | { may: 'later' }
  | { may: 'wait'; why: 'delivery'; returned: number; due: number }
  | { may: 'wait'; why: 'dead_letter'; letter: number; due: number }
  | { may: 'wait'; why: 'hold'; due: number }

/** A pass that may be deleted. */
export interface PassToDelete {
  key: PassKey
  /** Session of the pass, if it is known. Otherwise it is read when necessary; of a refused pass only the request names it. */
  session: string | undefined
  /** Sequences of its messages, because another pass may have used its id, too. */
  sequences: readonly number[]
}

export interface EligibilityDeps {
  rules: JournalRules
  agents: ReadonlyMap<string, AgentRecord>
  acknowledged: Pick<AckIndex, 'has'>
  /** Returns the milliseconds for which an unsettled dead letter is kept. */
  deadLettersMs: () => number
  /** True if a legal hold or a pending erasure keeps the pass (decision 87). */
  isHeld: (pass: PassToDelete) => Promise<boolean>
}

/** Milliseconds until a held pass is checked again, because its hold may have been released. */
const HOLD_RECHECK_MS = 10_000

/** Decides if a pass may leave the stream. `now` is the server time. */
export async function deletionEligibility(memory: PassMemory, now: number, deps: EligibilityDeps): Promise<DeletionEligibility> {
  const standing = await eligibilityWithoutHold(memory, now, deps)
  if (standing.may === 'later') return standing
  const framed = memory.step('work') ?? memory.step('held')
  const { key, noted } = memory
  const held = await deps.isHeld({
    key,
    session: framed && sessionNamed(controlOf(framed)),
    sequences: noted.map(({ fact }) => fact.sequence),
  })
  return held ? { may: 'wait', why: 'hold', due: now + HOLD_RECHECK_MS } : standing
}

/** Returns the session, or `undefined` if the pass claims a session other than its root's: both count then, so the pass must be read. */
function sessionNamed(control: ReturnType<typeof controlOf>): string | undefined {
  return control?.counted_session === undefined ? control?.session_id : undefined
}

async function eligibilityWithoutHold(memory: PassMemory, now: number, deps: EligibilityDeps): Promise<DeletionEligibility> {
  const { journal } = memory
  // No step counts: the messages are about a pass that was deleted, or about none.
  if (journal.state === 'none') return { may: 'go' }
  if (journal.state !== 'done') return { may: 'later' }
  // The decision, or the event that it expired, is stored as a further message.
  if (!compactRecordOf(memory) && buildRecord(memory, deps.rules).record.status === 'awaiting_release') return { may: 'later' }
  const letter = unsettledSince(memory, deps)
  const kept_until = letter === undefined ? now : letter + deps.deadLettersMs()
  if (letter !== undefined && kept_until > now) return { may: 'wait', why: 'dead_letter', letter, due: kept_until }
  const due = deliveryDeadline(memory, deps)
  const { sequence } = journal.return
  if (due === undefined || due <= now || (await deps.acknowledged.has(memory.key.originator, sequence))) return { may: 'go' }
  return { may: 'wait', why: 'delivery', returned: sequence, due }
}

/** Returns the time of the dead letter, or `undefined` if there is none or it is settled. */
function unsettledSince({ noted }: PassMemory, { agents }: EligibilityDeps): number | undefined {
  let letter: number | undefined
  for (const { fact } of noted) {
    if (fact.type !== 'event') continue
    if (fact.kind === 'dead_letter' && fact.sender === SYSTEM) letter ??= fact.time
    // A settlement by an agent does not count (decision 52).
    if (fact.kind === 'settled' && fact.sender !== SYSTEM && !agents.has(fact.sender)) return undefined
  }
  return letter
}

/**
 * Returns the time until which the originator may acknowledge the return. Returns `undefined` if no delivery is required, or if E022 is already
 * recorded.
 */
export function deliveryDeadline(memory: PassMemory, { agents }: Pick<EligibilityDeps, 'agents'>): number | undefined {
  const asked = agents.get(memory.key.originator)?.durable_returns
  const { journal } = memory
  if (!asked || journal.state !== 'done' || journal.return.sequence < asked.from) return undefined
  if (memory.noted.some(({ fact }) => fact.type === 'event' && fact.kind === 'undelivered' && fact.sender === SYSTEM)) return undefined
  const framed = memory.step('work') ?? memory.step('held')
  const control = framed && controlOf(framed)
  // The originator does not require the return.
  if (control?.return_required === false) return undefined
  return journal.return.time + (control?.policy.return_deadline_ms ?? SYSTEM_DEFAULTS.return_deadline_ms)
}
