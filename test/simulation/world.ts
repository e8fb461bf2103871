import type { Timing } from '@passover/bus'
import { Dice } from './plans/dice.js'

/** Where the simulated server's clock begins, ms since 1970. */
export const EPOCH = 1_750_000_000_000

/** Something that is to happen; what is disposed of does not. */
class Event implements Disposable {
  at: number
  /** When it was to happen before its process was stopped: what waited for that happens in this order. */
  readonly due: number
  readonly order: number
  run: (() => void) | undefined
  readonly process: Process | undefined

  constructor(at: number, order: number, { run, process }: { run: () => void; process: Process | undefined }) {
    this.at = at
    this.due = at
    this.order = order
    this.run = run
    this.process = process
  }

  [Symbol.dispose](): void {
    this.run = undefined
  }
}

/** Virtual time: all that is to happen, in order. Real time does not occur in it. */
export class World {
  readonly dice: Dice
  readonly seed: number
  /** Ms since the beginning. */
  time = 0
  /** Events that happened. */
  steps = 0
  /** Called after each of them, when every promise that can go on has gone on. */
  onStep: () => void = () => undefined
  readonly #heap: Event[] = []
  #order = 0

  constructor(seed: number) {
    this.seed = seed
    this.dice = new Dice(seed, 'world')
  }

  /** The server's time. */
  get now(): number {
    return Math.floor(EPOCH + this.time)
  }

  /** Lets something happen after `ms`; what belongs to a process does not happen when it has died, and waits while it is stopped. */
  after(ms: number, run: () => void, process?: Process): Disposable {
    const event = new Event(this.time + Math.max(0, ms), this.#order++, { run, process })
    this.#push(event)
    return event
  }

  /** Lets everything happen that is due until then. Between two events every promise that can go on goes on. */
  async run(until: number): Promise<void> {
    for (let event = this.#heap[0]; event && event.at <= until; event = this.#heap[0]) {
      this.#pop()
      if (!event.run || event.process?.dead) continue
      const stopped = event.process?.stopped_until ?? 0
      if (stopped > event.at) {
        event.at = stopped
        this.#push(event)
        continue
      }
      this.time = event.at
      this.steps += 1
      event.run()
      if (event.process) await settled()
      this.onStep()
    }
    this.time = until
  }

  #push(event: Event): void {
    const heap = this.#heap
    let at = heap.length
    heap.push(event)
    while (at > 0) {
      const above = (at - 1) >> 1
      const other = heap[above] as Event
      if (!before(event, other)) break
      heap[at] = other
      at = above
    }
    heap[at] = event
  }

  #pop(): void {
    const heap = this.#heap
    const last = heap.pop()
    if (!last || heap.length === 0) return
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= heap.length) break
      if (child + 1 < heap.length && before(heap[child + 1] as Event, heap[child] as Event)) child += 1
      if (!before(heap[child] as Event, last)) break
      heap[at] = heap[child] as Event
      at = child
    }
    heap[at] = last
  }
}

function before(a: Event, b: Event): boolean {
  if (a.at !== b.at) return a.at < b.at
  return a.due < b.due || (a.due === b.due && a.order < b.order)
}

/** Every promise that can go on has gone on by then: the queue of ticks is looked at when no promise is left to go on. */
function settled(): Promise<void> {
  return new Promise((resolve) => process.nextTick(resolve))
}

/** A simulated process, from its start to its death: another start is another process. */
export class Process {
  readonly world: World
  readonly name: string
  readonly dice: Dice
  /** How far its own clock is off, ms. */
  readonly skew: number
  dead = false
  stopped_until = 0
  readonly onDeath = new Set<() => void>()
  /** Dies when it has done so many things with its connection. */
  dies_in = Number.POSITIVE_INFINITY

  /** `start`: which of its starts it is. Each has chance of its own: what two make up (nonces) must differ. */
  constructor(world: World, name: string, { skew = 0, start = 1 }: { skew?: number; start?: number } = {}) {
    this.world = world
    this.name = name
    this.skew = skew
    this.dice = new Dice(world.seed, start === 1 ? name : `${name} ${start}`)
  }

  after(ms: number, run: () => void): Disposable {
    return this.world.after(ms, run, this)
  }

  /** Between two awaits: what it waits for never comes, what it has sent may still arrive. */
  die(): void {
    if (this.dead) return
    this.dead = true
    for (const listener of this.onDeath) listener()
  }

  /** Counts what it does; it may be the last thing. */
  touch(): void {
    this.dies_in -= 1
    if (this.dies_in <= 0) this.die()
  }
}

/** What a process reads its clocks and throws its dice by, as the product asks for them. */
export function timingOf(process: Process): Timing {
  return {
    wall: () => EPOCH + process.world.time + process.skew,
    monotonic: () => process.world.time,
    after: (ms, fn) => process.after(ms, fn),
    chance: () => process.dice.next(),
  }
}
