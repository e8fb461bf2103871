import type { Agent } from '@passover/sdk'
import type { Timed } from '../measure/slow-calls.js'

/** One pass of the quiet pair begins every so often, whatever became of those before: one that takes long hides none that came after it. */
const EVERY_MS = 20
/** What was compiled once is faster. */
const WARM = 1_500

export interface Figures {
  p50: number
  p99: number
  most: number
  /** The slowest first. */
  passes: Timed[]
}

export function figuresOf(passes: readonly Timed[]): Figures {
  const slowest = passes.toSorted((a, b) => b.ms - a.ms)
  const at = (share: number) => slowest[Math.floor((slowest.length - 1) * (1 - share))]?.ms ?? Number.NaN
  return { p50: at(0.5), p99: at(0.99), most: at(1), passes: slowest }
}

/** The pair whose passes are measured: nothing is to be done in them. */
export class QuietPair {
  readonly #agent: Agent
  readonly #to: string
  readonly #timeout_ms: number

  constructor(agent: Agent, { to, timeout_ms }: { to: string; timeout_ms: number }) {
    this.#agent = agent
    this.#to = to
    this.#timeout_ms = timeout_ms
  }

  async warm(): Promise<void> {
    for (let n = 0; n < WARM; n += 1) await this.#pass()
  }

  async measure(more: (begun: number) => boolean): Promise<Figures> {
    const passes: Timed[] = []
    const under: Promise<void>[] = []
    const since = performance.now()
    for (let n = 0; more(n); n += 1) {
      await new Promise((next) => setTimeout(next, since + n * EVERY_MS - performance.now()))
      under.push(this.#timed().then((timed) => void passes.push(timed)))
    }
    await Promise.all(under)
    return figuresOf(passes)
  }

  async #timed(): Promise<Timed> {
    const begun = performance.now()
    const handle = this.#pass()
    await handle
    return { id: handle.id, begun: performance.timeOrigin + begun, ms: performance.now() - begun }
  }

  #pass() {
    const context = { objective: JSON.stringify({ ms: 0 }) }
    return this.#agent.passOver({ subagent: this.#to, reason: 'quiet', timeout_ms: this.#timeout_ms, work_context: context })
  }
}
