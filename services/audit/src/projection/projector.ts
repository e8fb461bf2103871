import { type StoredMessage, sequenceOfBad } from '@passover/bus'
import { answersRequest, ChurnMap, firstStepIsLate, isExpiry } from '@passover/core'
import {
  type DecisionFact,
  type EventFact,
  type Fact,
  isFirst,
  keyText,
  type RequestFact,
  type Step,
  SYSTEM,
  type UntrustedFact,
} from '@passover/schemas'
import { LRUCache } from 'lru-cache'
import type { AckIndex } from '../acknowledgments/ack-index.js'
import { isRecorded, PassMemory, type RequestNote } from '../pass/pass-memory.js'
import { noteKey, UnansweredRequests } from '../pass/unanswered-requests.js'
import type { DeliveryDeadlines } from './delivery-deadlines.js'
import type { PassReloader } from './pass-reloader.js'
import { RecordWriter, type RecordWriterDeps, type TrackedPass } from './record-writer.js'
import type { Violations } from './violations.js'

export interface ProjectorDeps extends RecordWriterDeps {
  reloader: PassReloader
  violations: Violations
  undelivered: Pick<DeliveryDeadlines, 'note'>
  acknowledged: Pick<AckIndex, 'take' | 'backpressure' | 'lowest'>
  isAgent: (name: string) => boolean
  /** Called with the keyText of a pass after its state in memory has changed. */
  changed: (text: string) => void
}

export interface ProjectorOptions {
  /** False with `log_all_passes: false`: passes without a record get none. */
  writes: () => boolean
  /** Milliseconds until an open pass gets a record (`open_ms`), and until an unanswered request is looked up (`request_ms`). */
  open_ms: number
  request_ms: number
  /** Maximum bytes of bodies that ended passes may hold in memory, for messages that still arrive about them. */
  ended_bytes: number
}

const ENDED_OVERHEAD = 2048
/** Maximum number of open passes written per sweep. Hundreds at once, twice a second, would saturate the server and one processor here. */
const MAX_CONCURRENT_WRITES = 10
/** Maximum number of lookups per sweep. Each reads from the leader, and most requests in a backlog are answered soon anyway. */
const MAX_REQUESTS_PER_SWEEP = 16

/**
 * Folds the stream into one record per pass (docs/architecture/audit-archive.md#records). A pass stays in memory until it has ended and its record
 * is acknowledged. For later messages it is taken from a bounded cache, or loaded from the stream again. Everything is idempotent by sequence (I2).
 */
export class Projector {
  readonly #deps: ProjectorDeps
  readonly #options: ProjectorOptions
  readonly notes: UnansweredRequests
  /** Open passes: `young` have no record yet, `old` stayed open long enough to have one. Both are in order of the first step. */
  readonly young = new ChurnMap<string, TrackedPass>()
  readonly old = new ChurnMap<string, TrackedPass>()
  /** Malformed requests that are kept as dead letters and not answered yet, by their sequences. */
  readonly #malformed = new ChurnMap<number, PassMemory>()
  readonly #ended: LRUCache<string, TrackedPass>
  readonly #writer: RecordWriter
  /** Sequence and time of the last message taken. */
  position = 0
  time = 0

  constructor(deps: ProjectorDeps, options: ProjectorOptions) {
    this.#deps = deps
    this.#options = options
    this.notes = new UnansweredRequests(deps.changed)
    this.#writer = new RecordWriter(deps, options)
    this.#ended = new LRUCache({ maxSize: options.ended_bytes, sizeCalculation: ({ memory }) => memory.bytes + ENDED_OVERHEAD })
  }

  get open(): number {
    return this.young.size + this.old.size
  }

  /** Processes the next message. Returns a promise if the reader must wait. Never throws: a message that cannot be processed is logged. */
  take(stored: StoredMessage, fact: Fact): Promise<void> | undefined {
    this.position = stored.sequence
    this.time = stored.time
    try {
      if (fact.type === 'request') this.#onRequest(stored, fact)
      else if (isRecorded(fact)) this.#onRecorded(stored, fact)
      else if (fact.type === 'acknowledged') this.#deps.acknowledged.take(stored, fact)
      else if (fact.type === 'untrusted') this.#onUntrusted(fact)
    } catch (error) {
      // One bad message must not stop the reader.
      this.#deps.log.error({ sequence: stored.sequence, subject: stored.subject, err: error }, 'message not projected')
    }
    return (
      this.#deps.records.backpressure() ??
      this.#deps.reloader.backpressure() ??
      this.#deps.violations.backpressure() ??
      this.#deps.schemas.backpressure() ??
      this.#deps.inbox.backpressure() ??
      this.#deps.acknowledged.backpressure()
    )
  }

  /** Returns the lowest sequence that a projector starting now would still have to read, or `undefined` if there is none. */
  needed(): number | undefined {
    const { reloader, violations, inbox, acknowledged } = this.#deps
    const none = Number.POSITIVE_INFINITY
    let lowest = Math.min(reloader.lowest ?? none, violations.lowest ?? none, inbox.lowest ?? none, acknowledged.lowest ?? none)
    lowest = Math.min(lowest, this.notes.first()?.sequence ?? none, this.young.first()?.memory.first ?? none)
    for (const { memory } of this.#writer.unwritten.all()) lowest = Math.min(lowest, memory.first)
    return Number.isFinite(lowest) ? lowest : undefined
  }

  /** Returns the passes whose record is being written. There are at most a few hundred, because the reader waits for them. */
  *unwritten(): Generator<PassMemory> {
    for (const { memory } of this.#writer.unwritten.all()) yield memory
  }

  /** Returns a pass that is open or recently ended, if it is in memory. */
  find(text: string): PassMemory | undefined {
    return (this.young.get(text) ?? this.old.get(text) ?? this.#ended.get(text))?.memory
  }

  /** Number of passes whose record is being written or waits for its write. */
  get writing(): number {
    return this.#writer.unwritten.size
  }

  /** Forgets ended passes whose first message is erased. Uses the first message because later ones may have been added since. */
  forget(erased: ReadonlySet<number>): void {
    this.#writer.forget(erased)
    for (const [text, { memory }] of this.#ended) if (erased.has(memory.first)) this.#ended.delete(text)
  }

  /** Writes a batch of passes that have been open long enough. Returns false if none are left. `now` is the server time. */
  writeOpen(now: number): boolean {
    let writes = 0
    for (const [text, tracked] of this.young) {
      if (now - tracked.memory.begun < this.#options.open_ms) return false
      if (writes === MAX_CONCURRENT_WRITES) return true
      this.young.delete(text)
      this.old.set(text, tracked)
      this.#deps.changed(text)
      this.#writer.save(tracked)
      writes++
    }
    return false
  }

  /** Drops requests that stayed unanswered for `request_ms`, and schedules the load of their passes. `now` is the server time. */
  sweep(now: number): void {
    for (const note of this.notes.values()) {
      if (now - note.time < this.#options.request_ms || this.#deps.reloader.requests >= MAX_REQUESTS_PER_SWEEP) break
      const key = noteKey(note)
      this.notes.take(note.sequence)
      this.#malformed.delete(note.sequence)
      if (key) this.#deps.reloader.want(key, note.sequence)
    }
  }

  #onRequest(stored: StoredMessage, fact: RequestFact): void {
    const text = fact.id === undefined ? undefined : keyText({ originator: fact.originator, subagent: fact.subagent, id: fact.id })
    const known = text !== undefined && (this.find(text) ?? this.#deps.rows.get(text))
    if (!known) this.notes.add(stored, fact)
    if (fact.untrusted === undefined) return
    const { originator, subagent } = fact
    const { id } = this.#deps.violations.nameless(fact.sequence)
    this.#deps.violations.report({ originator, subagent, id }, fact.sequence, `${stored.subject}: ${fact.untrusted}`)
  }

  /** Records an untrusted message as a violation. One that belongs to no pass gets a key of its own. */
  #onUntrusted({ subject, key, sequence, untrusted }: UntrustedFact): void {
    this.#deps.violations.report(key ?? this.#deps.violations.nameless(sequence), sequence, `${subject}: ${untrusted}`)
  }

  #onRecorded(stored: StoredMessage, fact: Step | DecisionFact | EventFact): void {
    const deps = this.#deps
    if (fact.type === 'decision' && deps.isAgent(fact.person)) {
      deps.violations.report(fact.key, fact.sequence, `a decision by the agent ${fact.person}`)
    }
    if (fact.type === 'event' && fact.kind === 'settled' && deps.isAgent(fact.sender)) {
      deps.violations.report(fact.key, fact.sequence, `a dead letter resolved by the agent ${fact.sender}`)
    }
    const request = fact.type === 'step' ? this.#answeredBy(fact) : undefined
    const text = keyText(fact.key)
    const known = this.young.get(text) ?? this.old.get(text) ?? this.#ended.get(text)
    if (known && !(fact.type === 'step' && this.#beginsAnew(known, fact))) {
      this.#advance(text, known, { stored, fact })
      return
    }
    if (known) this.#ended.delete(text)
    const begins = fact.type === 'step' && isFirst(fact) && !deps.reloader.knows(fact.key, text)
    const memory = begins ? this.#begin(stored, fact, request) : undefined
    if (memory) this.#place(text, { memory, slot: undefined, writing: 'no', counted: false, index: 0 })
    else if (!this.#isAnsweredNext(stored, fact)) {
      const expired = fact.type === 'step' && isFirst(fact) && isExpiry(fact) && sequenceOfBad(fact.key.id) === undefined
      deps.reloader.hear(fact, { expired })
    }
  }

  /** Keeps the dead letter of a malformed request until its answer comes. Before that there is no pass to load. Returns true if it was kept. */
  #isAnsweredNext(stored: StoredMessage, fact: Step | DecisionFact | EventFact): boolean {
    if (fact.type !== 'event' || fact.kind !== 'dead_letter' || fact.sender !== SYSTEM) return false
    const request = sequenceOfBad(fact.key.id)
    if (request === undefined || !this.notes.get(request)) return false
    const memory = new PassMemory(fact.key)
    memory.add(stored, fact, this.#deps.rules)
    this.#malformed.set(request, memory)
    return true
  }

  /** Returns the pass of a malformed request if all its messages were read in sequence, otherwise `undefined`. */
  #answered(stored: StoredMessage, step: Step, request: RequestNote | undefined): PassMemory | undefined {
    const sequence = sequenceOfBad(step.key.id) ?? 0
    const memory = this.#malformed.take(sequence)
    if (!memory || keyText(memory.key) !== keyText(step.key)) return undefined
    if (request?.sequence !== sequence || request.body === undefined) return undefined
    memory.request = request
    memory.add(stored, step, this.#deps.rules)
    return memory.journal.state === 'none' ? undefined : memory
  }

  /**
   * True if the step reuses an id without a time after two id windows. The server then found no messages of the earlier pass, which gets no
   * further updates.
   */
  #beginsAnew({ memory }: TrackedPass, step: Step): boolean {
    return memory.ended && step.sequence > memory.last && isFirst(step) && !isExpiry(step) && !firstStepIsLate(step, this.#deps.rules)
  }

  /** Takes the waiting request that a step answers. Only a step that may name that request is trusted. */
  #answeredBy(step: Step): RequestNote | undefined {
    const note = step.request === undefined ? undefined : this.notes.get(step.request)
    return note && answersRequest(step, note) ? this.notes.take(note.sequence) : undefined
  }

  /** Creates a pass that begins with this step. Returns `undefined` if the step alone is not enough to describe it. */
  #begin(stored: StoredMessage, step: Step, request: RequestNote | undefined): PassMemory | undefined {
    // The refusal of a request for a deleted pass is not a return of that pass (rule 5): the reloader checks the bucket first.
    if (isExpiry(step)) return this.#answered(stored, step, request)
    const memory = new PassMemory(step.key)
    if (step.kind === 'return') memory.request = request
    memory.add(stored, step, this.#deps.rules)
    const told = step.kind !== 'return' || memory.request?.body !== undefined
    return told && memory.journal.state !== 'none' ? memory : undefined
  }

  /** Adds a message to a pass in memory. */
  #advance(text: string, tracked: TrackedPass, message: { stored: StoredMessage; fact: Step | DecisionFact | EventFact }): void {
    const { memory } = tracked
    const { stored, fact } = message
    if (stored.sequence <= memory.last) return
    if (memory.journal.state !== 'none' && fact.type === 'step' && isFirst(fact) && isExpiry(fact)) return
    const noted = memory.noted.length
    const ignored = memory.add(stored, fact, this.#deps.rules)
    if (ignored !== undefined) this.#deps.violations.report(fact.key, fact.sequence, ignored)
    // The record contains only noted messages. A message that is not noted changes nothing, and building the record takes milliseconds.
    if (memory.noted.length > noted) this.#place(text, tracked)
  }

  /** Puts a pass into the right collection and saves it if its record is out of date. */
  #place(text: string, tracked: TrackedPass): void {
    if (tracked.memory.ended) {
      this.young.delete(text)
      this.old.delete(text)
      const kept = this.#writer.save(tracked)
      this.#deps.undelivered.note(tracked.memory)
      // A plain pass rarely gets further messages. If it does, it is loaded from the stream.
      if (kept !== 'brief') this.#ended.set(text, tracked)
      this.#deps.changed(text)
      return
    }
    if (this.old.has(text)) {
      this.#writer.save(tracked)
      this.#deps.changed(text)
      return
    }
    this.young.set(text, tracked)
    this.#deps.changed(text)
    // An item that waits for a person goes to the inbox at once, before the pass is old enough for a record.
    if ('held' in tracked.memory.journal && tracked.memory.journal.held) this.#writer.noteHeld(tracked.memory)
  }
}
