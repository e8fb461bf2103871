import type { PassKey } from '@passover/schemas'
import type { StoredMessage } from '../wire/messages.js'

export interface FollowOptions {
  /** Subject filters. Default: all subjects. */
  filters?: string[]
  /** First sequence to read. Default 1. */
  from?: number
  headers_only?: boolean
  /** Under load reads some 20 ms late, many messages at a time: cheaper for the server and for the reader. */
  in_gulps?: boolean
  /** Called if the stream's last sequence is below the position: it rolled back, or is another stream. The position is then that sequence. */
  onRollback?: (last: number) => void
}

/**
 * Ordered reader: delivers every stored message once, in order, also across reconnects. If the handler throws, it is called again with the same
 * message after a second, so nothing is skipped.
 */
export interface StreamSubscription extends AsyncDisposable {
  /** Sequence of the last message delivered; 0 if none. */
  readonly position: number
  /** Reason why nothing is read now, or `undefined` if no problem is known. */
  readonly trouble?: string | undefined
  /** Settles once everything stored at its start has been delivered (also if there was nothing, or it has been deleted since). */
  readonly caughtUp: Promise<void>
  readonly closed: Promise<void>
}

/** A return as republished by the stream, with its server headers verified. */
export interface ReceivedReturn {
  key: PassKey
  by: string
  stored: StoredMessage
}

export interface SubscribeOptions {
  /** Called for a message on a return's subject that the stream did not republish: the journal should be read. */
  onSuspect?: ((key: PassKey) => void) | undefined
  /** Answers other processes of the same agent: true if this process waits for the return or is handing it over. */
  isWaited?: ((key: PassKey, returned: number) => boolean) | undefined
}

/** `nobody`: no process subscribes to that pass's return. `silent`: one does, but did not answer. */
export type WaitedFor = 'waited' | 'not_waited' | 'nobody' | 'silent'

export interface LiveSubscription extends AsyncDisposable {
  readonly closed: boolean
}
