const MAX_CANCELS = 10_000

/** Early cancels of one originator's passes, oldest first. */
interface Own {
  newest: number
  times: Map<string, number>
}

/**
 * Cancels of passes that have not begun as far as the fold knows. A first step that comes later must find its cancel. A cancel is valid for one id
 * window, after which no first step counts (rule 5). Limited in number per originator, so that cancels with made-up ids cannot displace those of
 * others.
 */
export class PendingCancels {
  readonly #byOriginator = new Map<string, Own>()
  readonly #window_ms: number

  constructor(window_ms: number) {
    this.#window_ms = window_ms
  }

  /** Returns true if a cancel of this pass is valid at that time. */
  has(text: string, time: number): boolean {
    const at = this.#byOriginator.get(originatorOf(text))?.times.get(text)
    return at !== undefined && time - at <= this.#window_ms
  }

  add(text: string, time: number): void {
    const originator = originatorOf(text)
    const own = this.#byOriginator.get(originator) ?? { newest: time, times: new Map() }
    own.newest = time
    own.times.delete(text)
    own.times.set(text, time)
    for (const [oldest, at] of own.times) {
      if (own.times.size <= MAX_CANCELS && time - at <= this.#window_ms) break
      own.times.delete(oldest)
    }
    this.#byOriginator.delete(originator)
    this.#byOriginator.set(originator, own)
    this.#dropOld(time)
  }

  delete(text: string): void {
    const originator = originatorOf(text)
    const times = this.#byOriginator.get(originator)?.times
    if (times?.delete(text) && times.size === 0) this.#byOriginator.delete(originator)
  }

  entries(): [string, number][] {
    return [...this.#byOriginator.values()].flatMap(({ times }) => [...times])
  }

  /** Removes expired originators. The map is ordered by the time of their newest cancel. */
  #dropOld(time: number): void {
    for (const [originator, { newest }] of this.#byOriginator) {
      if (time - newest <= this.#window_ms) return
      this.#byOriginator.delete(originator)
    }
  }
}

/** Returns the originator of a pass key text, `originator/subagent/id`. */
function originatorOf(text: string): string {
  return text.slice(0, text.indexOf('/'))
}
