import type { PassPlan } from '../plans/plan.js'
import type { Simulation } from '../simulation.js'
import { EPOCH } from '../world.js'
import type { Checks } from './checks.js'
import type { Book } from './pass-book.js'

/** How much later than its due time something may end while nothing goes wrong. */
export const BOUND_MS = 2_000
/** How long after the last fault of the dispatchers or the server all is as it should be: the longest that a step is tried is 15 s. */
export const RECOVERY_MS = 20_000
const NEVER = Number.POSITIVE_INFINITY

/** What must happen in time, looked at after every step: whatever is stored, and whatever was to be stored by then. */
export class Timely {
  readonly #simulation: Simulation
  readonly #checks: Checks
  /** Server time at which something that is still to happen is too late. */
  #next = 0
  readonly #blamed = new Set<string>()
  readonly #budgets: PassPlan[]

  constructor(simulation: Simulation) {
    this.#simulation = simulation
    this.#checks = simulation.checks
    this.#budgets = simulation.plan.passes.filter(({ budget }) => budget !== undefined)
  }

  /** Something was stored, or the weather changed. */
  touch(): void {
    this.#next = 0
  }

  look(): void {
    const { now } = this.#simulation.world
    if (now < this.#next) return
    this.#next = NEVER
    for (const book of this.#checks.books.values()) {
      this.#judgeBegin(book)
      this.#judgeEnd(book)
      this.#judgeChild(book)
    }
    this.#judgeBudgets()
  }

  /**
   * What is due while dispatchers and server are in trouble need not be in time; whatever happens to workers and callers is no excuse.
   */
  #due(time: number): number {
    return Math.max(time, EPOCH + this.#simulation.troubled_until + RECOVERY_MS) + BOUND_MS
  }

  /** Whether it happened too late, or did not happen and should have; `at` undefined: not yet. */
  #isLate(at: number | undefined, time: number): boolean {
    const must = this.#due(time)
    if (at !== undefined) return at > must
    if (this.#simulation.world.now > must) return true
    this.#next = Math.min(this.#next, must + 1)
    return false
  }

  #blame(promise: 'P2' | 'P5', kind: string, { key, text }: { key: string; text: string }): void {
    const name = `${kind} ${key}`
    if (this.#blamed.has(name)) return
    this.#blamed.add(name)
    this.#checks.blame(promise, kind, text)
  }

  /** A request that nobody admits in its time is answered then, and nothing begins later. */
  #judgeBegin(book: Book): void {
    const { key, answers } = book
    // One that was refused under a name of its own asks for nothing any more.
    const first = book.requests.find((sequence) => !this.#checks.isAnsweredApart(book, sequence))
    const timeout_ms = this.#simulation.timeoutOf(key)
    if (first === undefined || timeout_ms === undefined) return
    const none = book.state === 'none'
    // Whoever asks again under an id of its own may do so when its pass is long forgotten.
    if (!none && !answers) return
    const time = this.#checks.timeOf(none ? first : (answers ?? 0)) + timeout_ms
    if (!this.#isLate(none ? undefined : book.begun_at, time)) return
    if (none) this.#blame('P2', 'unanswered', { key, text: `${key} was asked for and never begun` })
    else this.#blame('P2', 'begun_late', { key, text: `${key} is begun ${book.begun_at - time} ms after it should have been refused` })
  }

  #judgeEnd(book: Book): void {
    const { key, state, deadline, cancelled_at } = book
    if (state === 'none') return
    const ended = book.ended?.kept.time
    if (this.#isLate(ended, deadline)) this.#blame('P2', 'overdue', { key, text: `${key} (${state}) is not over at its deadline` })
    // One that came long before the request is forgotten, as an id is.
    const holds = cancelled_at !== undefined && book.begun_at - cancelled_at <= this.#simulation.plan.id_window_ms
    if (holds && this.#isLate(ended, Math.max(cancelled_at, book.begun_at)))
      this.#blame('P5', 'uncancelled', { key, text: `${key} was cancelled and is ${state}` })
  }

  /** A child lives only while its parent is open in the attempt that its proof names. */
  #judgeChild(book: Book): void {
    const { key } = book
    const parent = book.parent === undefined ? undefined : this.#checks.books.get(book.parent)
    if (!parent || (book.work === 0 && !book.held)) return
    const lost = parent.fences.find(({ sequence }) => sequence > (book.proof ?? 0))?.time ?? parent.ended?.kept.time
    if (lost === undefined) return
    if (this.#isLate(book.ended?.kept.time, Math.max(lost, book.begun_at)))
      this.#blame('P5', 'outlives', { key, text: `${key} outlives ${parent.key}` })
  }

  /** A budget counts the passes below the one that has it. */
  #judgeBudgets(): void {
    const { books } = this.#checks
    for (const pass of this.#budgets) {
      for (const key of this.#checks.keysOf(pass.name)) {
        const below = [...books.values()].filter((book) => book.work > 0 && book.key !== key && isBelow(books, book, key))
        if (below.length > (pass.budget ?? 0))
          this.#blame('P5', 'over_budget', { key, text: `${below.length} passes below ${key}, which has ${pass.budget}` })
      }
    }
  }
}

function isBelow(books: ReadonlyMap<string, Book>, book: Book, key: string): boolean {
  for (let one: Book | undefined = book; one?.parent !== undefined; one = books.get(one.parent)) if (one.parent === key) return true
  return false
}
