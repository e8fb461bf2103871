/** Number of notices of one agent within a minute of stream time above which the agent floods. */
const MAX_PER_MINUTE = 60
const MINUTE_MS = 60_000
/** Maximum number of agent-minutes remembered. */
const MAX_REMEMBERED = 10_000

/**
 * Detects agents that cause more notices within a minute than a person can read. It counts by the time at which a message was stored, so that a
 * backlog from a receiver's downtime does not look like a flood.
 */
export class RateMeter {
  readonly #most: number
  readonly #kept: number
  readonly #minutes = new Map<string, Set<number>>()

  constructor(most = MAX_PER_MINUTE, kept = MAX_REMEMBERED) {
    this.#most = most
    this.#kept = kept
  }

  /** Counts a delivery; a message that is delivered again counts once. */
  note(sender: string, { sequence, time }: { sequence: number; time: number }): void {
    const minute = minuteOf(sender, time)
    const noted = this.#minutes.get(minute) ?? new Set()
    this.#minutes.delete(minute)
    this.#minutes.set(minute, noted)
    if (noted.size <= this.#most) noted.add(sequence)
    for (const oldest of this.#minutes.keys()) {
      if (this.#minutes.size <= this.#kept) break
      this.#minutes.delete(oldest)
    }
  }

  /** True if the sender exceeds the limit in the minute of this message. */
  floods(sender: string, { time }: { time: number }): boolean {
    return (this.#minutes.get(minuteOf(sender, time))?.size ?? 0) > this.#most
  }
}

function minuteOf(sender: string, time: number): string {
  return `${sender} ${Math.floor(time / MINUTE_MS)}`
}
