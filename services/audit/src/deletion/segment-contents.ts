import { EARLY_MESSAGE_MS } from '@passover/archive'
import type { Bus, StoredMessage } from '@passover/bus'
import { type JournalRules, requestNamed } from '@passover/core'
import { type Fact, isFirst, keyText, type PassKey } from '@passover/schemas'
import { isRecorded, PassMemory } from '../pass/pass-memory.js'
import { requestId } from '../pass/unanswered-requests.js'

/** A pass as far as the deleter has read it: what it amounts to, and every message of it. */
export interface DeletionCandidate {
  readonly memory: PassMemory
  readonly facts: Map<number, Fact>
  /** Its first step is among them, the request that this names, and whatever may be older than that. */
  whole: boolean
}

/** What one segment holds, pass by pass, and what belongs to none. */
export interface SegmentContents {
  passes: Map<string, DeletionCandidate>
  /** Sequences of what nobody needs once it is old: acknowledgments, and what no honest client stores. */
  loose: number[]
  /** The server's words about lost deliveries: they go when the message that they name is gone. */
  advisories: StoredMessage[]
}

interface ContentsContext {
  bus: Bus
  rules: JournalRules
  /** Of earlier segments: passes that go on. */
  known: (text: string) => DeletionCandidate | undefined
  /** Server ms since which all segments were read: something of a pass that was asked for soon after it may be older. */
  since: number
}

export function createCandidate(key: PassKey): DeletionCandidate {
  return { memory: new PassMemory(key), facts: new Map(), whole: false }
}

/** Takes the next message of a pass. */
export function addMessage(
  leaving: DeletionCandidate,
  message: { stored: StoredMessage; fact: Fact },
  { rules, since }: Pick<ContentsContext, 'rules' | 'since'>,
): void {
  const { stored, fact } = message
  leaving.facts.set(fact.sequence, fact)
  if (isRecorded(fact)) leaving.memory.add(stored, fact, rules)
  leaving.whole ||= hasBegun(fact, leaving.facts, since)
}

/** Where the request stands in an earlier segment that this process did not read, others for the same id may, too; and so may a cancel. */
function hasBegun(fact: Fact, facts: DeletionCandidate['facts'], since: number): boolean {
  if (fact.type !== 'step' || !isFirst(fact)) return false
  const named = requestNamed(fact)?.sequence
  const begun = named === undefined ? fact : facts.get(named)
  return begun !== undefined && begun.time >= since + EARLY_MESSAGE_MS
}

/** Sorts a segment's messages by the pass that they are about; each is added in order. */
export function groupByPass(reading: ContentsContext): { contents: SegmentContents; add: (stored: StoredMessage) => void } {
  const contents: SegmentContents = { passes: new Map(), loose: [], advisories: [] }
  const requests = new Map<number, PassKey>()
  return { contents, add: (stored) => sort(stored, { contents, requests, reading }) }
}

/** Kinds of messages that belong to no pass and tell nothing that is kept; an advisory only where it is not believed. */
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
  const leaving = candidateOf(key, contents, reading)
  addMessage(leaving, { stored, fact }, reading)
  const named = fact.type === 'step' ? requestNamed(fact)?.sequence : undefined
  const asked = named === undefined ? undefined : requests.get(named)
  // Refused as malformed, or since another has its id: the answer has a name of its own, and takes the request with it.
  if (asked && named !== undefined && keyText(asked) !== keyText(key) && isBetween(key, asked)) {
    move(named, { from: asked, to: leaving, contents })
    leaving.whole ||= hasBegun(fact, leaving.facts, since)
  }
}

function candidateOf(key: PassKey, { passes }: SegmentContents, { known }: ContentsContext): DeletionCandidate {
  const text = keyText(key)
  const found = passes.get(text) ?? known(text) ?? createCandidate(key)
  passes.set(text, found)
  return found
}

/** The other one stays among the passes: this request kept it where its own messages are, for the segment of its youngest (`LaterReferences`). */
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
  // One without any id can only be answered under the name that it is refused by.
  return { originator, subagent, id: requestId(stored, fact) ?? bus.subjects.badId(sequence) }
}

export function isBetween(key: PassKey, { originator, subagent }: Pick<PassKey, 'originator' | 'subagent'>): boolean {
  return key.originator === originator && key.subagent === subagent
}
