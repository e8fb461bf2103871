import { type JournalRules, SYSTEM_DEFAULTS } from '@passover/core'
import { type AgentRecord, type PassKey, SYSTEM } from '@passover/schemas'
import type { AckIndex } from '../acknowledgments/ack-index.js'
import type { PassMemory } from '../pass/pass-memory.js'
import { buildRecord } from '../records/build-record.js'
import { compactRecordOf } from '../records/compact-record.js'
import { controlOf } from '../records/pass-history.js'

/**
 * Whether a pass may leave the stream (docs/architecture/audit-archive.md#deletion-from-the-stream). `later`: not before another message of it is stored, and with that one it is
 * looked at again. `wait`: nothing more needs to be stored; it is looked at again until `due` (server ms), and goes then at the latest.
 */
export type DeletionEligibility =
  | { may: 'go' }
  | { may: 'later' }
  | { may: 'wait'; why: 'delivery'; returned: number; due: number }
  | { may: 'wait'; why: 'dead_letter' | 'hold'; due: number }

/** A pass that is to leave. */
export interface PassToDelete {
  key: PassKey
  /** As far as it is known; it is read where it matters and is not (of what was refused only its request says it). */
  session: string | undefined
  /** Messages of it: its id may have been used by another one, too. */
  sequences: readonly number[]
}

export interface EligibilityDeps {
  rules: JournalRules
  agents: ReadonlyMap<string, AgentRecord>
  acknowledged: Pick<AckIndex, 'has'>
  /** How long a dead letter that nobody settles is kept, ms. */
  dead_letters_ms: number
  /** Whether people hold it (decision 87). */
  isHeld: (pass: PassToDelete) => Promise<boolean>
}

/** What is held is looked at again after this: it may have been released. */
const HOLD_RECHECK_MS = 10_000

/** `now`: the server's time. */
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

/** Undefined where the pass claims another session than its root's: the pass is read then, for both count. */
function sessionNamed(control: ReturnType<typeof controlOf>): string | undefined {
  return control?.counted_session === undefined ? control?.session_id : undefined
}

async function eligibilityWithoutHold(memory: PassMemory, now: number, deps: EligibilityDeps): Promise<DeletionEligibility> {
  const { journal } = memory
  // Nothing that counts: what was told of a pass that is gone, or of none.
  if (journal.state === 'none') return { may: 'go' }
  if (journal.state !== 'done') return { may: 'later' }
  // A person's decision, or that nobody made it in time, is stored and comes by.
  if (!compactRecordOf(memory) && buildRecord(memory, deps.rules).record.status === 'awaiting_release') return { may: 'later' }
  const letter = unsettledSince(memory, deps)
  if (letter !== undefined && letter + deps.dead_letters_ms > now) {
    return { may: 'wait', why: 'dead_letter', due: letter + deps.dead_letters_ms }
  }
  const due = deliveryDeadline(memory, deps)
  const { sequence } = journal.return
  if (due === undefined || due <= now || (await deps.acknowledged.has(memory.key.originator, sequence))) return { may: 'go' }
  return { may: 'wait', why: 'delivery', returned: sequence, due }
}

/** When its dead letter was stored, where nobody has settled it. */
function unsettledSince({ noted }: PassMemory, { agents }: EligibilityDeps): number | undefined {
  let letter: number | undefined
  for (const { fact } of noted) {
    if (fact.type !== 'event') continue
    if (fact.kind === 'dead_letter' && fact.sender === SYSTEM) letter ??= fact.time
    // What an agent settles does not count (decision 52).
    if (fact.kind === 'settled' && fact.sender !== SYSTEM && !agents.has(fact.sender)) return undefined
  }
  return letter
}

/** Until when its originator may take it; undefined: nobody asked for delivery, or it is late already (E022). */
export function deliveryDeadline(memory: PassMemory, { agents }: Pick<EligibilityDeps, 'agents'>): number | undefined {
  const asked = agents.get(memory.key.originator)?.durable_returns
  const { journal } = memory
  if (!asked || journal.state !== 'done' || journal.return.sequence < asked.from) return undefined
  if (memory.noted.some(({ fact }) => fact.type === 'event' && fact.kind === 'undelivered' && fact.sender === SYSTEM)) return undefined
  const framed = memory.step('work') ?? memory.step('held')
  const control = framed && controlOf(framed)
  // Nobody waits for it.
  if (control?.return_required === false) return undefined
  return journal.return.time + (control?.policy.return_deadline_ms ?? SYSTEM_DEFAULTS.return_deadline_ms)
}
