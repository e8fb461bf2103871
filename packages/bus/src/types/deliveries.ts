import type { Priority } from '@passover/schemas'
import type { StoredMessage } from '../wire/messages.js'

/** A delivery that must be answered. */
export interface Delivery extends StoredMessage {
  /** Delivery count, 1 for the first delivery. */
  delivered: number
  /** Sequence of the delivery at its consumer. A lower one than before means that the consumer was re-created. */
  consumer_sequence: number
  /** Number of the consumer's messages not yet delivered, if the server reports it. */
  pending?: number
  ack(): void
  /** Renews the lease. */
  working(): void
  /** Negatively acknowledges: requests redelivery. */
  nak(delay_ms?: number): void
  /** Terminates the delivery: it is never redelivered. */
  term(reason?: string): void
}

/** Outcome of a delivery: acknowledged, to be redelivered, or terminated with a reason. */
export type AckDecision = { ok: true } | { retry: true; delay_ms?: number } | { fatal: string }

export interface Consumption extends AsyncDisposable {
  /** Reason why nothing is delivered now, or `undefined` if no problem is known. */
  readonly trouble?: string | undefined
  /** Stops new deliveries, waits at most `ms` for those in progress, then closes. */
  drain(ms?: number): Promise<void>
  readonly closed: Promise<void>
}

export interface ConsumeSettings {
  /** Maximum number of concurrent handlers. A function is called again whenever more could be started. */
  concurrency?: number | (() => number)
  /** Called after the durable consumer was lost and re-created. The stream itself is not affected. */
  onRestored?: (what: string) => void
}

export interface PullOptions {
  batch: number
  /** Milliseconds to wait for messages; 0 answers at once. */
  expires_ms: number
}

/** Reason why a pull ended: all messages came, no (more) messages, consumer gone, connection trouble. */
export type PullEnd = 'full' | 'empty' | 'gone' | 'failed'

/** One of a subagent's three work consumers. Disposing it ends its pulls at once: nothing more is delivered for them. */
export interface WorkSource extends AsyncDisposable {
  readonly priority: Priority
  pull(options: PullOptions, onDelivery: (delivery: Delivery) => void): Promise<PullEnd>
  /** Queries the server time at which the consumer was created. `undefined` if it does not exist. */
  created(): Promise<number | undefined>
}
