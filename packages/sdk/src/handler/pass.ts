import { PassOverError } from '@passover/core'
import type { Budget, HandlerResult, ParentProof, PassKey, Priority, Rights, WorkContext } from '@passover/schemas'
import type { PassOverOptions } from '../request/options.js'
import type { PassHandle } from '../request/pass-handle.js'

/** One pass as its handler gets it. Times are milliseconds, by the server's clock. */
export interface Pass {
  /** The id of the pass. */
  readonly id: string
  /** The agent that passed the work over. */
  readonly originator: string
  /** The agent that works on it. */
  readonly subagent: string
  /** Originator, subagent and id, which together name the pass. */
  readonly key: PassKey
  /** Why the work was passed over, for people. */
  readonly reason: string
  /** What is to be done. */
  readonly objective: string
  /** Everything that was passed. It is put together at the first read. */
  readonly context: WorkContext
  /** The queue that the pass waited in. */
  readonly priority: Priority
  /** Number of the attempt, from 1. A later one follows a worker that was lost. */
  readonly attempt: number
  /** What this pass may do, its constraints included. */
  readonly rights: Rights
  /**
   * What one run may use: `max_compute_time_ms` of the handler (milliseconds), and `max_memory_mb` (MiB) where the program can be held to it, as under
   * `passover work`. Absent: no limit.
   */
  readonly limits: { readonly max_compute_time_ms?: number | undefined; readonly max_memory_mb?: number | undefined }
  /** The kind of output that the originator wants. It is not checked. */
  readonly expected_output_type: string | undefined
  /** Limits of this pass and of everything below it. */
  readonly budget: Budget | undefined
  /** The session that the work belongs to. */
  readonly session_id: string
  /** Number of passes in the chain, this one included. */
  readonly chain_depth: number
  /** The agents above in the chain, root first. */
  readonly ancestors: readonly string[]
  /** What proves that a new pass is a child of this one, for programs that pass over on its behalf. `passover work` gives it to its command. */
  readonly parent: ParentProof
  /** W3C traceparent of this run, for calls to other systems. `undefined` where the pass is not traced. */
  readonly traceparent: string | undefined
  /** Time from admission to the deadline, in milliseconds. */
  readonly timeout_ms: number
  /** When the pass ends with E010, in milliseconds since 1970. */
  readonly deadline: number
  /** Aborted when the pass is over for any reason. Its `reason` is a PassOverError that says which. */
  readonly signal: AbortSignal
  /**
   * Reports progress. At most two reports a second are sent; of more, the latest.
   *
   * @param message - What the work is at, for people.
   * @param fraction - How much is done, from 0 to 1.
   */
  progress(message: string, fraction?: number): void
  /**
   * Says whether the rights of the pass allow a tool.
   *
   * @param tool - The name of the tool.
   * @returns Whether the handler may run it.
   */
  may(tool: string): boolean
  /**
   * Demands that the rights of the pass allow a tool.
   *
   * @param tool - The name of the tool.
   * @throws PassOverError with code E013: they do not. Where the handler does not catch it, the pass ends with this error, which names the tool.
   */
  requireTool(tool: string): void
  /**
   * Passes work over as a child of this pass, as `passOver()` does inside the handler.
   *
   * @param options - As for `Agent.passOver`.
   * @returns A handle. Errors reject it, with the codes of `Agent.passOver`.
   */
  passOver(options: PassOverOptions): PassHandle
  /**
   * Returns now, before the handler ends.
   *
   * @param output - Text, or the fields of the output.
   * @returns A promise that settles when the return is stored.
   * @throws PassOverError with code E013: the pass was returned already, or has ended, so that this return does not count. E021: the output is not valid; nothing
   * was sent. E040: the server did not store the return in time.
   */
  return(output: HandlerResult): Promise<void>
}

/**
 * Does the work of one pass. Its result is the output: text, or the fields of the output; nothing where it called `pass.return`. An error that it throws
 * ends the pass with E011 and the message of the error. That is an answer to the originator, who may ask again; further attempts and dead letters are for
 * lost workers.
 *
 * @param pass - The pass to work on.
 * @returns The output.
 */
// biome-ignore lint/suspicious/noConfusingVoidType: a handler without a return statement is one, if it called `return`.
export type Handler = (pass: Pass) => Promise<HandlerResult | void> | HandlerResult | void

/**
 * Ends the pass with exactly this error where a handler throws it. A worker may report these codes of its own run: E010, E011, E014, E021, and E013 for a
 * right (`details.field`) that the run broke. Every other error that a handler throws becomes E011, also that of a child pass.
 */
export class WorkError extends PassOverError {}
