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

/**
 * Polls the stream for deleted messages, because afterwards no reader can tell when they were deleted. Polls every second at first, and at most every
 * 5 s as the answers take longer.
 */
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
      // Polls less often as the list of deleted messages grows.
      await pause(Math.min(POLL_INTERVAL_MS + (performance.now() - began) * PAUSE_FACTOR, MAX_PAUSE_MS), over)
    }
  }

  /** Polls once. If the server does not answer, the next poll is tried instead. */
  async look(): Promise<void> {
    const info = await this.#manager.streams.info(STREAM, { deleted_details: true }).catch(() => undefined)
    if (!info) return
    const at = Date.parse((info as unknown as { ts: string }).ts)
    const { first_seq, last_seq, deleted = [] } = info.state as State
    const sequences = deleted.filter((sequence) => !this.#gone.has(sequence))
    for (let sequence = this.#below; sequence < first_seq; sequence += 1) if (!this.#gone.has(sequence)) sequences.push(sequence)
    for (const sequence of sequences) this.#gone.add(sequence)
    this.#below = Math.max(this.#below, first_seq)
    // Both values come from one answer. Everything up to this sequence was stored when the deletions were not visible yet, even if the answering
    // server lags behind.
    if (sequences.length > 0) this.#looks.push({ last: this.#last, at, sequences })
    this.#last = last_seq
  }

  /** Polls until a message was deleted, if a deletion is expected, or until time is up. */
  async untilDeleted(deadline_ms: number): Promise<void> {
    const until = performance.now() + deadline_ms
    while (this.#last >= PER_SEGMENT && this.#gone.size === 0 && performance.now() < until) {
      await pause(POLL_INTERVAL_MS)
      await this.look()
    }
  }

  /**
   * Returns the final deletions. Messages that only a damaged replica lacked are not counted. `last` is 0 if it is not known when they were still
   * there.
   */
  removals(damaged: readonly Trouble[], isHere: (sequence: number) => boolean): Removal[] {
    return this.#looks.flatMap(({ last, at, sequences }) => {
      const gone = sequences.filter((sequence) => !isHere(sequence))
      // A poll while a replica was damaged cannot tell how long the messages had been gone.
      const blind = damaged.find(({ from, to }) => at >= from && at <= to)
      return gone.length === 0 ? [] : [{ last: blind ? 0 : last, at, sequences: gone }]
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#nc.close()
  }
}
