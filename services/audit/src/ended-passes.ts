import { counter, Distribution, type MetricFamily } from '@passover/bus'
import type { PassRow } from '@passover/schemas'

/** Upper bounds in seconds: from a pass that only echoes to one that a person let wait. */
const BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800, 3_600]

/** Passes that this process saw end, for `/metrics`. Labels are states and error codes, of which there are few; never names. */
export class EndedPasses {
  readonly #took = new Distribution(BOUNDS)
  readonly #counts = new Map<string, Map<string, number>>()

  note({
    status,
    code,
    output_status,
    created_at,
    ended_at,
  }: Pick<PassRow, 'status' | 'code' | 'output_status' | 'created_at' | 'ended_at'>): void {
    const how = code ?? output_status ?? ''
    let counts = this.#counts.get(status)
    if (!counts) {
      counts = new Map()
      this.#counts.set(status, counts)
    }
    counts.set(how, (counts.get(how) ?? 0) + 1)
    if (ended_at !== undefined) this.#took.observe(Math.max(0, ended_at - created_at) / 1_000)
  }

  families(): MetricFamily[] {
    const samples = [...this.#counts].flatMap(([status, counts]) => [...counts].map(([how, value]) => ({ labels: { status, how }, value })))
    return [
      counter('passover_passes_ended_total', 'Passes seen to end, by state, and by the status of the output or the error code', samples),
      this.#took.family('passover_pass_duration_seconds', 'From the request to the return, as the server stored them'),
    ]
  }
}
