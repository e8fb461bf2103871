import type { Dice } from '../plans/dice.js'
import type { Process, World } from '../world.js'

/** How the network is now; a fault changes it for a while. Probabilities a message, delays in ms. */
export interface Weather {
  /** A cluster: messages may overtake one another, and get lost without a broken connection. */
  clustered: boolean
  slowest_ms: number
  loss: number
  late: number
  late_ms: number
  /** How often a replica that is read lags, and by how many changes at most (12). */
  lag: number
  lag_by?: number | undefined
  /** How long a publish takes at most before it is stored or refused. */
  store_ms?: number
}

const APART_MS = 1e-6

/** A publish that the server may have heard of. `held_up`: it is stored later than its publisher waits. */
type Fate = 'arrives' | 'lost' | 'unanswered' | 'held_up'

export type Answer<T> = { value: T } | { none: 'timeout' | 'disconnected' | 'closed' }

/** How long the bus waits for an answer. */
export const TIMEOUT_MS = 5_000
export const HELD_UP_MS = 8_000

/** A connection between a process and the server: ordered both ways, as TCP is, unless the weather is a cluster's. */
export class Line {
  readonly process: Process
  readonly weather: Weather
  readonly onReconnect = new Set<() => void>()
  readonly onDisconnect = new Set<() => void>()
  connected = true
  closed = false
  #breaks = 0
  /** What was under way when it broke arrives if it would have by then. */
  #arrived_until = 0
  #last_up = 0
  #last_down = 0
  readonly #pending = new Set<(answer: { none: 'disconnected' }) => void>()
  readonly #world: World
  readonly #dice: Dice
  readonly #tally: (what: string) => void

  constructor(process: Process, { weather, tally }: { weather: Weather; tally: (what: string) => void }) {
    this.process = process
    this.weather = weather
    this.#tally = tally
    this.#world = process.world
    this.#dice = process.dice
    process.onDeath.add(() => {
      this.closed = true
      this.cut()
    })
  }

  /** Something for the server that gets no answer. */
  up(arrive: () => void, fate = this.#fate()): void {
    if (!this.connected || this.process.dead) return
    this.process.touch()
    if (fate === 'lost') return
    const at = this.#when(fate, 'up')
    const breaks = this.#breaks
    this.#world.after(at - this.#world.time, () => {
      const came = breaks === this.#breaks || (breaks === this.#breaks - 1 && this.#world.time <= this.#arrived_until)
      if (came) arrive()
    })
  }

  /** Something for the client. Core messages are lost in a cluster; so are deliveries. */
  down(arrive: () => void, what: 'core' | 'delivery' | 'reply' | 'reader' = 'reply'): void {
    if (!this.connected || this.process.dead) return
    const fate = what === 'reader' ? 'arrives' : this.#fate()
    if (fate !== 'arrives' && what !== 'reply') return
    const at = this.#when(fate, what === 'reader' ? 'reader' : 'down')
    const breaks = this.#breaks
    this.process.after(at - this.#world.time, () => {
      if (breaks === this.#breaks) arrive()
    })
  }

  /** Asks the server. `ask` runs there; undefined: it does not answer. */
  request<T>(ask: () => T | undefined, timeout_ms: number): Promise<Answer<T>> {
    return new Promise((resolve) => this.requestThen(ask, timeout_ms, resolve))
  }

  requestThen<T>(ask: () => T | undefined, timeout_ms: number, settle: (answer: Answer<T>) => void): void {
    if (this.closed || !this.connected) {
      settle({ none: this.closed ? 'closed' : 'disconnected' })
      return
    }
    const once = (answer: Answer<T>) => {
      if (!this.#pending.delete(once)) return
      timer[Symbol.dispose]()
      this.process.touch()
      if (!this.process.dead) settle(answer)
    }
    this.#pending.add(once)
    const timer = this.process.after(timeout_ms, () => once({ none: 'timeout' }))
    const fate = this.#fate()
    if (fate === 'held_up') {
      this.#tally('held_up')
      // A publish that the cluster took and decides about later, if at all.
      this.#world.after(this.#dice.between(50, HELD_UP_MS), () => void ask())
      this.process.touch()
      return
    }
    this.up(() => {
      const value = ask()
      if (value !== undefined && fate !== 'unanswered') this.down(() => once({ value }), 'reply')
    }, fate)
  }

  /** The connection breaks; what is under way is lost, both ways. */
  cut(): void {
    if (!this.connected) return
    this.connected = false
    this.#breaks += 1
    this.#arrived_until = this.#world.time + this.#dice.between(0, this.weather.slowest_ms)
    for (const listener of [...this.onDisconnect]) listener()
    if (this.process.dead) return
    for (const settle of [...this.#pending]) this.process.after(0, () => settle({ none: 'disconnected' }))
  }

  join(): void {
    if (this.connected || this.closed) return
    this.connected = true
    this.#last_up = this.#last_down = this.#world.time
    for (const listener of [...this.onReconnect]) listener()
  }

  #fate(): Fate {
    const { loss } = this.weather
    if (!this.#dice.hits(loss)) return 'arrives'
    const fate = this.#dice.pick(['lost', 'unanswered', 'unanswered', 'held_up'] as const)
    this.#tally(fate)
    return fate
  }

  #when(fate: Fate, way: 'up' | 'down' | 'reader'): number {
    const { clustered, slowest_ms, late, late_ms } = this.weather
    const isLate = fate === 'arrives' && this.#dice.hits(late)
    if (isLate) this.#tally('delayed')
    const at = this.#world.time + this.#dice.between(0.1, isLate ? late_ms : slowest_ms)
    // Whatever is late holds up all that is behind it, unless other servers carry that.
    if (clustered && way !== 'reader') return at
    const last = way === 'up' ? this.#last_up : this.#last_down
    // Strictly later: timers are set by the time that is left, which rounding could turn around.
    const ordered = Math.max(at, last + APART_MS)
    if (way === 'up') this.#last_up = ordered
    else this.#last_down = ordered
    return ordered
  }
}
