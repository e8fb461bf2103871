import { PassOverError } from '@passover/core'
import type { Budget, HandlerResult, ParentProof, PassKey, Priority, Rights, WorkContext } from '@passover/schemas'
import type { PassOverOptions } from '../request/options.js'
import type { PassHandle } from '../request/pass-handle.js'

/** What a handler is given: one pass, as the stored stream and the policy say. Times in server ms. */
export interface Pass {
  readonly id: string
  readonly originator: string
  readonly subagent: string
  readonly key: PassKey
  readonly reason: string
  readonly objective: string
  /** All that was passed; put together when first asked for. */
  readonly context: WorkContext
  readonly priority: Priority
  /** 1 for the first; a later one follows a worker that was lost. */
  readonly attempt: number
  /** What this pass may do, its constraints included. */
  readonly rights: Rights
  /** What its run may use: the handler's own time, and memory where its program can be held to it (`passover work` does). */
  readonly limits: { readonly max_compute_time_ms?: number | undefined; readonly max_memory_mb?: number | undefined }
  readonly expected_output_type: string | undefined
  readonly budget: Budget | undefined
  readonly session_id: string
  /** Passes in the chain, this one included, and the agents above, root first. */
  readonly chain_depth: number
  readonly ancestors: readonly string[]
  /** What a child says about this pass, for programs that pass over on its behalf (`passover work` hands it to its command). */
  readonly parent: ParentProof
  /** W3C traceparent of this run, for what it calls elsewhere; undefined: the pass is not traced. */
  readonly traceparent: string | undefined
  /** The pass's whole time, and when it is over. */
  readonly timeout_ms: number
  readonly deadline: number
  /** Aborted when the pass is over for whatever reason; `reason` is a PassOverError that says which. */
  readonly signal: AbortSignal
  /** Tells how far the work is; fraction from 0 to 1. The latest of many counts, twice a second at most. */
  progress(message: string, fraction?: number): void
  /** Whether its rights let it run this tool. */
  may(tool: string): boolean
  /** Throws unless its rights let it run this tool; let through, that ends the pass with E013, which names the tool. */
  requireTool(tool: string): void
  /** Passes on as a child of this pass; `passOver()` does so too when called inside the handler. */
  passOver(options: PassOverOptions): PassHandle
  /** Returns now, instead of by the handler's result. E021: nothing was sent; E013: already returned. */
  return(output: HandlerResult): Promise<void>
}

/**
 * Does the work. What it gives is the output: text, or the fields it knows; nothing only if it called `return`. What it throws ends the pass at
 * once (E011, with the message): that is an answer to the originator, who may ask again, and no dead letter. Attempts and dead letters are for lost workers.
 */
// biome-ignore lint/suspicious/noConfusingVoidType: a handler without a return statement is one, if it called `return`.
export type Handler = (pass: Pass) => Promise<HandlerResult | void> | HandlerResult | void

/**
 * Thrown by a handler, it ends the pass with this very error, where a worker may say it of its own run: E010, E011, E014, E021, and E013
 * for a right (`details.field`) that the run broke. Any other error that a handler throws is E011, a child pass's included.
 */
export class WorkError extends PassOverError {}
