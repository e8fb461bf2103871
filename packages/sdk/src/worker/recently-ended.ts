import { keyText, type PassKey } from '@passover/schemas'

/** As many as are ended within a second or two, by which work may be delivered later than that it was ended is heard. */
const MAX_REMEMBERED = 10_000

/** Passes of which a worker heard of late that they were ended: their work may come yet, since the two take different ways. */
export class RecentlyEnded {
  /** Sequence of the return, the newest last. */
  readonly #heard = new Map<string, number>()

  note(key: PassKey, sequence: number): void {
    const text = keyText(key)
    this.#heard.delete(text)
    this.#heard.set(text, sequence)
    if (this.#heard.size <= MAX_REMEMBERED) return
    for (const [oldest] of this.#heard) {
      this.#heard.delete(oldest)
      return
    }
  }

  /** Whether it was ended after that work was stored: an id may be used again. */
  has(key: PassKey, work: number): boolean {
    return (this.#heard.get(keyText(key)) ?? 0) > work
  }
}
