const MAX_CANCELS = 10_000

/** Early cancels of one originator's passes, oldest first. */
interface Own {
  newest: number
  times: Map<string, number>
}

/**
 * Cancels of passes that have not begun, as far as the fold knows: a first step that comes later must find its cancel.
 * They hold for one id window, after which no first step counts (rule 5). Bounded in number for each originator, so that
 * nobody's made-up ids push out another's.
 */
export class PendingCancels {
  readonly #byOriginator = new Map<string, Own>()
  readonly #window_ms: number

  constructor(window_ms: number) {
    this.#window_ms = window_ms
  }

  /** Whether a cancel of this pass holds at that time. */
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

  /** Originators stand in the order of their newest cancel. */
  #dropOld(time: number): void {
    for (const [originator, { newest }] of this.#byOriginator) {
      if (time - newest <= this.#window_ms) return
      this.#byOriginator.delete(originator)
    }
  }
}

/** A pass is named `originator/subagent/id`. */
function originatorOf(text: string): string {
  return text.slice(0, text.indexOf('/'))
}
