import { keyText, type PassKey, type Step } from '@passover/schemas'
import { answersRequest } from '../journal/request-matching.js'
import { ChurnMap } from '../runtime/churn-map.js'
import { FairQueue } from './fair-queue.js'
import type { OpenPass, PendingRequest } from './open-pass.js'
import type { PendingCancels } from './pending-cancels.js'
import type { TimerQueue } from './timer-queue.js'

interface Shared {
  timers: TimerQueue<OpenPass | PendingRequest>
  cancels: PendingCancels
  /** Milliseconds a request may stay unanswered before its body is read. */
  look_after_ms: number
}

/** Requests that no first step has answered, with what is known of each and when it is due. */
export class OpenRequests {
  /** Requests that have not been delivered to a dispatcher yet. */
  readonly backlog = new FairQueue<PendingRequest>()
  readonly #pending = new RequestIndex()
  readonly #timers: TimerQueue<OpenPass | PendingRequest>
  readonly #cancels: PendingCancels
  readonly #look_after_ms: number

  constructor({ timers, cancels, look_after_ms }: Shared) {
    this.#timers = timers
    this.#cancels = cancels
    this.#look_after_ms = look_after_ms
  }

  get size(): number {
    return this.#pending.size
  }

  get(sequence: number): PendingRequest | undefined {
    return this.#pending.get(sequence)
  }

  asksEarlier(key: PassKey, sequence: number): boolean {
    return this.#pending.asksEarlier(key, sequence)
  }

  values(): Iterable<PendingRequest> {
    return this.#pending.values()
  }

  add(asked: PendingRequest): void {
    const { fact, cancelled, timeout_ms } = asked
    this.#pending.add(asked)
    this.backlog.add(asked)
    this.#timers.set(asked, cancelled ? fact.time : fact.time + (timeout_ms ?? this.#look_after_ms), fact.sequence)
  }

  /** Records the body of a request: the pass that it asks for, and its timeout by policy. */
  learn(asked: PendingRequest, said: { key: PassKey; text: string; timeout_ms: number }): void {
    const { fact } = asked
    this.#pending.name(asked, said.key, said.text)
    asked.timeout_ms = said.timeout_ms
    asked.cancelled = this.#cancels.has(said.text, fact.time)
    this.#timers.set(asked, asked.cancelled ? fact.time : fact.time + said.timeout_ms, fact.sequence)
  }

  /** Marks the requests of a pass that was cancelled before it began. */
  cancel(text: string, time: number): void {
    for (const asked of this.#pending.named(text)) {
      asked.cancelled = true
      this.#timers.set(asked, time, asked.fact.sequence)
    }
  }

  /** Undoes `cancel` for a pass that had ended before: the requests repeat it, and are only looked at, many at a time. */
  lookAt(text: string): void {
    for (const asked of this.#pending.named(text)) {
      asked.cancelled = false
      asked.timeout_ms = undefined
      this.#timers.set(asked, asked.fact.time + this.#look_after_ms, asked.fact.sequence)
    }
  }

  /** Removes the requests that a counted step answers: the one that it names, and all that ask for its pass. */
  removeAnswered(step: Step, text: string): void {
    const named = step.request === undefined ? undefined : this.#pending.get(step.request)
    if (named && answersRequest(step, named.fact)) this.forget(named.fact.sequence)
    for (const asked of this.#pending.named(text)) this.forget(asked.fact.sequence)
  }

  forget(sequence: number): void {
    const asked = this.#pending.remove(sequence)
    if (!asked) return
    this.#timers.drop(asked)
    this.backlog.drop(asked)
  }
}

/** Index of unanswered requests by sequence and by the requested pass. */
class RequestIndex {
  readonly #bySequence = new ChurnMap<number, PendingRequest>()
  /** A set only if there are several requests for one pass, which is rare. */
  readonly #byName = new ChurnMap<string, PendingRequest | Set<PendingRequest>>()

  get size(): number {
    return this.#bySequence.size
  }

  get(sequence: number): PendingRequest | undefined {
    return this.#bySequence.get(sequence)
  }

  values(): Iterable<PendingRequest> {
    return this.#bySequence.values()
  }

  named(text: string): PendingRequest[] {
    const found = this.#byName.get(text)
    if (!found) return []
    return found instanceof Set ? [...found] : [found]
  }

  add(asked: PendingRequest): void {
    this.#bySequence.set(asked.fact.sequence, asked)
    this.#index(asked, nameOf(asked))
  }

  /** Returns true if an earlier request of the same two agents asks for this pass, or may because its headers do not name one. */
  asksEarlier(key: PassKey, sequence: number): boolean {
    return [keyText(key), pairOf(key)].some((text) => this.named(text).some(({ fact }) => fact.sequence < sequence))
  }

  /** Sets the pass that a request asks for. */
  name(asked: PendingRequest, key: PassKey, text: string): void {
    this.#unindex(asked)
    asked.key = key
    asked.text = text
    this.#index(asked, text)
  }

  remove(sequence: number): PendingRequest | undefined {
    const asked = this.#bySequence.take(sequence)
    if (asked) this.#unindex(asked)
    return asked
  }

  #index(asked: PendingRequest, text: string): void {
    const present = this.#byName.get(text)
    if (present instanceof Set) present.add(asked)
    else this.#byName.set(text, present ? new Set([present, asked]) : asked)
  }

  #unindex(asked: PendingRequest): void {
    const text = nameOf(asked)
    const present = this.#byName.get(text)
    if (present instanceof Set) present.delete(asked)
    if (present === asked || (present instanceof Set && present.size === 0)) this.#byName.delete(text)
  }
}

/** Returns the requested pass, or its two agents while the pass is not known. */
function nameOf({ text, fact }: PendingRequest): string {
  return text ?? pairOf(fact)
}

function pairOf({ originator, subagent }: { originator: string; subagent: string }): string {
  return `${originator}/${subagent}`
}
