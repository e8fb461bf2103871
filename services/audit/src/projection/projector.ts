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
import type { DeliveryDeadlines } from './delivery-deadline.js'
import type { PassReloader } from './pass-reloader.js'
import { RecordWriter, type RecordWriterDeps, type TrackedPass } from './record-writer.js'
import type { Violations } from './violations.js'

export interface ProjectorDeps extends RecordWriterDeps {
  reloads: PassReloader
  violations: Violations
  undelivered: Pick<DeliveryDeadlines, 'note'>
  acknowledged: Pick<AckIndex, 'take' | 'backpressure' | 'lowest'>
  isAgent: (name: string) => boolean
  /** Called with the keyText of a pass after what memory knows of it has changed. */
  changed: (text: string) => void
}

export interface ProjectorOptions {
  /** False (`log_all_passes: false`): of passes without a record none is written. */
  writes: () => boolean
  /** How long a pass, or a request, stays open before it is written as open. */
  open_ms: number
  request_ms: number
  /** Bytes of bodies that ended passes may hold, for what still happens to them. */
  ended_bytes: number
}

const ENDED_OVERHEAD = 2048
/** Open passes written at once: hundreds would have the server, and this process a processor, for themselves, twice a second. */
const MAX_CONCURRENT_WRITES = 10
/** Each costs reads of the leader, and the reader waits for many of them: requests in a backlog are mostly answered soon. */
const MAX_REQUESTS_PER_SWEEP = 16

/**
 * Folds the stream into one record a pass (docs/architecture/audit-archive.md#records). A pass lives in memory until it has ended and its record is acknowledged; what
 * happens to it later finds it in a bounded cache, or is read from the stream again. Everything is idempotent by sequence (I2).
 */
export class Projector {
  readonly notes: UnansweredRequests
  /** Open passes without a record yet, and those that stayed open long enough to have one; each in order of their first step. */
  readonly young = new ChurnMap<string, TrackedPass>()
  readonly old = new ChurnMap<string, TrackedPass>()
  /** Malformed requests whose bytes were kept and which were not answered yet, by their sequences. */
  private readonly malformed = new ChurnMap<number, PassMemory>()
  private readonly ended: LRUCache<string, TrackedPass>
  private readonly keeper: RecordWriter
  /** Sequence and time of the last message taken. */
  position = 0
  time = 0

  constructor(
    private readonly deps: ProjectorDeps,
    private readonly options: ProjectorOptions,
  ) {
    this.notes = new UnansweredRequests(deps.changed)
    this.keeper = new RecordWriter(deps, options)
    this.ended = new LRUCache({ maxSize: options.ended_bytes, sizeCalculation: ({ memory }) => memory.bytes + ENDED_OVERHEAD })
  }

  get open(): number {
    return this.young.size + this.old.size
  }

  /** Takes the next message; a promise means that the reader must wait. Never throws: a message that cannot be understood says nothing. */
  take(stored: StoredMessage, fact: Fact): Promise<void> | undefined {
    this.position = stored.sequence
    this.time = stored.time
    try {
      if (fact.type === 'request') this.onRequest(stored, fact)
      else if (isRecorded(fact)) this.onRecorded(stored, fact)
      else if (fact.type === 'acknowledged') this.deps.acknowledged.take(stored, fact)
      else if (fact.type === 'untrusted') this.onUntrusted(fact)
    } catch (error) {
      // One message must not keep the reader from all that follow.
      this.deps.log.error({ sequence: stored.sequence, subject: stored.subject, err: error }, 'message not projected')
    }
    return (
      this.deps.records.backpressure() ??
      this.deps.reloads.backpressure() ??
      this.deps.violations.backpressure() ??
      this.deps.schemas.backpressure() ??
      this.deps.inbox.backpressure() ??
      this.deps.acknowledged.backpressure()
    )
  }

  /** The lowest sequence that a projector starting now would still have to read; undefined: none. */
  needed(): number | undefined {
    const { reloads, violations, inbox, acknowledged } = this.deps
    const none = Number.POSITIVE_INFINITY
    let lowest = Math.min(reloads.lowest ?? none, violations.lowest ?? none, inbox.lowest ?? none, acknowledged.lowest ?? none)
    lowest = Math.min(lowest, this.notes.first()?.sequence ?? none, this.young.first()?.memory.first ?? none)
    for (const { memory } of this.keeper.unwritten.all()) lowest = Math.min(lowest, memory.first)
    return Number.isFinite(lowest) ? lowest : undefined
  }

  /** Passes whose record is being written. No more than a few hundred, since the reader waits for them. */
  *unwritten(): Generator<PassMemory> {
    for (const { memory } of this.keeper.unwritten.all()) yield memory
  }

  /** A pass that is, or was of late, in memory. */
  find(text: string): PassMemory | undefined {
    return (this.young.get(text) ?? this.old.get(text) ?? this.ended.get(text))?.memory
  }

  /** Passes of which a record is being written, or is to be. */
  get writing(): number {
    return this.keeper.unwritten.size
  }

  /** Passes whose first message is among these: a later one may have come since. */
  forget(erased: ReadonlySet<number>): void {
    this.keeper.forget(erased)
    for (const [text, { memory }] of this.ended) if (erased.has(memory.first)) this.ended.delete(text)
  }

  /** Writes some of what stayed open long enough; false: nothing is left. `now` is the server's time. */
  writeOpen(now: number): boolean {
    let writes = 0
    for (const [text, tracked] of this.young) {
      if (now - tracked.memory.begun < this.options.open_ms) return false
      if (writes === MAX_CONCURRENT_WRITES) return true
      this.young.delete(text)
      this.old.set(text, tracked)
      this.deps.changed(text)
      this.keeper.save(tracked)
      writes++
    }
    return false
  }

  /** Forgets requests that need no answer. `now` is the server's time. */
  sweep(now: number): void {
    for (const note of this.notes.values()) {
      if (now - note.time < this.options.request_ms || this.deps.reloads.requests >= MAX_REQUESTS_PER_SWEEP) break
      const key = noteKey(note)
      this.notes.take(note.sequence)
      this.malformed.delete(note.sequence)
      if (key) this.deps.reloads.want(key, note.sequence)
    }
  }

  private onRequest(stored: StoredMessage, fact: RequestFact): void {
    const text = fact.id === undefined ? undefined : keyText({ originator: fact.originator, subagent: fact.subagent, id: fact.id })
    const known = text !== undefined && (this.find(text) ?? this.deps.rows.get(text))
    if (!known) this.notes.add(stored, fact)
    if (fact.untrusted === undefined) return
    const { originator, subagent } = fact
    const { id } = this.deps.violations.nameless(fact.sequence)
    this.deps.violations.report({ originator, subagent, id }, fact.sequence, `${stored.subject}: ${fact.untrusted}`)
  }

  /** One that belongs to no pass is recorded under a key of its own. */
  private onUntrusted({ subject, key, sequence, untrusted }: UntrustedFact): void {
    this.deps.violations.report(key ?? this.deps.violations.nameless(sequence), sequence, `${subject}: ${untrusted}`)
  }

  private onRecorded(stored: StoredMessage, fact: Step | DecisionFact | EventFact): void {
    const { deps } = this
    if (fact.type === 'decision' && deps.isAgent(fact.person)) {
      deps.violations.report(fact.key, fact.sequence, `a decision by the agent ${fact.person}`)
    }
    if (fact.type === 'event' && fact.kind === 'settled' && deps.isAgent(fact.sender)) {
      deps.violations.report(fact.key, fact.sequence, `a dead letter settled by the agent ${fact.sender}`)
    }
    const request = fact.type === 'step' ? this.answeredBy(fact) : undefined
    const text = keyText(fact.key)
    const known = this.young.get(text) ?? this.old.get(text) ?? this.ended.get(text)
    if (known && !(fact.type === 'step' && this.beginsAnew(known, fact))) {
      this.advance(text, known, { stored, fact })
      return
    }
    if (known) this.ended.delete(text)
    const begins = fact.type === 'step' && isFirst(fact) && !deps.reloads.knows(fact.key, text)
    const memory = begins ? this.begin(stored, fact, request) : undefined
    if (memory) this.place(text, { memory, slot: undefined, writing: 'no', counted: false, index: 0 })
    else if (!this.isAnsweredNext(stored, fact)) {
      const expired = fact.type === 'step' && isFirst(fact) && isExpiry(fact) && sequenceOfBad(fact.key.id) === undefined
      deps.reloads.hear(fact, { expired })
    }
  }

  /** Of a malformed request first its bytes are kept, then it is answered: until then there is no pass to be read. */
  private isAnsweredNext(stored: StoredMessage, fact: Step | DecisionFact | EventFact): boolean {
    if (fact.type !== 'event' || fact.kind !== 'dead_letter' || fact.sender !== SYSTEM) return false
    const request = sequenceOfBad(fact.key.id)
    if (request === undefined || !this.notes.get(request)) return false
    const memory = new PassMemory(fact.key)
    memory.add(stored, fact, this.deps.rules)
    this.malformed.set(request, memory)
    return true
  }

  /** Everything of a malformed request was read, one after the other; undefined where it was not. */
  private answered(stored: StoredMessage, step: Step, request: RequestNote | undefined): PassMemory | undefined {
    const sequence = sequenceOfBad(step.key.id) ?? 0
    const memory = this.malformed.take(sequence)
    if (!memory || keyText(memory.key) !== keyText(step.key)) return undefined
    if (request?.sequence !== sequence || request.body === undefined) return undefined
    memory.request = request
    memory.add(stored, step, this.deps.rules)
    return memory.journal.state === 'none' ? undefined : memory
  }

  /** An id without a time, used again after two windows: the server found nothing of the pass that had it, which is told no more. */
  private beginsAnew({ memory }: TrackedPass, step: Step): boolean {
    return memory.ended && step.sequence > memory.last && isFirst(step) && !isExpiry(step) && !firstStepIsLate(step, this.deps.rules)
  }

  /** The request that a step answers, out of those that wait: only a step that may say so is believed. */
  private answeredBy(step: Step): RequestNote | undefined {
    const note = step.request === undefined ? undefined : this.notes.get(step.request)
    return note && answersRequest(step, note) ? this.notes.take(note.sequence) : undefined
  }

  /** A pass that begins with this step; undefined where more than the step is needed to tell about it. */
  private begin(stored: StoredMessage, step: Step, request: RequestNote | undefined): PassMemory | undefined {
    // What answers a request for a pass that was deleted is no return of that pass (rule 5): the bucket is asked first.
    if (isExpiry(step)) return this.answered(stored, step, request)
    const memory = new PassMemory(step.key)
    if (step.kind === 'return') memory.request = request
    memory.add(stored, step, this.deps.rules)
    const told = step.kind !== 'return' || memory.request?.body !== undefined
    return told && memory.journal.state !== 'none' ? memory : undefined
  }

  /** One more message of a pass in memory. */
  private advance(text: string, tracked: TrackedPass, message: { stored: StoredMessage; fact: Step | DecisionFact | EventFact }): void {
    const { memory } = tracked
    const { stored, fact } = message
    if (stored.sequence <= memory.last) return
    if (memory.journal.state !== 'none' && fact.type === 'step' && isFirst(fact) && isExpiry(fact)) return
    const noted = memory.noted.length
    const ignored = memory.add(stored, fact, this.deps.rules)
    if (ignored !== undefined) this.deps.violations.report(fact.key, fact.sequence, ignored)
    // The record says what is noted. One of more messages than are noted changes nothing in it, and to make it takes milliseconds.
    if (memory.noted.length > noted) this.place(text, tracked)
  }

  /** Puts a pass where it belongs, and has it written where its record tells less than memory. */
  private place(text: string, tracked: TrackedPass): void {
    if (tracked.memory.ended) {
      this.young.delete(text)
      this.old.delete(text)
      const kept = this.keeper.save(tracked)
      this.deps.undelivered.note(tracked.memory)
      // Hardly anything ever happens to a plain pass again; then it is read from the stream.
      if (kept !== 'brief') this.ended.set(text, tracked)
      this.deps.changed(text)
      return
    }
    if (this.old.has(text)) {
      this.keeper.save(tracked)
      this.deps.changed(text)
      return
    }
    this.young.set(text, tracked)
    this.deps.changed(text)
    // What waits for a person is in the inbox at once, not when its record is worth a write.
    if ('held' in tracked.memory.journal && tracked.memory.journal.held) this.keeper.noteHeld(tracked.memory)
  }
}
