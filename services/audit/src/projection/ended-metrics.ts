import type { PassRow } from '@passover/schemas'
import { Counter, Histogram, Registry } from 'prom-client'

/** Upper bounds in seconds, from a pass that only echoes to one that waited for a person. */
const BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800, 3_600]

type Ended = Pick<PassRow, 'status' | 'code' | 'output_status' | 'created_at' | 'ended_at'>

/** Passes that this process saw end, for `/metrics`. Labels are states and error codes, of which there are few, never names. */
export class EndedMetrics {
  readonly registry = new Registry()
  readonly #ended: Counter<'status' | 'how'>
  readonly #took: Histogram

  constructor() {
    const registers = [this.registry]
    const ended = 'Passes that ended, by state and by status of the output or error code'
    this.#ended = new Counter({ name: 'passover_passes_ended_total', help: ended, labelNames: ['status', 'how'], registers })
    const took = 'Time from request to return, by their times in the stream'
    this.#took = new Histogram({ name: 'passover_pass_duration_seconds', help: took, buckets: BUCKETS, registers })
  }

  note({ status, code, output_status, created_at, ended_at }: Ended): void {
    this.#ended.inc({ status, how: code ?? output_status ?? '' })
    if (ended_at !== undefined) this.#took.observe(Math.max(0, ended_at - created_at) / 1_000)
  }
}
