/**
 * Places that several senders share. A sender takes another place only while it holds fewer than are free, so one sender alone gets half
 * of them, k busy senders get `count / (k + 1)` each, and a sender that holds none finds one however many messages others have stored.
 */
export class FairPlaces {
  readonly #count: number
  readonly #held = new Map<string, number>()
  #taken = 0

  constructor(count: number) {
    this.#count = count
  }

  /** Returns a function that frees the place again; undefined: the sender has its share. */
  take(sender: string): (() => void) | undefined {
    const held = this.#held.get(sender) ?? 0
    if (held >= this.#count - this.#taken) return undefined
    this.#held.set(sender, held + 1)
    this.#taken += 1
    return () => this.#free(sender)
  }

  #free(sender: string): void {
    this.#taken -= 1
    const held = (this.#held.get(sender) ?? 0) - 1
    if (held > 0) this.#held.set(sender, held)
    else this.#held.delete(sender)
  }
}
