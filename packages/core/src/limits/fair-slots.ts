/**
 * Slots that several senders share. A sender gets another slot only while it holds fewer than are free. So a single sender gets half of them, k busy
 * senders get `count / (k + 1)` each, and a sender without a slot finds a free one however many messages others have stored.
 */
export class FairSlots {
  readonly #count: number
  readonly #held = new Map<string, number>()
  #taken = 0

  constructor(count: number) {
    this.#count = count
  }

  /** Returns true if `take` would succeed. */
  hasRoom(sender: string, part?: string): boolean {
    const left = this.#count - this.#taken - this.#of(sender)
    return part === undefined ? left > 0 : this.#of(nameOf(sender, part)) < left
  }

  /**
   * Takes a slot. Returns a function that frees it again, or `undefined` if the sender has used up its share.
   * @param part - splits the sender's share among its parts by the same rule: a part without a slot finds a free one.
   */
  take(sender: string, part?: string): (() => void) | undefined {
    if (!this.hasRoom(sender, part)) return undefined
    const holders = part === undefined ? [sender] : [sender, nameOf(sender, part)]
    for (const holder of holders) this.#held.set(holder, this.#of(holder) + 1)
    this.#taken += 1
    return () => this.#free(holders)
  }

  #of(holder: string): number {
    return this.#held.get(holder) ?? 0
  }

  #free(holders: string[]): void {
    this.#taken -= 1
    for (const holder of holders) {
      const held = this.#of(holder) - 1
      if (held > 0) this.#held.set(holder, held)
      else this.#held.delete(holder)
    }
  }
}

/** Joins the two names with a space, which no agent name contains. */
function nameOf(sender: string, part: string): string {
  return `${sender} ${part}`
}
