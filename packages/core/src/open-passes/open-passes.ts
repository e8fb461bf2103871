import { type EventFact, type Fact, isPassId, keyText, type PassKey, type RequestFact, type Step } from '@passover/schemas'
import { EMPTY_JOURNAL, type JournalState, next } from '../journal/state-machine.js'
import { SessionCounter } from '../limits/session-counter.js'
import { PairCounters } from '../limits/sliding-window.js'
import { type Due, type DueEnd, type DueResolution, lastResort, type OpenRules, since } from './due-actions.js'
import type { FairQueue } from './fair-queue.js'
import {
  begunStep,
  type EndVerdict,
  type OpenPass,
  orderOf,
  type PendingRequest,
  pendingRequestVerdict,
  requestKey,
  slimStep,
  verdictOf,
} from './open-pass.js'
import { OpenRequests } from './open-requests.js'
import { PassTree } from './pass-tree.js'
import { PendingCancels } from './pending-cancels.js'
import { emptySnapshot, type OpenSnapshot, unpackAsked, unpackPass } from './snapshot.js'
import { snapshotChunks } from './snapshot-chunks.js'
import { TimerQueue } from './timer-queue.js'

const AGAIN_AFTER_MS = 5_000

/**
 * The timekeeper's fold (docs/architecture/dispatcher.md#timekeeper): open passes, their tree, and what is due. Facts must come in sequence order;
 * facts at or below `position` are ignored. O(log n) per event. A closed pass is forgotten; an unknown parent counts as not open.
 */
export class OpenPasses {
  readonly #rules: Required<Omit<OpenRules, 'names'>>
  readonly #timers = new TimerQueue<OpenPass | PendingRequest>()
  readonly #cancels: PendingCancels
  /** Passes that had ended when a request for them came, with the time of their end. A cancel does not concern them. */
  readonly #ended: PendingCancels
  readonly #tree = new PassTree(this.#timers)
  readonly #requests: OpenRequests
  /** Counts that limits use: passes of pairs and subagents, and of sessions. */
  readonly tallies = new PairCounters()
  readonly sessions: SessionCounter
  #position = 0

  constructor(rules: OpenRules) {
    this.#rules = { again_after_ms: AGAIN_AFTER_MS, ...rules }
    this.#cancels = new PendingCancels(rules.id_window_ms)
    this.#ended = new PendingCancels(rules.id_window_ms)
    this.#requests = new OpenRequests({ timers: this.#timers, cancels: this.#cancels, look_after_ms: rules.look_after_ms })
    this.sessions = new SessionCounter(2 * rules.id_window_ms)
  }

  /** Number of passes that began and did not end. */
  get size(): number {
    return this.#tree.size
  }

  /** Number of requests without an answer. */
  get unanswered(): number {
    return this.#requests.size
  }

  /** Requests that have not been delivered to a dispatcher yet. */
  get backlog(): FairQueue<PendingRequest> {
    return this.#requests.backlog
  }

  /** Sequence of the last applied fact. Reading continues after it. */
  get position(): number {
    return this.#position
  }

  journalOf(key: PassKey): JournalState | undefined {
    return this.#tree.get(keyText(key))?.journal
  }

  /** Returns true if this request has no answer yet. */
  awaits(sequence: number): boolean {
    return this.#requests.get(sequence) !== undefined
  }

  /** Returns at most `most` requests without an answer that were stored before `time`, oldest first. */
  unansweredBefore(time: number, most: number): RequestFact[] {
    const found: RequestFact[] = []
    for (const { fact } of this.#requests.values()) {
      if (fact.time >= time || found.length === most) break
      found.push(fact)
    }
    return found
  }

  /** Returns true if an earlier request without an answer asks for the same pass, or may. */
  asksEarlier(key: PassKey, sequence: number): boolean {
    return this.#requests.asksEarlier(key, sequence)
  }

  /** Returns the sequence of the subagent's lowest open work, from which a lost work consumer must continue. Scans all open passes. */
  lowestOpenWork(subagent: string): number | undefined {
    return this.#tree.lowestWork(subagent)
  }

  apply(fact: Fact): void {
    if (fact.sequence <= this.#position) return
    this.#position = fact.sequence
    if (fact.type === 'step') this.#step(fact)
    if (fact.type === 'request') this.#request(fact)
    if (fact.type === 'event' && fact.kind === 'cancel') this.#cancel(fact)
  }

  /** Returns what must be done now. An item that has not ended is returned again after `again_after_ms`. */
  due(now: number): Due[] {
    const due: Due[] = []
    for (let item = this.#timers.take(now); item; item = this.#timers.take(now)) {
      due.push(item.kind === 'pass' ? this.#endOf(item, now) : this.#askedDue(item, now))
      this.#timers.set(item, now + this.#rules.again_after_ms, orderOf(item))
    }
    return due
  }

  /** Returns the time (server ms) at which the next item is due, or `undefined` if there is none. */
  nextAt(): number | undefined {
    return this.#timers.nextAt()
  }

  /** Records the body of a request that `due` returned for reading: its id, and its timeout by policy. */
  learn(sequence: number, body: { key: Pick<PassKey, 'id'>; timeout_ms: number }): void {
    const asked = this.#requests.get(sequence)
    if (!asked) return
    const key = requestKey(asked.fact, body.key.id)
    const text = keyText(key)
    if (this.#tree.has(text)) this.forget(sequence)
    else this.#requests.learn(asked, { key, text, timeout_ms: body.timeout_ms })
  }

  /** Forgets a request that was answered in another way or is not valid. */
  forget(sequence: number): void {
    this.#requests.forget(sequence)
  }

  /** Decides what to do after the end in `due` was not stored. `found` are all steps of the pass, read from the leader. */
  settle(due: DueEnd, found: readonly Step[], now: number): DueResolution {
    const { journal, starved } = since(due, found, this.#rules)
    if (journal.state === 'done') {
      if (due.request) this.#repeats(due.request, keyText(due.key), journal.return.time)
      return { kind: 'ended' }
    }
    if (found.length === 0 && due.guard > 0) {
      this.#end(keyText(due.key), now)
      return { kind: 'gone' }
    }
    if (journal.last === due.guard) return { kind: 'again', due, fenced: false }
    const verdict = this.#stillDue(journal, due, now)
    if (verdict) {
      const refusals = this.#refused(due, starved)
      return { kind: 'again', due: { ...due, ...verdict, guard: journal.last, journal, ...lastResort(refusals, found) }, fenced: starved }
    }
    if (due.request) this.forget(due.request.sequence)
    return { kind: 'wait' }
  }

  /** Returns the whole state as plain data that JSON and msgpack can encode. */
  snapshot(): OpenSnapshot {
    const [whole = emptySnapshot(this.#position)] = this.slices(Number.POSITIVE_INFINITY)
    return whole
  }

  /**
   * Yields the state in slices of at most `size` entries, so that the caller can do other work between them. All slices show the moment of this call.
   */
  slices(size: number): Generator<OpenSnapshot> {
    const { tallies, sessions } = this
    const fold = { position: this.#position, cancels: this.#cancels, passes: this.#tree, requests: this.#requests, tallies, sessions }
    return snapshotChunks(fold, size)
  }

  /** Restores the fold from a snapshot; due items are returned again. `undefined` if the snapshot cannot be used. */
  static restore(data: unknown, rules: OpenRules): OpenPasses | undefined {
    const snapshot = data as Partial<OpenSnapshot> | null | undefined
    if (snapshot?.v !== 2 || !Number.isSafeInteger(snapshot.position)) return undefined
    const open = new OpenPasses(rules)
    try {
      open.#fill(snapshot as OpenSnapshot)
    } catch (error) {
      if (error instanceof TypeError) return undefined
      throw error
    }
    return open
  }

  #fill(snapshot: OpenSnapshot): void {
    this.#position = snapshot.position
    for (const [text, time] of snapshot.cancels) this.#cancels.add(text, time)
    const passes = snapshot.passes.map((packed) => unpackPass(packed))
    for (const minute of snapshot.minutes) this.tallies.unpack(minute)
    for (const { key, journal } of passes) this.tallies.restored(key, journal.state === 'held')
    for (const session of snapshot.sessions) this.sessions.unpack(session)
    this.sessions.turned = snapshot.turned ?? undefined
    this.#tree.restore(passes)
    for (const packed of snapshot.asked) this.#requests.add(unpackAsked(packed))
  }

  /** Forgets a request that came after the end of its pass. What else asks for that pass is not cancelled, however often the originator says so. */
  #repeats(request: RequestFact, text: string, ended_at: number): void {
    this.forget(request.sequence)
    this.#cancels.delete(text)
    this.#ended.add(text, ended_at)
    this.#requests.lookAt(text)
  }

  #request(fact: RequestFact): void {
    const key = fact.id !== undefined && isPassId(fact.id) ? requestKey(fact, fact.id) : undefined
    const text = key && keyText(key)
    if (text !== undefined && this.#tree.has(text)) return
    this.#requests.add({ kind: 'asked', fact, key, text, cancelled: text !== undefined && this.#cancels.has(text, fact.time) })
  }

  #cancel({ key, sender, time }: EventFact): void {
    if (sender === key.subagent && sender !== key.originator) return
    const text = keyText(key)
    const pass = this.#tree.get(text)
    if (pass) {
      this.#tree.cancel(pass, time)
      return
    }
    if (this.#ended.has(text, time)) return
    this.#cancels.add(text, time)
    this.#requests.cancel(text, time)
  }

  #step(step: Step): void {
    const text = keyText(step.key)
    const pass = this.#tree.get(text)
    const { journal, ignored } = next(pass?.journal ?? EMPTY_JOURNAL, slimStep(step), this.#rules)
    if (ignored === undefined) this.#requests.removeAnswered(step, text)
    if (journal.state === 'none') return
    if (journal.state === 'done') this.#end(text, step.time)
    else if (pass) {
      if (pass.journal.state === 'held' && journal.state === 'open') this.tallies.dispatched(pass.key)
      this.#tree.advance(pass, journal, step.time)
    } else {
      this.#begin({ kind: 'pass', text, key: step.key, journal, cancelled: this.#cancels.has(text, step.time) }, step.time)
      if (step.session !== undefined) this.sessions.add(step.session, step.time)
    }
  }

  #begin(pass: OpenPass, time: number): void {
    this.#cancels.delete(pass.text)
    this.tallies.begun(pass.key, time, pass.journal.state === 'held')
    this.#tree.add(pass, time)
  }

  #end(text: string, time: number): void {
    this.#cancels.delete(text)
    const pass = this.#tree.end(text, time)
    if (pass) this.tallies.ended(pass.key, pass.journal.state === 'held')
  }

  #endOf(pass: OpenPass, now: number): DueEnd {
    const { code, why } = this.#tree.endingOf(pass, now)
    const refusals = pass.refusals === undefined ? {} : { refusals: pass.refusals }
    return { kind: 'end', key: pass.key, code, why, guard: pass.journal.last, journal: pass.journal, ...refusals }
  }

  #askedDue(asked: PendingRequest, now: number): Due {
    const { key, fact, timeout_ms, cancelled } = asked
    if (!key || (timeout_ms === undefined && !cancelled)) return { kind: 'look', request: fact }
    const verdict = pendingRequestVerdict({ ...asked, key }, now, this.#rules)
    return { kind: 'end', key, ...verdict, guard: 0, journal: EMPTY_JOURNAL, request: fact }
  }

  /** Returns the number of refusals of this end by newer steps. Also kept with the pass, because `due` may return it again. */
  #refused(due: DueEnd, starved: boolean): number {
    const refusals = (due.refusals ?? 0) + (starved ? 1 : 0)
    const pass = this.#tree.get(keyText(due.key))
    if (pass && refusals > 0) pass.refusals = refusals
    return refusals
  }

  #stillDue(journal: Exclude<JournalState, { state: 'done' }>, due: DueEnd, now: number): EndVerdict | undefined {
    const text = keyText(due.key)
    const asked = due.request && this.#requests.get(due.request.sequence)
    if (journal.state === 'none') return asked && pendingRequestVerdict({ ...asked, key: due.key }, now, this.#rules)
    const cancelled = this.#tree.get(text)?.cancelled || asked?.cancelled || this.#cancels.has(text, begunStep(journal).time)
    return verdictOf(journal, { cancelled, parent: this.#tree.parentOf(journal) }, now)
  }
}
