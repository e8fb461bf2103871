import type { PassKey } from '@passover/schemas'
import type { StoredMessage } from '../wire/messages.js'

export interface FollowOptions {
  /** Subject filters; all when left out. */
  filters?: string[]
  /** First sequence wanted (default 1). */
  from?: number
  headers_only?: boolean
  /** While much is stored it is read some 20 ms late, many messages at a time: cheaper for the server and for the reader. */
  in_gulps?: boolean
  /** The stream is another one, or lost its end: its last sequence is below the position, which is now there. */
  onWentBack?: (last: number) => void
}

/**
 * An ordered reader: every stored message once, in order, also across reconnects.
 * A handler that throws is called again with the same message after a second: nothing is skipped.
 */
export interface StreamSubscription extends AsyncDisposable {
  /** Sequence of the last message handed on (0: none). */
  readonly position: number
  /** Why nothing is read now; undefined: nothing is known to be wrong. */
  readonly trouble?: string | undefined
  /** Settles when everything that was stored when it began has been handed on (also if that is nothing, or deleted since). */
  readonly caughtUp: Promise<void>
  readonly closed: Promise<void>
}

/** A return as the stream republished it, its server headers checked. */
export interface ReceivedReturn {
  key: PassKey
  by: string
  stored: StoredMessage
}

export interface SubscribeOptions {
  /** Something came under a return's subject that the stream did not republish: the journal should be read. */
  onSuspect?: ((key: PassKey) => void) | undefined
  /** Answers other processes of the same name: whether this return is waited for, or being handed over, here. */
  isWaited?: ((key: PassKey, returned: number) => boolean) | undefined
}

/** `nobody`: no process hears that pass's return. `silent`: one does, and did not answer. */
export type WaitedFor = 'waited' | 'not_waited' | 'nobody' | 'silent'

export interface LiveSubscription extends AsyncDisposable {
  readonly closed: boolean
}
