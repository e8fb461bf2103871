import { PerAgent } from '../runtime/per-agent.js'

/** Ids kept for all senders together, some 200 bytes each. */
const MAX_GHOSTS = 131_072

interface Ghost {
  sender: string
  /** Messages heard of it. */
  heard: number
}

/**
 * Passes that nothing began, though messages about them are stored: an agent can publish events, fences and returns under ids that nobody
 * asked for. A message about one of these needs no read of the stream. The memory is shared between senders: the one with the most entries
 * gives one up for a new one.
 */
export class GhostPasses {
  private readonly known = new Map<string, Ghost>()
  private readonly bySender = new PerAgent<string>()

  /** `onGivenUp`: told of an id for which there is no room any more. */
  constructor(
    private readonly most = MAX_GHOSTS,
    private readonly onGivenUp: (text: string) => void = () => undefined,
  ) {}

  get size(): number {
    return this.known.size
  }

  /** Notes that nothing began a pass (a `keyText`) up to the last message read. */
  add(text: string, sender: string, heard: number): void {
    this.delete(text)
    const [oldest] = this.known.size >= this.most ? this.giverFor(sender) : []
    if (oldest !== undefined) {
      this.delete(oldest)
      this.onGivenUp(oldest)
    }
    this.known.set(text, { sender, heard })
    this.bySender.add(sender, text)
  }

  has(text: string): boolean {
    return this.known.has(text)
  }

  /** Counts one more message of a pass that nothing began, and returns the number; undefined: it is not known to be one. */
  countMessage(text: string): number | undefined {
    const ghost = this.known.get(text)
    return ghost && ++ghost.heard
  }

  delete(text: string): void {
    const ghost = this.known.get(text)
    if (!ghost) return
    this.known.delete(text)
    this.bySender.delete(ghost.sender, text)
  }

  /** The sender that has its share gives up its own, which needs no search. */
  private giverFor(sender: string): ReadonlySet<string> {
    const own = this.bySender.get(sender)
    return own.size >= this.most / this.bySender.agents ? own : this.bySender.largest()
  }
}
