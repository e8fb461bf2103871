import { keyText, type PassKey, parseKey } from '@passover/schemas'

/** The longest wait between two tries. */
const LONGEST_MS = 60_000

interface Waiting {
  key: PassKey
  /** Server ms of the next try. */
  at: number
  /** Wait before the one after it. */
  wait_ms: number
}

/**
 * Held passes that somebody decided about. The durable gives a decision up after so many deliveries, which lasting trouble
 * uses up: what is still held by then is driven again from here, until it goes on or expires.
 */
export class DecidedPasses {
  readonly #wait_ms: number
  readonly #waiting = new Map<string, Waiting>()

  constructor(wait_ms: number) {
    this.#wait_ms = wait_ms
  }

  get size(): number {
    return this.#waiting.size
  }

  /** A decision about a held pass was stored at this server time. One try serves all decisions about it. */
  note(key: PassKey, time: number): void {
    const text = keyText(key)
    if (!this.#waiting.has(text)) this.#waiting.set(text, { key, at: time + this.#wait_ms, wait_ms: this.#wait_ms * 2 })
  }

  /** It is no longer held, or no decision about it counts. */
  forget(key: PassKey): void {
    this.#waiting.delete(keyText(key))
  }

  /** Those to be tried now; each comes up again after twice as long. What is no longer held is forgotten. */
  due(now: number, isHeld: (key: PassKey) => boolean): PassKey[] {
    const due: PassKey[] = []
    for (const [text, one] of this.#waiting) {
      if (!isHeld(one.key)) this.#waiting.delete(text)
      else if (one.at <= now) {
        one.at = now + one.wait_ms
        one.wait_ms = Math.min(one.wait_ms * 2, Math.max(LONGEST_MS, this.#wait_ms))
        due.push(one.key)
      }
    }
    return due
  }

  /** For a snapshot: what is known of them is in the stream. */
  names(): string[] {
    return [...this.#waiting.keys()]
  }

  /** What a snapshot knew: to be tried at once. */
  restore(names: readonly unknown[]): void {
    for (const name of names) {
      const key = typeof name === 'string' ? parseKey(name) : undefined
      if (key) this.note(key, -this.#wait_ms)
    }
  }

  clear(): void {
    this.#waiting.clear()
  }
}
