import { EARLY_MESSAGE_MS } from '@passover/archive'
import type { Bus, StoredMessage } from '@passover/bus'
import { type JournalRules, requestNamed } from '@passover/core'
import { type Fact, isFirst, keyText, type PassKey } from '@passover/schemas'
import { isRecorded, PassMemory } from '../pass/pass-memory.js'
import { requestId } from '../pass/unanswered-requests.js'

/** A pass as far as the deleter has read it: its folded state and all its messages. */
export interface DeletionCandidate {
  readonly memory: PassMemory
  readonly facts: Map<number, Fact>
  /** True if its first step, the request that this step names, and all messages that may be older are included. */
  whole: boolean
  /** True if messages in an earlier segment were deferred and are not included, whatever began since. An erasure may have deleted its first steps. */
  deferred: boolean
}

/** Contents of one segment: messages by pass, and messages of no pass. */
export interface SegmentContents {
  passes: Map<string, DeletionCandidate>
  /** Sequences of messages that are not needed once they are old: acknowledgments, and messages that no honest client stores. */
  loose: number[]
  /** Server advisories about failed deliveries. An advisory is deleted once the message that it names is gone. */
  advisories: StoredMessage[]
}

interface ContentsContext {
  bus: Bus
  rules: JournalRules
  /** Returns a pass from earlier segments that continues in this one. */
  known: (text: string) => DeletionCandidate | undefined
  /** True if messages of the pass in an earlier segment were deferred. */
  isDeferred: (text: string) => boolean
  /** Server time in milliseconds since which all segments were read. A pass requested soon after it may have older messages. */
  since: number
}

export function createCandidate(key: PassKey): DeletionCandidate {
  return { memory: new PassMemory(key), facts: new Map(), whole: false, deferred: false }
}

/** Adds the next message of a pass. */
export function addMessage(
  candidate: DeletionCandidate,
  message: { stored: StoredMessage; fact: Fact },
  { rules, since }: Pick<ContentsContext, 'rules' | 'since'>,
): void {
  const { stored, fact } = message
  candidate.facts.set(fact.sequence, fact)
  if (isRecorded(fact)) candidate.memory.add(stored, fact, rules)
  candidate.whole ||= hasBegun(fact, candidate, since)
}

/**
 * True if the pass began late enough for all its messages to be in segments that were read, and none was deferred. If its request is in an earlier segment, other requests
 * for its id and a cancel may be there, too.
 */
function hasBegun(fact: Fact, { facts, deferred }: DeletionCandidate, since: number): boolean {
  if (deferred || fact.type !== 'step' || !isFirst(fact)) return false
  const named = requestNamed(fact)?.sequence
  const begun = named === undefined ? fact : facts.get(named)
  return begun !== undefined && begun.time >= since + EARLY_MESSAGE_MS
}

/** Groups a segment's messages by pass. `add` must be called for each message in order. */
export function groupByPass(reading: ContentsContext): { contents: SegmentContents; add: (stored: StoredMessage) => void } {
  const contents: SegmentContents = { passes: new Map(), loose: [], advisories: [] }
  const requests = new Map<number, PassKey>()
  return { contents, add: (stored) => sort(stored, { contents, requests, reading }) }
}

/** Kinds of messages that belong to no pass and need not be kept. An advisory gets here only if it is not trusted. */
const UNASSIGNED_KINDS: ReadonlySet<string> = new Set(['unknown', 'acknowledged', 'advisory'])

function sort(stored: StoredMessage, into: { contents: SegmentContents; requests: Map<number, PassKey>; reading: ContentsContext }): void {
  const { contents, requests, reading } = into
  const { bus, since } = reading
  const fact = bus.subjects.toFact(stored)
  if (fact.type === 'advisory') {
    contents.advisories.push(stored)
    return
  }
  const key = passKeyOf(bus, stored, fact)
  if (!key) {
    if (fact.type === 'acknowledged' || UNASSIGNED_KINDS.has(bus.subjects.parse(stored.subject).kind)) contents.loose.push(stored.sequence)
    return
  }
  if (fact.type === 'request') requests.set(fact.sequence, key)
  const candidate = candidateOf(key, contents, reading)
  addMessage(candidate, { stored, fact }, reading)
  const named = fact.type === 'step' ? requestNamed(fact)?.sequence : undefined
  const asked = named === undefined ? undefined : requests.get(named)
  // Refused as malformed, or because its id was taken: the answer has an id of its own, and the request is deleted with the answer.
  if (asked && named !== undefined && keyText(asked) !== keyText(key) && isBetween(key, asked)) {
    move(named, { from: asked, to: candidate, contents })
    candidate.whole ||= hasBegun(fact, candidate, since)
  }
}

function candidateOf(key: PassKey, { passes }: SegmentContents, { known, isDeferred }: ContentsContext): DeletionCandidate {
  const text = keyText(key)
  const found = passes.get(text) ?? known(text) ?? { ...createCandidate(key), deferred: isDeferred(text) }
  passes.set(text, found)
  return found
}

/**
 * Moves a request to the pass that answers it. The pass whose id the request named stays in `contents`: the request may have been its youngest
 * message, which postponed its deletion to this segment (`LaterReferences`).
 */
function move(sequence: number, { from, to, contents }: { from: PassKey; to: DeletionCandidate; contents: SegmentContents }): void {
  const other = contents.passes.get(keyText(from))
  const fact = other?.facts.get(sequence)
  if (!other || !fact) return
  other.facts.delete(sequence)
  to.facts.set(sequence, fact)
}

function passKeyOf(bus: Bus, stored: StoredMessage, fact: Fact): PassKey | undefined {
  if (fact.type === 'step' || fact.type === 'event' || fact.type === 'decision' || fact.type === 'untrusted') return fact.key
  if (fact.type !== 'request') return undefined
  const { originator, subagent, sequence } = fact
  // A request without an id can only be answered under the id that is made from its sequence.
  return { originator, subagent, id: requestId(stored, fact) ?? bus.subjects.badId(sequence) }
}

export function isBetween(key: PassKey, { originator, subagent }: Pick<PassKey, 'originator' | 'subagent'>): boolean {
  return key.originator === originator && key.subagent === subagent
}
