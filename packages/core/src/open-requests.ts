import type { PassKey, Step } from '@passover/schemas'
import { answersRequest } from './answers.js'
import { Backlog } from './backlog.js'
import type { Cancels } from './cancels.js'
import type { Asked, OpenPass } from './open-pass.js'
import { Pending } from './pending.js'
import type { Timers } from './timers.js'

interface Shared {
  timers: Timers<OpenPass | Asked>
  cancels: Cancels
  /** How long a request may go unanswered before it is read whole. */
  look_after_ms: number
}

/** Requests that no first step has answered: what is known of each, and when it is due. */
export class OpenRequests {
  /** Those that no dispatcher has been given yet. */
  readonly backlog = new Backlog<Asked>()
  readonly #pending = new Pending()
  readonly #timers: Timers<OpenPass | Asked>
  readonly #cancels: Cancels
  readonly #look_after_ms: number

  constructor({ timers, cancels, look_after_ms }: Shared) {
    this.#timers = timers
    this.#cancels = cancels
    this.#look_after_ms = look_after_ms
  }

  get size(): number {
    return this.#pending.size
  }

  get(sequence: number): Asked | undefined {
    return this.#pending.get(sequence)
  }

  asksEarlier(key: PassKey, sequence: number): boolean {
    return this.#pending.asksEarlier(key, sequence)
  }

  values(): Iterable<Asked> {
    return this.#pending.values()
  }

  add(asked: Asked): void {
    const { fact, cancelled, timeout_ms } = asked
    this.#pending.add(asked)
    this.backlog.add(asked)
    this.#timers.set(asked, cancelled ? fact.time : fact.time + (timeout_ms ?? this.#look_after_ms), fact.sequence)
  }

  /** What its body says: which pass it asks for, and that one's timeout by policy. */
  learn(asked: Asked, said: { key: PassKey; text: string; timeout_ms: number }): void {
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
