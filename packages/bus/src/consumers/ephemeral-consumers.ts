import { nuid } from '@nats-io/transport-node'
import type { Connection } from '../connection/connection.js'
import type { JetStreamApi } from '../messaging/jetstream-api.js'

interface Wanted {
  stream: string
  filters?: string[] | undefined
  headers_only?: boolean | undefined
}

interface ConsumerCreated {
  num_pending: number
  /** Missing on a single server without a cluster. */
  cluster?: { leader?: string }
}
interface ConsumerState {
  num_pending: number
  delivered: { consumer_seq: number }
}

const INACTIVE_NS = 60_000_000_000

/** Short-lived consumers of one reader, one after the other: in memory and without acknowledgments. */
export class EphemeralConsumers {
  readonly #link: Connection
  readonly #api: JetStreamApi
  readonly #wanted: Wanted
  readonly #stale = new Set<string>()

  constructor({ link, api }: { link: Connection; api: JetStreamApi }, wanted: Wanted) {
    this.#link = link
    this.#api = api
    this.#wanted = wanted
  }

  /**
   * Creates a consumer that starts at `from`. Returns its name, its number of pending messages, and the server that serves it from its own replica.
   * Throws BusReadError if the server refuses it.
   */
  async make(from: number | 'last_per_subject'): Promise<{ name: string; pending: number; server: string | undefined }> {
    const { stream, filters, headers_only } = this.#wanted
    const name = `read_${nuid.next()}`
    const config = {
      name,
      ...(typeof from === 'number' ? { deliver_policy: 'by_start_sequence', opt_start_seq: from } : { deliver_policy: from }),
      ack_policy: 'none',
      replay_policy: 'instant',
      ...(filters && filters.length > 0 ? { filter_subjects: filters } : {}),
      ...(headers_only ? { headers_only } : {}),
      mem_storage: true,
      num_replicas: 1,
      inactive_threshold: INACTIVE_NS,
    }
    const request = { stream_name: stream, config, action: 'create' }
    const made = await this.#api.must<ConsumerCreated>(`CONSUMER.CREATE.${stream}.${name}`, request)
    return { name, pending: made.num_pending, server: made.cluster?.leader }
  }

  /** Returns the number of messages that the consumer has still to deliver, and the number that it has delivered. */
  async look(name: string): Promise<{ pending: number; delivered: number }> {
    const state = await this.#api.must<ConsumerState>(`CONSUMER.INFO.${this.#wanted.stream}.${name}`)
    return { pending: state.num_pending, delivered: state.delivered.consumer_seq }
  }

  /** Marks a consumer for deletion. */
  retire(name: string): void {
    this.#stale.add(name)
  }

  /** Deletes the marked consumers. Those that cannot be deleted now are deleted the next time, or by the server after a minute of inactivity. */
  async clear(): Promise<void> {
    for (const consumer of this.#stale) {
      if (!this.#link.connected) return
      const reply = await this.#api.raw(`CONSUMER.DELETE.${this.#wanted.stream}.${consumer}`)
      if ('message' in reply) this.#stale.delete(consumer)
    }
  }
}
