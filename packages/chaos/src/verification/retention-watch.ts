import { type JetStreamManager, jetstreamManager } from '@nats-io/jetstream'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { PER_SEGMENT } from '../check/archive.js'
import type { Removal } from '../check/deletions.js'
import type { Trouble } from '../check/types.js'
import type { ClusterAccess } from '../cluster/access.js'
import { pause } from '../wait-for.js'

const POLL_INTERVAL_MS = 1_000
const PAUSE_FACTOR = 10
const MAX_PAUSE_MS = 5_000
const STREAM = 'PASSOVER'

interface State {
  first_seq: number
  last_seq: number
  deleted?: number[]
}

/** Looks every second what is gone from the stream: that, and when, no reader can say afterwards. */
export class RetentionWatch implements AsyncDisposable {
  readonly #looks: Removal[] = []
  readonly #gone = new Set<number>()
  readonly #nc: NatsConnection
  readonly #manager: JetStreamManager
  #below = 1
  #last = 0

  private constructor(nc: NatsConnection, manager: JetStreamManager) {
    this.#nc = nc
    this.#manager = manager
  }

  static async open(servers: string[], access: ClusterAccess): Promise<RetentionWatch> {
    const nc = await connect({ servers, name: 'retention', maxReconnectAttempts: -1, noAsyncTraces: true, ...(await access.admin()) })
    return new RetentionWatch(nc, await jetstreamManager(nc, { timeout: 3_000 }))
  }

  async watch(over: AbortSignal): Promise<void> {
    while (!over.aborted) {
      const began = performance.now()
      await this.look()
      // Who asks for ever longer lists asks less often.
      await pause(Math.min(POLL_INTERVAL_MS + (performance.now() - began) * PAUSE_FACTOR, MAX_PAUSE_MS), over)
    }
  }

  /** A server that does not answer is asked again later. */
  async look(): Promise<void> {
    const info = await this.#manager.streams.info(STREAM, { deleted_details: true }).catch(() => undefined)
    if (!info) return
    const at = Date.parse((info as unknown as { ts: string }).ts)
    const { first_seq, last_seq, deleted = [] } = info.state as State
    const sequences = deleted.filter((sequence) => !this.#gone.has(sequence))
    for (let sequence = this.#below; sequence < first_seq; sequence += 1) if (!this.#gone.has(sequence)) sequences.push(sequence)
    for (const sequence of sequences) this.#gone.add(sequence)
    this.#below = Math.max(this.#below, first_seq)
    // Both of one answer: what was stored by then was there beside what is gone now, however late a server may be that answers.
    if (sequences.length > 0) this.#looks.push({ last: this.#last, at, sequences })
    this.#last = last_seq
  }

  /** Looks on until something was deleted, where something is to be, or time is up. */
  async untilDeleted(deadline_ms: number): Promise<void> {
    const until = performance.now() + deadline_ms
    while (this.#last >= PER_SEGMENT && this.#gone.size === 0 && performance.now() < until) {
      await pause(POLL_INTERVAL_MS)
      await this.look()
    }
  }

  /** What is gone for good; what only a damaged replica did not have is no deletion. `last` 0: it is not known when it was still there. */
  removals(damaged: readonly Trouble[], isHere: (sequence: number) => boolean): Removal[] {
    return this.#looks.flatMap(({ last, at, sequences }) => {
      const gone = sequences.filter((sequence) => !isHere(sequence))
      // Who looked while a replica was damaged does not know since when.
      const blind = damaged.find(({ from, to }) => at >= from && at <= to)
      return gone.length === 0 ? [] : [{ last: blind ? 0 : last, at, sequences: gone }]
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#nc.close()
  }
}
