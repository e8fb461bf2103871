import { type Archive, segmentOf, segmentRange } from '@passover/archive'
import { type Bus, decode, type StoredMessage } from '@passover/bus'
import { type Clock, requestNamed } from '@passover/core'
import { type Fact, keyText, type PassKey, SYSTEM } from '@passover/schemas'
import { LRUCache } from 'lru-cache'
import pLimit from 'p-limit'
import { hasNoFirstStep, loadPass, mayBegin, requestIn } from '../pass/load-pass.js'
import { forEachConcurrent } from '../runtime/concurrency.js'
import { forEachCooperative } from '../runtime/cooperative-loop.js'
import { AdaptiveConcurrency } from './adaptive-concurrency.js'
import { type DeletionEligibility, deletionEligibility, type EligibilityDeps } from './deletion-eligibility.js'
import { deletionOrder } from './deletion-order.js'
import type { DeferredAdvisory, DeferredPass, DeferredSegment } from './deletion-state.js'
import { addMessage, type DeletionCandidate, groupByPass, isBetween } from './segment-contents.js'
import type { ReadSegment } from './segment-prefetch.js'

export interface DeletionDeps extends EligibilityDeps {
  bus: Bus
  archive: Archive
  clock: Pick<Clock, 'after' | 'monotonic'>
  /** Sequences of a pass that are in no sealed segment yet. */
  unsealedOf: (key: PassKey) => readonly number[]
  /** Whether the audit knows that nothing began a pass (a `keyText`). */
  isGhost: (text: string) => boolean
}

/** Whether something is stored of a pass that is younger than segment k. */
export type IsYounger = (key: PassKey, k: number) => boolean

interface SettleOptions {
  k: number
  isYounger: IsYounger
  /** There are too many dead letters for it to stay as one. */
  crowded?: boolean
}

/** Of passes that go on in later segments so much is remembered; the others are read again. */
const KNOWN_BYTES = 64 * 1024 * 1024
const CANDIDATE_BYTES = 1_024
const FACT_BYTES = 200
/** Passes that are read at once, however many deletions may be under way: a read costs memory, and the server more than a deletion. */
const READ_CONCURRENCY = 16
/** Id windows for which an ended pass stays that its originator asks for again and again. */
const RESUBMIT_WINDOWS = 8

/** Deletes from the stream what one archived segment holds of passes that are done with (docs/architecture/audit-archive.md#deletion-from-the-stream). */
export class SegmentDeleter {
  /** Passes of segments done with that go on in later ones. */
  private readonly known = new LRUCache<string, DeletionCandidate>({
    maxSize: KNOWN_BYTES,
    sizeCalculation: ({ memory, facts }) => CANDIDATE_BYTES + memory.bytes + facts.size * FACT_BYTES,
    dispose: ({ facts }, _text, reason) => reason === 'evict' && this.forget(facts),
  })
  /** Messages deleted, and passes. */
  deleted = 0
  passes = 0
  /** Passes at a time; of one pass, one message after the other (rule 4). */
  readonly pace = new AdaptiveConcurrency()
  private readonly reads = pLimit(READ_CONCURRENCY)
  /** Server ms since which it has read every segment. */
  private since: number | undefined
  private stopped = false

  constructor(private readonly deps: DeletionDeps) {}

  /** What is under way ends, and nothing more begins. */
  stop(): void {
    this.stopped = true
  }

  /** Throws where the server does not answer, or it was stopped: the segment is then begun again, which repeats no harm. */
  async run({ entry, messages }: ReadSegment, isYounger: IsYounger): Promise<{ left: DeferredSegment; texts: string[] }> {
    const { bus, rules, clock } = this.deps
    if (entry.k === 0) this.since = Number.NEGATIVE_INFINITY
    // One that holds nothing says nothing of when.
    else if (messages.length > 0) this.since ??= entry.first_time
    const width = () => this.pace.concurrency
    const begun = clock.monotonic()
    await this.compare(messages)
    if (messages.length > 0) this.pace.recordLatency(clock.monotonic() - begun)
    const { contents, add } = groupByPass({
      bus,
      rules,
      since: this.since ?? Number.POSITIVE_INFINITY,
      known: (text) => this.known.get(text),
    })
    await forEachCooperative(messages, clock, add)
    const left: DeferredSegment = { passes: [], advisories: [] }
    await forEachConcurrent([...contents.passes], width, async ([text, leaving]) => {
      const wait = await this.settle(leaving, { k: entry.k, isYounger })
      if (wait === 'later') this.known.set(text, leaving)
      else {
        this.known.delete(text)
        if (wait) left.passes.push(wait)
      }
    })
    await forEachConcurrent(contents.loose, width, (sequence) => this.delete(sequence))
    await forEachConcurrent(contents.advisories, width, async (stored) => {
      const names = messageNamedBy(stored)
      if (names === undefined) await this.delete(stored.sequence)
      else if (await this.isNeeded({ advisory: stored.sequence, names })) left.advisories.push({ advisory: stored.sequence, names })
    })
    return { left, texts: [...contents.passes.keys()] }
  }

  /** Deletions are by sequence: the archive of a stream that went another way since must not delete what stands there now. */
  private async compare(messages: readonly StoredMessage[]): Promise<void> {
    const looked = [messages[0], messages[messages.length >> 1], messages.at(-1)].map(async (archived) => {
      const stored = archived && (await this.deps.bus.journal.message(archived.sequence))
      if (!stored || (stored.time === archived.time && stored.subject === archived.subject)) return
      throw new Error(`sequence ${stored.sequence} of the stream is not what was archived: nothing is deleted`)
    })
    await Promise.all(looked)
  }

  /** Looks at a pass again that had to wait in a segment before `next`. Undefined: it is gone, or what is younger of it decides. */
  async again(key: PassKey, how: { next: number; isYounger: IsYounger; crowded: boolean }): Promise<DeferredPass | undefined> {
    const wait = await this.settle(await this.completed(await this.read(key)), { ...how, k: how.next - 1 })
    return wait === 'later' ? undefined : wait
  }

  /** Whether the message that an advisory names is still there; else the advisory goes too. */
  async isNeeded({ advisory, names }: DeferredAdvisory): Promise<boolean> {
    if (await this.deps.bus.journal.message(names)) return true
    await this.delete(advisory)
    return false
  }

  private async settle(
    found: DeletionCandidate,
    { k, isYounger, crowded = false }: SettleOptions,
  ): Promise<DeferredPass | 'later' | undefined> {
    const { key } = found.memory
    this.goesOn()
    if (mayBeGhost(found) && (await this.isGhost(key))) return await this.leaveGhost(found, k)
    const isYoungerThere = isYounger(key, k)
    if (isYoungerThere && !mayHaveEnded(found)) return 'later'
    const leaving = found.whole ? found : mergeCandidates(found, await this.read(key))
    if (segmentOf(lastThatCounts(leaving)) > k || (await this.isUnanswered(leaving))) return 'later'
    if (isYoungerThere && (await this.mayBeginAnew(leaving, k))) return 'later'
    const deps = crowded ? { ...this.deps, dead_letters_ms: 0 } : this.deps
    const standing = await deletionEligibility(leaving.memory, this.deps.bus.now(), deps)
    if (standing.may === 'later') return 'later'
    if (standing.may === 'wait') return deferredPassOf(key, standing)
    // What is younger is not archived yet, or goes with its own segment.
    const { last } = segmentRange(k)
    if (found.whole) await this.deletePass(leaving, ({ sequence }) => sequence <= last)
    else {
      // A pass that left with an earlier segment is known from the archive: of that, the stream has only what was stored since.
      const there = (await this.hasJournal(key)) ? undefined : await this.inStream(key, 1)
      const isThere = ({ sequence, type }: Fact) => type === 'request' || there?.has(sequence) !== false
      await this.deletePass(await this.completed(leaving), (fact) => fact.sequence <= last && isThere(fact))
    }
    return undefined
  }

  /** Whether nothing began a pass. Then what agents stored under its id is not worth a read of the pass: they can do that for any number of ids. */
  private async isGhost(key: PassKey): Promise<boolean> {
    return (
      this.deps.isGhost(keyText(key)) ||
      (await this.reads(() => {
        this.goesOn()
        return hasNoFirstStep(this.deps, key)
      }))
    )
  }

  /**
   * Messages under an id that nothing began go with their own segment. A request that is stored later begins a pass of which they are no part; one
   * that was stored within EARLY_MESSAGE_MS of them can only be answered as expired by now.
   */
  private async leaveGhost({ memory, facts }: DeletionCandidate, k: number): Promise<DeferredPass | undefined> {
    const standing = await deletionEligibility(memory, this.deps.bus.now(), this.deps)
    if (standing.may === 'wait') return deferredPassOf(memory.key, standing)
    const { last } = segmentRange(k)
    const own = [...facts.values()].filter(({ sequence }) => sequence <= last)
    for (const sequence of deletionOrder(own, this.deps.rules)) await this.delete(sequence)
    this.passes++
    return undefined
  }

  /** What stream and archive have of a pass that this process did not read from its beginning. */
  private async read(key: PassKey): Promise<DeletionCandidate> {
    const { memory, messages } = await this.reads(() => {
      this.goesOn()
      return loadPass(this.deps, key, { up_to: Number.MAX_SAFE_INTEGER })
    })
    return { memory, facts: new Map(messages.map(({ fact }) => [fact.sequence, fact])), whole: true }
  }

  private goesOn(): void {
    if (this.stopped) throw new Error('it was stopped')
  }

  /** What is asked for soon after these may be of a pass of which no more is known than that. */
  private forget(facts: DeletionCandidate['facts']): void {
    for (const { time } of facts.values()) this.since = Math.max(this.since ?? time, time)
  }

  /** With requests for it that no step names, and progress: a history has not all of these. */
  private async completed(leaving: DeletionCandidate): Promise<DeletionCandidate> {
    const { bus, archive, rules } = this.deps
    const { memory, facts } = leaving
    const others = (await archive.sequencesOf(memory.key, (stored) => requestIn(bus, stored))).filter((sequence) => !facts.has(sequence))
    const how = { rules, since: Number.NEGATIVE_INFINITY }
    for (const stored of await archive.messages(others)) addMessage(leaving, { stored, fact: bus.subjects.toFact(stored) }, how)
    return leaving
  }

  /** Nothing but requests, and nothing that answered them: they wait for the timekeeper. */
  private async isUnanswered({ memory, facts }: DeletionCandidate): Promise<boolean> {
    const { key } = memory
    if (memory.journal.state !== 'none') return false
    for (const { type, sequence } of facts.values()) {
      if (type !== 'request') continue
      // With its answer it goes; without one it is open.
      if ((await this.isAnsweredApart(key, sequence)) || (await this.deps.bus.journal.message(sequence))) return true
    }
    return false
  }

  /** A request that was refused under a name of its own goes with its answer, which is younger, and may stand in a later segment. */
  private async isAnsweredApart(key: PassKey, sequence: number): Promise<boolean> {
    const { journal, subjects } = this.deps.bus
    const answer = subjects.return({ ...key, id: subjects.badId(sequence) }, SYSTEM)
    return this.reads(async () => {
      this.goesOn()
      // That there is none only the leader can say.
      return (await journal.newest(answer)) !== undefined
    })
  }

  private async hasJournal(key: PassKey): Promise<boolean> {
    const { journal, subjects } = this.deps.bus
    return await this.reads(async () => (await journal.newest(subjects.journal(key))) !== undefined)
  }

  /**
   * Whether something younger than segment k could begin the pass anew (rule 4): a request, which has no subject of its pass, or a step of the
   * dispatcher that does not count now. All else that agents store postpones nothing, and an originator that asks again and again keeps an ended
   * pass for some windows only.
   */
  private async mayBeginAnew({ memory: { key, journal } }: DeletionCandidate, k: number): Promise<boolean> {
    const { bus, archive, rules, unsealedOf } = this.deps
    const isAskedFor = journal.state !== 'done' || journal.return.time + RESUBMIT_WINDOWS * rules.id_window_ms >= bus.now()
    const from = segmentRange(k).last + 1
    const younger = [...(await archive.sequencesAfter(key, k)), ...unsealedOf(key).filter((sequence) => sequence >= from)]
    const there = await this.inStream(key, from)
    return younger.some((sequence) => there.get(sequence) ?? isAskedFor)
  }

  /** What the stream holds of a pass from a sequence on but for requests, and whether each could begin the pass. */
  private inStream(key: PassKey, from: number): Promise<ReadonlyMap<number, boolean>> {
    const { bus } = this.deps
    const filters = [bus.subjects.journal(key), bus.subjects.events(key), bus.subjects.decisions(key)]
    return this.reads(async () => {
      this.goesOn()
      const found = new Map<number, boolean>()
      await using reader = await bus.follow(
        { filters, headers_only: true, from },
        (_stored, fact) => void found.set(fact.sequence, mayBegin(fact)),
      )
      await Promise.race([reader.caughtUp, reader.closed])
      return found
    })
  }

  private async deletePass({ memory, facts }: DeletionCandidate, goes: (fact: Fact) => boolean): Promise<void> {
    const { key } = memory
    const all = [...facts.values()].filter(goes)
    const named = new Set(all.flatMap((fact) => (fact.type === 'step' ? (requestNamed(fact)?.sequence ?? []) : [])))
    const requests: number[] = []
    for (const sequence of named) if (!facts.has(sequence) && (await this.isRequestOf(key, sequence))) requests.push(sequence)
    const apart = new Set<number>()
    for (const { type, sequence } of all)
      if (type === 'request' && !named.has(sequence) && (await this.isAnsweredApart(key, sequence))) apart.add(sequence)
    const own = all.filter(({ sequence }) => !apart.has(sequence))
    for (const sequence of [...requests, ...deletionOrder(own, this.deps.rules)]) await this.delete(sequence)
    this.passes++
  }

  /** Whoever forged a step must not have another's message deleted. */
  private async isRequestOf(key: PassKey, sequence: number): Promise<boolean> {
    const { journal, subjects } = this.deps.bus
    const stored = await journal.message(sequence)
    const parsed = stored && subjects.parse(stored.subject)
    return parsed?.kind === 'request' && isBetween(key, parsed)
  }

  private async delete(sequence: number): Promise<void> {
    await this.deps.bus.journal.deleteMessage(sequence)
    this.deleted++
  }
}

/** Whether it may have ended with what was read of it: else what is younger decides, and nothing needs to be read. */
function mayHaveEnded({ memory: { journal }, facts }: DeletionCandidate): boolean {
  if (journal.state !== 'none') return journal.state === 'done'
  for (const { type } of facts.values()) if (type !== 'request') return true
  return false
}

/** Whether nothing that was read of it can begin a pass, nor asks for one. */
function mayBeGhost({ facts }: DeletionCandidate): boolean {
  for (const fact of facts.values()) if (fact.type === 'request' || mayBegin(fact)) return false
  return true
}

/** Sequence of its return, or of a step that the dispatcher stored later; of what has no journal, that of its youngest request. */
function lastThatCounts({ memory: { journal }, facts }: DeletionCandidate): number {
  let youngest = journal.state === 'done' ? journal.return.sequence : 0
  for (const [sequence, fact] of facts) {
    const counts =
      journal.state === 'held' || journal.state === 'open' || mayBegin(fact) || (journal.state === 'none' && fact.type === 'request')
    if (counts) youngest = Math.max(youngest, sequence)
  }
  return youngest
}

/** What this process read of a pass in the segment, beside what there is of it elsewhere. */
function mergeCandidates(found: DeletionCandidate, whole: DeletionCandidate): DeletionCandidate {
  for (const [sequence, fact] of found.facts) whole.facts.set(sequence, fact)
  return whole
}

function deferredPassOf(key: PassKey, standing: Extract<DeletionEligibility, { may: 'wait' }>): DeferredPass {
  const { why, due } = standing
  return why === 'delivery' ? { key, why, due, returned: standing.returned } : { key, why, due }
}

function messageNamedBy(stored: StoredMessage): number | undefined {
  const body = decode(stored.data, 'json')
  const sequence = body.ok ? (body.value as { stream_seq?: unknown } | null)?.stream_seq : undefined
  return Number.isSafeInteger(sequence) && Number(sequence) > 0 ? Number(sequence) : undefined
}
