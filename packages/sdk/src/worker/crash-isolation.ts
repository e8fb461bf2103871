import type { Clock } from '@passover/core'
import type { SuspectRank } from '../attempt/begin-attempt.js'

/** Milliseconds for which passes that lost an attempt may block all others. There are many such passes after the crash of a worker that had many. */
const LOST_ATTEMPT_MS = 10_000
/** The same limit if the attempt is the last one: another crash would end the pass. */
const LAST_ATTEMPT_MS = 60_000
/**
 * Isolation starts only if at least this many milliseconds of it are available. Used time is regained at the rate at which time passes without
 * isolation.
 */
const MIN_ISOLATION_MS = 1_000
/** Milliseconds for which an isolated pass waits until running passes finish. */
const DRAIN_TIMEOUT_MS = 10_000

/** A worker that takes part in the isolation. Several workers may share a process. */
export interface IsolatedWorker {
  /** Called when all passes may begin again. */
  opened: () => void
  /** Returns true if the worker runs the pass (a keyText). */
  runs: (pass: string) => boolean
}

interface SuspectEntry {
  /** Stage of the delivery. `reading`: it is not known yet whether an attempt will begin. */
  stage: 'reading' | 'waiting' | 'alone' | 'beside'
  rank?: SuspectRank
  /** Time at which it begins in any case, in monotonic ms. */
  due?: number
  admit?: (admitted: boolean) => void
}

/** A delivery of a pass that may have crashed the process it ran in before. */
export interface Suspect {
  /** Resolves to true when the attempt may begin, and to false if the delivery was ended before. */
  turn(rank: SuspectRank): Promise<boolean>
  /** Releases the isolation for this delivery. Idempotent. */
  end(): void
}

/**
 * Isolates passes that lost an attempt from all others in the process (decision 142). It is unknown which of the passes of a crashed process caused
 * the crash. So each of them runs alone at first, and only the one that crashes again loses another attempt.
 *
 * The total isolation time is limited. It is regained while all passes may begin.
 */
export class CrashIsolation {
  readonly #clock: Pick<Clock, 'monotonic' | 'after'>
  readonly #suspects = new Set<SuspectEntry>()
  readonly #workers = new Set<IsolatedWorker>()
  /** Number of passes that run concurrently, without isolation. */
  #beside = 0
  /** Milliseconds of isolation used, as of `#since`. */
  #used = 0
  #since: number
  #closed = false
  /** The next suspect to run alone, and the time since which it waits only for passes that are not suspects. */
  #next: { entry: SuspectEntry; since: number } | undefined
  #timer: Disposable | undefined

  constructor(clock: Pick<Clock, 'monotonic' | 'after'>) {
    this.#clock = clock
    this.#since = clock.monotonic()
  }

  /** True while no pass may begin on its first delivery. */
  get closed(): boolean {
    return this.#closed
  }

  /** Adds a worker. Returns a function that removes it. */
  join(worker: IsolatedWorker): () => void {
    this.#workers.add(worker)
    return () => void this.#workers.delete(worker)
  }

  /** Returns true if the pass runs in this process. Its children may begin despite the isolation, because it waits for them. */
  runs(pass: string): boolean {
    return [...this.#workers].some((worker) => worker.runs(pass))
  }

  /** Records that a pass begins that is not a suspect. */
  begin(): void {
    this.#beside += 1
  }

  /** Records that such a pass has ended. */
  end(): void {
    this.#beside -= 1
    if (this.#suspects.size > 0) this.#update()
  }

  /**
   * Registers a delivery of a pass that may have crashed the process it ran in before. Until it is released no other pass begins, for a limited time.
   */
  suspect(): Suspect {
    const entry: SuspectEntry = { stage: 'reading' }
    this.#suspects.add(entry)
    this.#update()
    return {
      turn: (rank) =>
        new Promise((admit) => {
          if (!this.#suspects.has(entry)) return admit(false)
          Object.assign(entry, { stage: 'waiting', rank, admit, due: this.#clock.monotonic() + rank.max_wait_ms })
          this.#update()
        }),
      end: () => {
        if (!this.#suspects.delete(entry)) return
        if (entry.stage === 'beside') this.#beside -= 1
        if (entry.stage === 'waiting') entry.admit?.(false)
        this.#update()
      },
    }
  }

  #update(): void {
    this.#updateLock()
    this.#admit()
    this.#wakeInTime()
  }

  #updateLock(): void {
    const left = this.#remainingMs()
    const held = [...this.#suspects].some(({ stage }) => stage !== 'beside')
    if (this.#closed && (!held || left <= 0)) this.#open()
    else if (!this.#closed && held && left >= MIN_ISOLATION_MS) this.#closed = true
  }

  #open(): void {
    this.#closed = false
    for (const worker of [...this.#workers]) worker.opened()
  }

  #admit(): void {
    const now = this.#clock.monotonic()
    const waiting = [...this.#suspects].filter(({ stage }) => stage === 'waiting').sort(byRank)
    for (const entry of waiting) if ((!this.#closed && !entry.rank?.last) || now >= (entry.due ?? 0)) this.#start(entry, 'beside')
    const entry = this.#isAloneTaken() ? undefined : waiting.find(({ stage }) => stage === 'waiting')
    if (entry !== this.#next?.entry) this.#next = entry && { entry, since: now }
    if (!this.#next) return
    // If the isolation time is used up, a pass on its last attempt may run at the same time as others, but not with another pass on its last attempt.
    if (this.#beside > 0 && this.#closed && now < this.#next.since + DRAIN_TIMEOUT_MS) return
    this.#start(this.#next.entry, 'alone')
    this.#next = undefined
  }

  #isAloneTaken(): boolean {
    return [...this.#suspects].some(({ stage }) => stage === 'alone')
  }

  #start(entry: SuspectEntry, stage: 'alone' | 'beside'): void {
    entry.stage = stage
    if (stage === 'beside') this.#beside += 1
    entry.admit?.(true)
  }

  /** Returns the remaining isolation time in milliseconds, after updating the time that was used. */
  #remainingMs(): number {
    const now = this.#clock.monotonic()
    const passed = now - this.#since
    this.#since = now
    this.#used = Math.max(0, this.#used + (this.#closed ? passed : -passed))
    const last = [...this.#suspects].some(({ stage, rank }) => stage !== 'beside' && rank?.last)
    return (last ? LAST_ATTEMPT_MS : LOST_ATTEMPT_MS) - this.#used
  }

  #wakeInTime(): void {
    this.#timer?.[Symbol.dispose]()
    this.#timer = undefined
    const now = this.#clock.monotonic()
    const times = [...this.#suspects].flatMap(({ stage, due }) => (stage === 'waiting' && due !== undefined ? [due - now] : []))
    if (this.#next) times.push(this.#next.since + DRAIN_TIMEOUT_MS - now)
    if (this.#closed) times.push(this.#remainingMs())
    if (times.length > 0) this.#timer = this.#clock.after(Math.max(1, Math.min(...times)), () => this.#update())
  }
}

function byRank(a: SuspectEntry, b: SuspectEntry): number {
  return (a.rank?.attempt ?? 0) - (b.rank?.attempt ?? 0)
}
