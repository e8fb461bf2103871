import { PerAgent } from '../runtime/per-agent.js'

/** Maximum number of ids kept for all senders together, about 200 bytes each. */
const MAX_GHOSTS = 131_072

interface Ghost {
  sender: string
  /** Number of messages read about the pass. */
  heard: number
}

/**
 * Ids with stored messages but without a first step. An agent can publish events, fences and returns under ids that it never requested.
 * Messages about a known ghost need no read of the stream. The senders share the memory: when it is full, a new id evicts the oldest one of the
 * sender with the most.
 */
export class GhostPasses {
  readonly #most: number
  readonly #onGivenUp: (text: string) => void
  readonly #known = new Map<string, Ghost>()
  readonly #bySender = new PerAgent<string>()

  /** `onGivenUp` is called with each id that is evicted. */
  constructor(most = MAX_GHOSTS, onGivenUp: (text: string) => void = () => undefined) {
    this.#most = most
    this.#onGivenUp = onGivenUp
  }

  get size(): number {
    return this.#known.size
  }

  /** Adds a pass (a `keyText`) that has no first step up to the last message read. */
  add(text: string, sender: string, heard: number): void {
    this.delete(text)
    const [oldest] = this.#known.size >= this.#most ? this.#giverFor(sender) : []
    if (oldest !== undefined) {
      this.delete(oldest)
      this.#onGivenUp(oldest)
    }
    this.#known.set(text, { sender, heard })
    this.#bySender.add(sender, text)
  }

  has(text: string): boolean {
    return this.#known.has(text)
  }

  /** Counts one more message of a ghost and returns the new count, or `undefined` if the pass is not a known ghost. */
  countMessage(text: string): number | undefined {
    const ghost = this.#known.get(text)
    return ghost && ++ghost.heard
  }

  delete(text: string): void {
    const ghost = this.#known.get(text)
    if (!ghost) return
    this.#known.delete(text)
    this.#bySender.delete(ghost.sender, text)
  }

  /** Picks the ids to evict from: the sender's own if it has its share, which saves the search for the largest sender. */
  #giverFor(sender: string): ReadonlySet<string> {
    const own = this.#bySender.get(sender)
    return own.size >= this.#most / this.#bySender.agents ? own : this.#bySender.largest()
  }
}
