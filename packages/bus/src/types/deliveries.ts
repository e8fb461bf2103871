import type { Slot } from '@passover/schemas'
import type { StoredMessage } from '../wire/messages.js'

/** A delivery that must be answered. */
export interface Delivery extends StoredMessage {
  /** 1 for the first delivery. */
  delivered: number
  /** Sequence of the delivery at its consumer; going back means that the consumer was made anew. */
  consumer_sequence: number
  /** Messages of the consumer that were not delivered yet, where the server says so. */
  pending?: number
  ack(): void
  /** Renews the lease. */
  working(): void
  /** Gives it back for redelivery. */
  nak(delay_ms?: number): void
  /** Never deliver again. */
  term(reason?: string): void
}

/** What became of a delivery: acknowledged, given back, or terminated and told. */
export type AckDecision = { ok: true } | { retry: true; delay_ms?: number } | { fatal: string }

export interface Consumption extends AsyncDisposable {
  /** Why nothing is delivered now; undefined: nothing is known to be wrong. */
  readonly trouble?: string | undefined
  /** Stops new deliveries, waits for those under way (at most ms), then closes. */
  drain(ms?: number): Promise<void>
  readonly closed: Promise<void>
}

export interface ConsumeSettings {
  /** Handlers at a time; a function is asked whenever more could be taken. */
  concurrency?: number | (() => number)
  /** The durable was gone and was made anew. */
  onRestored?: (what: string) => void
}

export interface PullOptions {
  batch: number
  /** 0: do not wait, answer at once whether there is something. */
  expires_ms: number
}

/** Why a pull ended: all came, nothing (more) there, consumer gone, connection trouble. */
export type PullEnd = 'full' | 'empty' | 'gone' | 'failed'

/** One of a subagent's three work consumers. Disposing it ends its pulls at once: nothing more is handed out for them. */
export interface WorkSource extends AsyncDisposable {
  readonly slot: Slot
  pull(options: PullOptions, onDelivery: (delivery: Delivery) => void): Promise<PullEnd>
  /** Server's time at which the consumer was made; asks the server. Undefined: it does not exist. */
  created(): Promise<number | undefined>
}
