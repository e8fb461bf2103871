import type { ParentProof, WorkContext } from '@passover/schemas'
import type { ReturnEvents } from '../delivery/return-events.js'
import type { IdWindow } from '../journal/id-window.js'
import type { ReturnWaiter } from '../returns/return-waiter.js'
import type { Deps } from '../runtime/dependencies.js'
import type { TraceHistory } from './tracing.js'

/** The pass whose handler requests another pass. */
export interface EnclosingPass {
  /** The agent that works on the pass. */
  readonly agent: { readonly name: string }
  /** Proof of the parent that a child carries. */
  readonly parent: ParentProof
  /** Returns the traceparent that a child's trace continues. */
  traceparent(): string | undefined
  /** Returns the parent's session and directory, the defaults for a child's context. */
  context(): Pick<WorkContext, 'session_id' | 'directory'>
}

/** Everything that passing work over needs from its agent. */
export interface Originator {
  deps: Deps
  name: string
  instance: string
  returns: ReturnWaiter
  traces: TraceHistory
  /** Listeners for returns. While there is one, returns are awaited even if no caller awaits the handle. */
  events?: Pick<ReturnEvents, 'listening'> | undefined
  /** Session of the connection, or `undefined` if none was named. */
  session_id: string | undefined
  directory: string
  window: IdWindow
}
