import type { Clock } from '@passover/core'
import type { SuspectRank } from '../attempt/begin-attempt.js'

/** How long passes that lost one attempt may keep others from beginning. They are many where a worker was killed that had many. */
const FIRST_ISOLATION_MS = 10_000
/** The same where the attempt is the last: another crash would end the pass. */
const LAST_ATTEMPT_MS = 60_000
/** With less time left nothing is isolated: as much time as was used must pass first. */
const MIN_ISOLATION_MS = 1_000
/** What runs already is waited for no longer than this. */
const DRAIN_TIMEOUT_MS = 10_000

/** Where passes run: a worker. Several may share a process. */
export interface IsolatedWorker {
  /** Everything may begin again. */
  opened: () => void
  /** Whether it runs that pass (a keyText). */
  runs: (pass: string) => boolean
}

interface Seat {
  /** `reading`: it is not known yet whether an attempt is to begin. */
  place: 'reading' | 'waiting' | 'alone' | 'beside'
  rank?: SuspectRank
  /** Monotonic ms at which it begins in any case. */
  due?: number
  admit?: (admitted: boolean) => void
}

/** A delivery that may have ended the process that had it before. */
export interface Suspect {
  /** Settles when its attempt may begin. False: it was ended before. */
  turn(rank: SuspectRank): Promise<boolean>
  /** Frees its place. Idempotent. */
  end(): void
}

/**
 * Keeps passes that lost an attempt apart from all others, in one process (decision 142). Nobody knows which of the passes of a crashed process
 * crashed it, so each of them begins alone: only the one that did it loses another attempt.
 *
 * The time in which nothing else may begin is limited, and comes back while everything may begin.
 */
export class CrashIsolation {
  readonly #clock: Pick<Clock, 'monotonic' | 'after'>
  readonly #seats = new Set<Seat>()
  readonly #homes = new Set<IsolatedWorker>()
  /** Passes that run beside one another. */
  #beside = 0
  /** Ms of isolation used up, as of `#since`. */
  #used = 0
  #since: number
  #closed = false
  /** Which suspect is next, and since when only others that are no suspects keep it waiting. */
  #next: { seat: Seat; since: number } | undefined
  #timer: Disposable | undefined

  constructor(clock: Pick<Clock, 'monotonic' | 'after'>) {
    this.#clock = clock
    this.#since = clock.monotonic()
  }

  /** Nothing that was not delivered before may begin. */
  get closed(): boolean {
    return this.#closed
  }

  /** Returns what ends it. */
  join(home: IsolatedWorker): () => void {
    this.#homes.add(home)
    return () => void this.#homes.delete(home)
  }

  /** Whether a pass runs in this process. Its children begin whatever is isolated: it waits for them. */
  runs(pass: string): boolean {
    return [...this.#homes].some((home) => home.runs(pass))
  }

  /** A pass that is no suspect begins. */
  begin(): void {
    this.#beside += 1
  }

  /** It is over. */
  end(): void {
    this.#beside -= 1
    if (this.#seats.size > 0) this.#settle()
  }

  /** Takes a place for a delivery that may have ended the process that had it before. Until it is freed nothing else begins, for a limited time. */
  suspect(): Suspect {
    const seat: Seat = { place: 'reading' }
    this.#seats.add(seat)
    this.#settle()
    return {
      turn: (rank) =>
        new Promise((admit) => {
          if (!this.#seats.has(seat)) return admit(false)
          Object.assign(seat, { place: 'waiting', rank, admit, due: this.#clock.monotonic() + rank.patience_ms })
          this.#settle()
        }),
      end: () => {
        if (!this.#seats.delete(seat)) return
        if (seat.place === 'beside') this.#beside -= 1
        if (seat.place === 'waiting') seat.admit?.(false)
        this.#settle()
      },
    }
  }

  #settle(): void {
    this.#turnLock()
    this.#admit()
    this.#wakeInTime()
  }

  #turnLock(): void {
    const left = this.#left()
    const held = [...this.#seats].some(({ place }) => place !== 'beside')
    if (this.#closed && (!held || left <= 0)) this.#open()
    else if (!this.#closed && held && left >= MIN_ISOLATION_MS) this.#closed = true
  }

  #open(): void {
    this.#closed = false
    for (const home of [...this.#homes]) home.opened()
  }

  #admit(): void {
    const now = this.#clock.monotonic()
    const waiting = [...this.#seats].filter(({ place }) => place === 'waiting').sort(byRank)
    for (const seat of waiting) if ((!this.#closed && !seat.rank?.last) || now >= (seat.due ?? 0)) this.#let(seat, 'beside')
    const seat = this.#isAloneTaken() ? undefined : waiting.find(({ place }) => place === 'waiting')
    if (seat !== this.#next?.seat) this.#next = seat && { seat, since: now }
    if (!this.#next) return
    // Where the time is used up, what has its last attempt begins beside others, but not beside another one of its kind.
    if (this.#beside > 0 && this.#closed && now < this.#next.since + DRAIN_TIMEOUT_MS) return
    this.#let(this.#next.seat, 'alone')
    this.#next = undefined
  }

  #isAloneTaken(): boolean {
    return [...this.#seats].some(({ place }) => place === 'alone')
  }

  #let(seat: Seat, place: 'alone' | 'beside'): void {
    seat.place = place
    if (place === 'beside') this.#beside += 1
    seat.admit?.(true)
  }

  /** How long it may still be closed. Also brings what is used up to date. */
  #left(): number {
    const now = this.#clock.monotonic()
    const passed = now - this.#since
    this.#since = now
    this.#used = Math.max(0, this.#used + (this.#closed ? passed : -passed))
    const last = [...this.#seats].some(({ place, rank }) => place !== 'beside' && rank?.last)
    return (last ? LAST_ATTEMPT_MS : FIRST_ISOLATION_MS) - this.#used
  }

  #wakeInTime(): void {
    this.#timer?.[Symbol.dispose]()
    this.#timer = undefined
    const now = this.#clock.monotonic()
    const times = [...this.#seats].flatMap(({ place, due }) => (place === 'waiting' && due !== undefined ? [due - now] : []))
    if (this.#next) times.push(this.#next.since + DRAIN_TIMEOUT_MS - now)
    if (this.#closed) times.push(this.#left())
    if (times.length > 0) this.#timer = this.#clock.after(Math.max(1, Math.min(...times)), () => this.#settle())
  }
}

function byRank(a: Seat, b: Seat): number {
  return (a.rank?.attempt ?? 0) - (b.rank?.attempt ?? 0)
}
