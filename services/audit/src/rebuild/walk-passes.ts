import { keyOfFact, SEGMENT_SIZE } from '@passover/archive'
import type { StoredMessage } from '@passover/bus'
import { isExpiry, type JournalRules, requestNamed } from '@passover/core'
import { type Fact, idTime, isFirst, keyText, type PassKey } from '@passover/schemas'
import { foldMessages } from '../pass/load-pass.js'
import type { PassMemory } from '../pass/pass-memory.js'
import { noteKey, noteOf } from '../pass/unanswered-requests.js'
import { type RangeDeps, ranges, type WalkSource } from './ranges.js'

export interface WalkDeps extends RangeDeps {
  rules: JournalRules
}

/** Passes whose beginning stands in one segment, oldest first. */
export interface WalkedPass {
  passes: PassMemory[]
  /** How far back it has come: sequence and server's time (undefined: the segment holds nothing). */
  sequence: number
  time: number | undefined
}

interface Pending {
  key: PassKey
  messages: { stored: StoredMessage; fact: Fact }[]
}

/** An id's time is its maker's: admission lets it be ahead by less. */
const ID_AHEAD_MS = 3_600_000

/**
 * Every pass stored up to a sequence, each once and whole, with no more in memory than what began before the segment that is being read: it goes
 * back from the newest segment, and a pass is done with where its beginning is reached. Throws SegmentDamaged.
 */
export async function* walkPasses(deps: WalkDeps, source: WalkSource, up_to: number): AsyncGenerator<WalkedPass> {
  const pending = new Map<string, Pending>()
  let last: WalkedPass = { passes: [], sequence: up_to, time: undefined }
  for await (const { k, messages } of ranges(deps, source, up_to)) {
    collect(deps, pending, messages)
    const sequence = k * SEGMENT_SIZE
    const time = messages[0]?.time
    last = { passes: takeWhole(pending, deps.rules, { sequence, time }), sequence, time }
    yield last
  }
  const rest = [...pending.values()].map((one) => remembered(one, deps.rules))
  yield { ...last, passes: inOrder(rest) }
}

function collect({ bus }: WalkDeps, pending: Map<string, Pending>, messages: readonly StoredMessage[]): void {
  const found = new Map<string, Pending>()
  for (const stored of messages) {
    const fact = bus.subjects.toFact(stored)
    const key = fact.type === 'request' ? noteKey(noteOf(stored, fact)) : keyOfFact(fact)
    if (!key) continue
    const text = keyText(key)
    const known = found.get(text) ?? { key, messages: [] }
    known.messages.push({ stored, fact })
    found.set(text, known)
  }
  for (const [text, { key, messages: older }] of found) {
    const known = pending.get(text)
    pending.set(text, { key, messages: known ? [...older, ...known.messages] : older })
  }
}

/** Takes the passes of which nothing can be older than what was read. */
function takeWhole(
  pending: Map<string, Pending>,
  rules: JournalRules,
  reached: { sequence: number; time: number | undefined },
): PassMemory[] {
  const whole: PassMemory[] = []
  for (const [text, one] of pending) {
    if (!isWhole(one, reached)) continue
    pending.delete(text)
    whole.push(remembered(one, rules))
  }
  return inOrder(whole)
}

function isWhole({ key, messages }: Pending, { sequence, time }: { sequence: number; time: number | undefined }): boolean {
  const made = idTime(key.id)
  if (made !== undefined && time !== undefined && time < made - ID_AHEAD_MS) return true
  for (const { fact } of messages) {
    if (fact.type !== 'step' || !isFirst(fact) || isExpiry(fact)) continue
    return (requestNamed(fact)?.sequence ?? 0) >= sequence
  }
  return false
}

/** What only was asked for is told by its newest request, as the audit that reads along has it. */
function remembered({ key, messages }: Pending, rules: JournalRules): PassMemory {
  const steps = messages.some(({ fact }) => fact.type === 'step')
  const asked = steps ? undefined : messages.filter(({ fact }) => fact.type === 'request').at(-1)?.fact.sequence
  return foldMessages({ key, asked }, messages, rules)
}

function inOrder(passes: PassMemory[]): PassMemory[] {
  return passes.sort((a, b) => startOf(a) - startOf(b))
}

function startOf({ first, request }: PassMemory): number {
  return request?.sequence ?? first
}
