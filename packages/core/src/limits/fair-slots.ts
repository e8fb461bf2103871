/**
 * Places that several senders share. A sender takes another place only while it holds fewer than are free, so one sender alone gets half
 * of them, k busy senders get `count / (k + 1)` each, and a sender that holds none finds one however many messages others have stored.
 */
export class FairSlots {
  readonly #count: number
  readonly #held = new Map<string, number>()
  #taken = 0

  constructor(count: number) {
    this.#count = count
  }

  /** Whether `take` would give a place. */
  hasRoom(sender: string, part?: string): boolean {
    const left = this.#count - this.#taken - this.#of(sender)
    return part === undefined ? left > 0 : this.#of(nameOf(sender, part)) < left
  }

  /**
   * Returns a function that frees the place again; undefined: the sender has its share.
   * @param part - shares what the sender may take with its other parts by the same rule: a part that holds none finds a place.
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

/** No name of an agent has a space. */
function nameOf(sender: string, part: string): string {
  return `${sender} ${part}`
}
