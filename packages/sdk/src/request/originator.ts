import type { ParentProof, WorkContext } from '@passover/schemas'
import type { ReturnEvents } from '../delivery/return-events.js'
import type { IdWindow } from '../journal/id-window.js'
import type { ReturnWaiter } from '../returns/return-waiter.js'
import type { Deps } from '../runtime/dependencies.js'
import type { TraceHistory } from './tracing.js'

/** The pass within which another one is asked for: that whose handler calls. */
export interface EnclosingPass {
  /** The agent that works on it. */
  readonly agent: { readonly name: string }
  /** What a child says about its parent. */
  readonly parent: ParentProof
  /** What a child's trace continues. */
  traceparent(): string | undefined
  /** The parent's, for what a child's context leaves out. */
  context(): Pick<WorkContext, 'session_id' | 'directory'>
}

/** What passing over needs of its agent. */
export interface Originator {
  deps: Deps
  name: string
  instance: string
  returns: ReturnWaiter
  traces: TraceHistory
  /** Who is told of returns: then they are waited for, whether a caller does or not. */
  notices?: Pick<ReturnEvents, 'listening'> | undefined
  /** Undefined: the caller named none. */
  session_id: string | undefined
  directory: string
  window: IdWindow
}
