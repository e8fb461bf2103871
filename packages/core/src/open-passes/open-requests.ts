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
  /** How long a request may go unanswered before it is read whole. */
  look_after_ms: number
}

/** Requests that no first step has answered: what is known of each, and when it is due. */
export class OpenRequests {
  /** Those that no dispatcher has been given yet. */
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

  /** What its body says: which pass it asks for, and that one's timeout by policy. */
  learn(asked: PendingRequest, said: { key: PassKey; text: string; timeout_ms: number }): void {
    const { fact } = asked
    this.#pending.name(asked, said.key, said.text)
    asked.timeout_ms = said.timeout_ms
    asked.cancelled = this.#cancels.has(said.text, fact.time)
    this.#timers.set(asked, asked.cancelled ? fact.time : fact.time + said.timeout_ms, fact.sequence)
  }

  /** Its pass was cancelled before it began. */
  cancel(text: string, time: number): void {
    for (const asked of this.#pending.named(text)) {
      asked.cancelled = true
      this.#timers.set(asked, time, asked.fact.sequence)
    }
  }

  /** A step of that pass counts: it answers the request that it names, and all that ask for its pass. */
  answered(step: Step, text: string): void {
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

/** Requests that no first step has answered yet: by sequence, and by the pass they ask for. */
class RequestIndex {
  readonly #bySequence = new ChurnMap<number, PendingRequest>()
  /** Mostly one request a pass: a set only where there are several. */
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

  /** Whether a request before this one, of the same two agents, asks for this pass, or may: its headers name none. */
  asksEarlier(key: PassKey, sequence: number): boolean {
    return [keyText(key), pairOf(key)].some((text) => this.named(text).some(({ fact }) => fact.sequence < sequence))
  }

  /** Gives a request the name of the pass that it asks for. */
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

/** The pass that a request asks for; while that is not known, its two agents. */
function nameOf({ text, fact }: PendingRequest): string {
  return text ?? pairOf(fact)
}

function pairOf({ originator, subagent }: { originator: string; subagent: string }): string {
  return `${originator}/${subagent}`
}
