import { keyText, type PassKey, parseKey } from '@passover/schemas'

/** Maximum wait between two tries, unless the configured wait is longer. */
const LONGEST_MS = 60_000

interface Waiting {
  key: PassKey
  /** Server time in milliseconds of the next try. */
  at: number
  /** Wait in milliseconds before the try after the next one. */
  wait_ms: number
}

/**
 * Held passes that a person has decided about. The durable consumer gives up a decision after a limited number of deliveries, for example during a
 * long outage. Passes that are still held are therefore retried from here until they move on or expire.
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

  /** Notes that a decision about a held pass was stored at this server time. One try covers all decisions about the pass. */
  note(key: PassKey, time: number): void {
    const text = keyText(key)
    if (!this.#waiting.has(text)) this.#waiting.set(text, { key, at: time + this.#wait_ms, wait_ms: this.#wait_ms * 2 })
  }

  /** Forgets a pass that is no longer held, or about which no decision counts. */
  forget(key: PassKey): void {
    this.#waiting.delete(keyText(key))
  }

  /** Returns the passes to try now and doubles the wait until their next try. Forgets passes that are no longer held. */
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

  /** Returns the names of the passes for a snapshot. Everything else about them is in the stream. */
  names(): string[] {
    return [...this.#waiting.keys()]
  }

  /** Restores the names from a snapshot. All of them are due immediately. */
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
