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
import { addMessage, createCandidate, type DeletionCandidate, groupByPass, isBetween } from './segment-contents.js'
import type { ReadSegment } from './segment-prefetch.js'

export interface DeletionDeps extends EligibilityDeps {
  bus: Bus
  archive: Archive
  clock: Pick<Clock, 'after' | 'monotonic'>
  /** Returns the sequences of a pass that are not in a sealed segment yet. */
  unsealedOf: (key: PassKey) => readonly number[]
  /** True if the audit knows that a pass (a `keyText`) has no first step. */
  isGhost: (text: string) => boolean
}

/** True if a message of the pass was stored after segment k. */
export type IsYounger = (key: PassKey, k: number) => boolean

interface RunOptions {
  isYounger: IsYounger
  /** True if messages of the pass (a `keyText`) in an earlier segment were deferred. */
  isDeferred: (text: string) => boolean
}

interface SettleOptions {
  k: number
  isYounger: IsYounger
  /** True if there are too many dead letters to keep this one. */
  crowded?: boolean
}

/** Maximum memory for passes that continue in later segments. Passes beyond it are read again. */
const KNOWN_BYTES = 64 * 1024 * 1024
const CANDIDATE_BYTES = 1_024
const FACT_BYTES = 200
/** Maximum number of passes read at a time, however many deletions are in flight. A read costs memory, and more server time than a deletion. */
const READ_CONCURRENCY = 16
/** Number of id windows for which repeated requests by its originator keep an ended pass in the stream. */
const RESUBMIT_WINDOWS = 8

/**
 * Deletes the messages of closed passes in one archived segment from the stream
 * (docs/architecture/audit-archive.md#deletion-from-the-stream).
 */
export class SegmentDeleter {
  readonly #deps: DeletionDeps
  /** Passes from processed segments that continue in later ones. */
  readonly #known = new LRUCache<string, DeletionCandidate>({
    maxSize: KNOWN_BYTES,
    sizeCalculation: ({ memory, facts }) => CANDIDATE_BYTES + memory.bytes + facts.size * FACT_BYTES,
    dispose: ({ facts }, _text, reason) => reason === 'evict' && this.#forget(facts),
  })
  /** Number of messages and of passes deleted. */
  deleted = 0
  passes = 0
  /** Number of passes deleted at a time. The messages of one pass are deleted one after the other (rule 4). */
  readonly pace = new AdaptiveConcurrency()
  readonly #reads = pLimit(READ_CONCURRENCY)
  /** Server time in milliseconds since which every segment was read. */
  #since: number | undefined
  #stopped = false

  constructor(deps: DeletionDeps) {
    this.#deps = deps
  }

  /** Lets running deletions finish and starts no new ones. */
  stop(): void {
    this.#stopped = true
  }

  /** Processes a segment. Throws if the server does not answer or `stop` was called; the segment can then safely be processed again. */
  async run({ entry, messages }: ReadSegment, { isYounger, isDeferred }: RunOptions): Promise<{ left: DeferredSegment; texts: string[] }> {
    const { bus, rules, clock } = this.#deps
    if (entry.k === 0) this.#since = Number.NEGATIVE_INFINITY
    // An empty segment has no time.
    else if (messages.length > 0) this.#since ??= entry.first_time
    const width = () => this.pace.concurrency
    const begun = clock.monotonic()
    await this.#compare(messages)
    if (messages.length > 0) this.pace.recordLatency(clock.monotonic() - begun)
    const { contents, add } = groupByPass({
      bus,
      rules,
      since: this.#since ?? Number.POSITIVE_INFINITY,
      known: (text) => this.#known.get(text),
      isDeferred,
    })
    await forEachCooperative(messages, clock, add)
    const left: DeferredSegment = { passes: [], advisories: [] }
    await forEachConcurrent([...contents.passes], width, async ([text, leaving]) => {
      const wait = await this.#settle(leaving, { k: entry.k, isYounger })
      if (wait === 'later') this.#known.set(text, leaving)
      else {
        this.#known.delete(text)
        if (wait) left.passes.push(wait)
      }
    })
    await forEachConcurrent(contents.loose, width, (sequence) => this.#delete(sequence))
    await forEachConcurrent(contents.advisories, width, async (stored) => {
      const names = messageNamedBy(stored)
      if (names === undefined) await this.#delete(stored.sequence)
      else if (await this.isNeeded({ advisory: stored.sequence, names })) left.advisories.push({ advisory: stored.sequence, names })
    })
    return { left, texts: [...contents.passes.keys()] }
  }

  /** Compares samples with the stream. Deletions are by sequence: after a rollback, they would delete messages that were not archived. */
  async #compare(messages: readonly StoredMessage[]): Promise<void> {
    const looked = [messages[0], messages[messages.length >> 1], messages.at(-1)].map(async (archived) => {
      const stored = archived && (await this.#deps.bus.journal.message(archived.sequence))
      if (!stored || (stored.time === archived.time && stored.subject === archived.subject)) return
      throw new Error(`sequence ${stored.sequence} of the stream differs from the archive; nothing is deleted`)
    })
    await Promise.all(looked)
  }

  /** Checks a pass again that was deferred in a segment before `next`. Returns `undefined` if it is gone, or if younger messages decide about it. */
  async again(key: PassKey, how: { next: number; isYounger: IsYounger; crowded: boolean }): Promise<DeferredPass | undefined> {
    const wait = await this.#settle(await this.#completed(await this.#read(key)), { ...how, k: how.next - 1 })
    if (wait !== 'later') return wait
    this.#known.set(keyText(key), { ...createCandidate(key), deferred: true })
    return undefined
  }

  /** True if the message that an advisory names still exists. Otherwise the advisory is deleted. */
  async isNeeded({ advisory, names }: DeferredAdvisory): Promise<boolean> {
    if (await this.#deps.bus.journal.message(names)) return true
    await this.#delete(advisory)
    return false
  }

  async #settle(found: DeletionCandidate, { k, isYounger, crowded = false }: SettleOptions): Promise<DeferredPass | 'later' | undefined> {
    const { key } = found.memory
    this.#goesOn()
    if (mayBeGhost(found) && (await this.#isGhost(key))) {
      const whole = found.deferred ? mergeCandidates(found, await this.#completed(await this.#read(key))) : found
      return await this.#leaveGhost(whole, k)
    }
    const isYoungerThere = isYounger(key, k)
    if (isYoungerThere && !mayHaveEnded(found)) return 'later'
    const candidate = found.whole ? found : mergeCandidates(found, await this.#read(key))
    if (segmentOf(lastThatCounts(candidate)) > k || (await this.#isUnanswered(candidate))) return 'later'
    if (isYoungerThere && (await this.#mayBeginAnew(candidate, k))) return 'later'
    const deps = crowded ? { ...this.#deps, deadLettersMs: () => 0 } : this.#deps
    const standing = await deletionEligibility(candidate.memory, this.#deps.bus.now(), deps)
    if (standing.may === 'later') return 'later'
    if (standing.may === 'wait') return deferredPassOf(key, standing)
    // Younger messages are not archived yet, or are deleted with their own segment.
    const { last } = segmentRange(k)
    if (found.whole) await this.#deletePass(candidate, ({ sequence }) => sequence <= last)
    else {
      // A pass that was deleted with an earlier segment is known from the archive. The stream has only those of its messages that came since.
      const there = (await this.#hasJournal(key)) ? undefined : await this.#inStream(key, 1)
      const isThere = ({ sequence, type }: Fact) => type === 'request' || there?.has(sequence) !== false
      await this.#deletePass(await this.#completed(candidate), (fact) => fact.sequence <= last && isThere(fact))
    }
    return undefined
  }

  /** True if the pass has no first step. Its messages are then not worth loading: agents can store them under any number of ids. */
  async #isGhost(key: PassKey): Promise<boolean> {
    return (
      this.#deps.isGhost(keyText(key)) ||
      (await this.#reads(() => {
        this.#goesOn()
        return hasNoFirstStep(this.#deps, key)
      }))
    )
  }

  /**
   * Deletes messages under an id without a first step, each with its own segment. A request that is stored later begins a pass that does not include
   * them. A request that was stored within EARLY_MESSAGE_MS of them can only be answered as expired by now.
   */
  async #leaveGhost({ memory, facts }: DeletionCandidate, k: number): Promise<DeferredPass | undefined> {
    const standing = await deletionEligibility(memory, this.#deps.bus.now(), this.#deps)
    if (standing.may === 'wait') return deferredPassOf(memory.key, standing)
    const { last } = segmentRange(k)
    const own = [...facts.values()].filter(({ sequence }) => sequence <= last)
    for (const sequence of deletionOrder(own, this.#deps.rules)) await this.#delete(sequence)
    this.passes++
    return undefined
  }

  /** Loads a pass that this process did not read from its beginning, from stream and archive. */
  async #read(key: PassKey): Promise<DeletionCandidate> {
    const { memory, messages } = await this.#reads(() => {
      this.#goesOn()
      return loadPass(this.#deps, key, { up_to: Number.MAX_SAFE_INTEGER })
    })
    return { memory, facts: new Map(messages.map(({ fact }) => [fact.sequence, fact])), whole: true, deferred: false }
  }

  #goesOn(): void {
    if (this.#stopped) throw new Error('it was stopped')
  }

  /** Advances `since` to the youngest dropped message, because a pass requested soon after it may have messages among those dropped. */
  #forget(facts: DeletionCandidate['facts']): void {
    for (const { time } of facts.values()) this.#since = Math.max(this.#since ?? time, time)
  }

  /** Adds requests that no step names, and progress. A loaded history does not contain all of these. */
  async #completed(candidate: DeletionCandidate): Promise<DeletionCandidate> {
    const { bus, archive, rules } = this.#deps
    const { memory, facts } = candidate
    const others = (await archive.sequencesOf(memory.key, (stored) => requestIn(bus, stored))).filter((sequence) => !facts.has(sequence))
    const how = { rules, since: Number.NEGATIVE_INFINITY }
    for (const stored of await archive.messages(others)) addMessage(candidate, { stored, fact: bus.subjects.toFact(stored) }, how)
    return candidate
  }

  /** True if no step counts and a request must stay: it waits for the timekeeper, or for the deletion of its answer. */
  async #isUnanswered({ memory, facts }: DeletionCandidate): Promise<boolean> {
    const { key } = memory
    if (memory.journal.state !== 'none') return false
    for (const { type, sequence } of facts.values()) {
      if (type !== 'request') continue
      // A request that was answered apart is deleted with its answer; one without an answer is open.
      if ((await this.#isAnsweredApart(key, sequence)) || (await this.#deps.bus.journal.message(sequence))) return true
    }
    return false
  }

  /** True if a request was refused under an id of its own. It is deleted with its answer, which is younger and may be in a later segment. */
  async #isAnsweredApart(key: PassKey, sequence: number): Promise<boolean> {
    const { journal, subjects } = this.#deps.bus
    const answer = subjects.return({ ...key, id: subjects.badId(sequence) }, SYSTEM)
    return this.#reads(async () => {
      this.#goesOn()
      // Only the leader can confirm that there is none.
      return (await journal.newest(answer)) !== undefined
    })
  }

  async #hasJournal(key: PassKey): Promise<boolean> {
    const { journal, subjects } = this.#deps.bus
    return await this.#reads(async () => (await journal.newest(subjects.journal(key))) !== undefined)
  }

  /**
   * True if a message younger than segment k could begin the pass again (rule 4): a request, whose subject does not name its pass, or a step of the
   * dispatcher that does not count now. Other messages that agents store postpone nothing, and repeated requests keep an ended pass for
   * `RESUBMIT_WINDOWS` id windows only.
   */
  async #mayBeginAnew({ memory: { key, journal } }: DeletionCandidate, k: number): Promise<boolean> {
    const { bus, archive, rules, unsealedOf } = this.#deps
    const isAskedFor = journal.state !== 'done' || journal.return.time + RESUBMIT_WINDOWS * rules.id_window_ms >= bus.now()
    const from = segmentRange(k).last + 1
    const younger = [...(await archive.sequencesAfter(key, k)), ...unsealedOf(key).filter((sequence) => sequence >= from)]
    const there = await this.#inStream(key, from)
    return younger.some((sequence) => there.get(sequence) ?? isAskedFor)
  }

  /** Returns the messages of a pass in the stream from a sequence on, except requests, and for each whether it could begin the pass. */
  #inStream(key: PassKey, from: number): Promise<ReadonlyMap<number, boolean>> {
    const { bus } = this.#deps
    const filters = [bus.subjects.journal(key), bus.subjects.events(key), bus.subjects.decisions(key)]
    return this.#reads(async () => {
      this.#goesOn()
      const found = new Map<number, boolean>()
      await using reader = await bus.follow(
        { filters, headers_only: true, from },
        (_stored, fact) => void found.set(fact.sequence, mayBegin(fact)),
      )
      await Promise.race([reader.caughtUp, reader.closed])
      return found
    })
  }

  async #deletePass({ memory, facts }: DeletionCandidate, goes: (fact: Fact) => boolean): Promise<void> {
    const { key } = memory
    const all = [...facts.values()].filter(goes)
    const named = new Set(all.flatMap((fact) => (fact.type === 'step' ? (requestNamed(fact)?.sequence ?? []) : [])))
    const requests: number[] = []
    for (const sequence of named) if (!facts.has(sequence) && (await this.#isRequestOf(key, sequence))) requests.push(sequence)
    const apart = new Set<number>()
    for (const { type, sequence } of all)
      if (type === 'request' && !named.has(sequence) && (await this.#isAnsweredApart(key, sequence))) apart.add(sequence)
    const own = all.filter(({ sequence }) => !apart.has(sequence))
    for (const sequence of [...requests, ...deletionOrder(own, this.#deps.rules)]) await this.#delete(sequence)
    this.passes++
  }

  /** True if the message is a request between the agents of the pass. A forged step must not cause the deletion of another message. */
  async #isRequestOf(key: PassKey, sequence: number): Promise<boolean> {
    const { journal, subjects } = this.#deps.bus
    const stored = await journal.message(sequence)
    const parsed = stored && subjects.parse(stored.subject)
    return parsed?.kind === 'request' && isBetween(key, parsed)
  }

  async #delete(sequence: number): Promise<void> {
    await this.#deps.bus.journal.deleteMessage(sequence)
    this.deleted++
  }
}

/** True if the pass may have ended with the messages read so far. Otherwise younger messages decide, and nothing needs to be loaded. */
function mayHaveEnded({ memory: { journal }, facts }: DeletionCandidate): boolean {
  if (journal.state !== 'none') return journal.state === 'done'
  for (const { type } of facts.values()) if (type !== 'request') return true
  return false
}

/** True if none of the messages read so far can begin a pass or request one. */
function mayBeGhost({ facts }: DeletionCandidate): boolean {
  for (const fact of facts.values()) if (fact.type === 'request' || mayBegin(fact)) return false
  return true
}

/**
 * Returns the sequence of the last message that counts: the return of an ended pass or a later step of the dispatcher, the youngest message of an
 * open one, or the youngest request if there is no journal.
 */
function lastThatCounts({ memory: { journal }, facts }: DeletionCandidate): number {
  let youngest = journal.state === 'done' ? journal.return.sequence : 0
  for (const [sequence, fact] of facts) {
    const counts =
      journal.state === 'held' || journal.state === 'open' || mayBegin(fact) || (journal.state === 'none' && fact.type === 'request')
    if (counts) youngest = Math.max(youngest, sequence)
  }
  return youngest
}

/** Merges the messages read from the segment into the loaded pass. */
function mergeCandidates(found: DeletionCandidate, whole: DeletionCandidate): DeletionCandidate {
  for (const [sequence, fact] of found.facts) whole.facts.set(sequence, fact)
  return whole
}

function deferredPassOf(key: PassKey, standing: Extract<DeletionEligibility, { may: 'wait' }>): DeferredPass {
  const { why, due } = standing
  if (why === 'delivery') return { key, why, due, returned: standing.returned }
  return why === 'dead_letter' ? { key, why, due, letter: standing.letter } : { key, why, due }
}

function messageNamedBy(stored: StoredMessage): number | undefined {
  const body = decode(stored.data, 'json')
  const sequence = body.ok ? (body.value as { stream_seq?: unknown } | null)?.stream_seq : undefined
  return Number.isSafeInteger(sequence) && Number(sequence) > 0 ? Number(sequence) : undefined
}
