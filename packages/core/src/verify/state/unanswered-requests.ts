import { type RequestState, requestDigest } from './recorded-message.js'

/** Requests that no step has answered yet, by sequence and by requested pass. */
export class UnansweredRequests {
  readonly #bySequence = new Map<number, RequestState>()
  readonly #byText = new Map<string, Set<number>>()

  get size(): number {
    return this.#bySequence.size
  }

  add(asked: RequestState): void {
    this.#bySequence.set(asked.fact.sequence, asked)
    if (asked.text === undefined) return
    const same = this.#byText.get(asked.text)
    if (same) same.add(asked.fact.sequence)
    else this.#byText.set(asked.text, new Set([asked.fact.sequence]))
  }

  get(sequence: number): RequestState | undefined {
    return this.#bySequence.get(sequence)
  }

  remove({ fact, text }: RequestState): void {
    this.#bySequence.delete(fact.sequence)
    const same = text === undefined ? undefined : this.#byText.get(text)
    same?.delete(fact.sequence)
    if (text !== undefined && same?.size === 0) this.#byText.delete(text)
  }

  /** Records that a pass has begun. Requests with the same content are answered by it; those with other content are answered as `bad-<sequence>`. */
  settle(text: string, digest: string | undefined): void {
    for (const sequence of [...(this.#byText.get(text) ?? [])]) {
      const asked = this.#bySequence.get(sequence)
      if (!asked) continue
      if (digest === undefined || requestDigest(asked.recorded) === digest) this.remove(asked)
      else asked.other = true
    }
  }

  all(): Iterable<RequestState> {
    return this.#bySequence.values()
  }
}
