import { keyText, type PassKey } from '@passover/schemas'

/**
 * Number of ended passes that are remembered: about as many as can end within a second or two, the time by which a work message may arrive after the
 * message that ended its pass.
 */
const MAX_REMEMBERED = 10_000

/** Recently ended passes of a subagent. Their work message may still arrive afterwards because it uses a different subscription. */
export class RecentlyEnded {
  /** Stream sequence of the return by pass, newest last. */
  readonly #returns = new Map<string, number>()

  note(key: PassKey, sequence: number): void {
    const text = keyText(key)
    this.#returns.delete(text)
    this.#returns.set(text, sequence)
    if (this.#returns.size <= MAX_REMEMBERED) return
    for (const [oldest] of this.#returns) {
      this.#returns.delete(oldest)
      return
    }
  }

  /** Returns true if the pass ended after the given work was stored. The sequences are compared because an id may be used again. */
  has(key: PassKey, work: number): boolean {
    return (this.#returns.get(keyText(key)) ?? 0) > work
  }
}
