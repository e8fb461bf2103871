import { keyOfFact, SEGMENT_SIZE } from '@passover/archive'
import { type StoredMessage, sequenceOfBad } from '@passover/bus'
import { isExpiry, isSystemStep, type JournalRules, requestNamed } from '@passover/core'
import { type Fact, idTime, isFirst, keyText, type PassKey, type RequestFact } from '@passover/schemas'
import { foldMessages } from '../pass/load-pass.js'
import type { PassMemory } from '../pass/pass-memory.js'
import { noteKey, noteOf } from '../pass/unanswered-requests.js'
import { type RangeDeps, ranges, type WalkSource } from './ranges.js'

export interface WalkDeps extends RangeDeps {
  rules: JournalRules
}

/** Passes that begin in one segment, oldest first. */
export interface WalkedPass {
  passes: PassMemory[]
  /** First sequence of the segment that was read last. */
  sequence: number
  /** Server time of the first message in that segment; `undefined` if the segment is empty. */
  time: number | undefined
}

interface Pending {
  key: PassKey
  messages: { stored: StoredMessage; fact: Fact }[]
}

/** Upper bound in ms for how far the time in an id can be ahead of the server's time; admission allows less. */
const ID_AHEAD_MS = 3_600_000

/**
 * Returns every pass stored up to a sequence, once and complete. It goes back from the newest segment and yields a pass when its beginning is
 * reached, so memory holds only passes that began before the segment being read. Throws SegmentDamaged.
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
  const keep = (key: PassKey, message: Pending['messages'][number]) => {
    const text = keyText(key)
    const known = found.get(text) ?? { key, messages: [] }
    known.messages.push(message)
    found.set(text, known)
  }
  const requests: { stored: StoredMessage; fact: RequestFact }[] = []
  for (const stored of messages) {
    const fact = bus.subjects.toFact(stored)
    const key = keyOfFact(fact)
    if (fact.type === 'request') requests.push({ stored, fact })
    else if (key) keep(key, { stored, fact })
  }
  // A request that was refused as malformed belongs to that refusal, not to a pass of the id that it says.
  const isRefusal = ({ fact }: Pending['messages'][number]) => fact.type === 'step' && isFirst(fact) && isSystemStep(fact)
  for (const { stored, fact } of requests) {
    const apart = { originator: fact.originator, subagent: fact.subagent, id: bus.subjects.badId(fact.sequence) }
    const text = keyText(apart)
    const isRefused = [found.get(text), pending.get(text)].some((one) => one?.messages.some(isRefusal))
    const key = isRefused ? apart : noteKey(noteOf(stored, fact))
    if (key) keep(key, { stored, fact })
  }
  for (const [text, { key, messages: older }] of found) {
    const known = pending.get(text)
    const all = known ? [...older, ...known.messages] : older
    pending.set(text, { key, messages: all.sort((a, b) => a.stored.sequence - b.stored.sequence) })
  }
}

/** Removes and returns the passes that can have no messages older than what was read. */
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
    // An "expired" refusal may answer a later request for an older pass. One under the id of its request does not.
    if (fact.type !== 'step' || !isFirst(fact) || (isExpiry(fact) && sequenceOfBad(key.id) === undefined)) continue
    return (requestNamed(fact)?.sequence ?? 0) >= sequence
  }
  return false
}

/** Builds a pass from its messages. A pass without steps is represented by its newest request, as in the audit that follows the stream. */
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
