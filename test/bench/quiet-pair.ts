import type { Agent } from '@passover/sdk'

/** One pass of the quiet pair begins every so often, whatever became of those before: one that takes long hides none that came after it. */
const EVERY_MS = 20
/** What was compiled once is faster. */
const WARM = 1_500

export interface Figures {
  p50: number
  p99: number
  most: number
  passes: number
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
    const times: number[] = []
    const under: Promise<void>[] = []
    const since = performance.now()
    for (let n = 0; more(n); n += 1) {
      await new Promise((next) => setTimeout(next, since + n * EVERY_MS - performance.now()))
      const begun = performance.now()
      under.push(this.#pass().then(() => void times.push(performance.now() - begun)))
    }
    await Promise.all(under)
    times.sort((a, b) => a - b)
    const at = (share: number) => times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? Number.NaN
    return { p50: at(0.5), p99: at(0.99), most: at(1), passes: times.length }
  }

  #pass(): Promise<unknown> {
    const context = { objective: JSON.stringify({ ms: 0 }) }
    return this.#agent.passOver({ subagent: this.#to, reason: 'quiet', timeout_ms: this.#timeout_ms, work_context: context })
  }
}
