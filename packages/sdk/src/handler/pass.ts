import { PassOverError } from '@passover/core'
import type { Budget, HandlerResult, ParentProof, PassKey, Priority, Rights, WorkContext } from '@passover/schemas'
import type { PassOverOptions } from '../request/options.js'
import type { PassHandle } from '../request/pass-handle.js'

/** The pass that a handler works on. Times are in milliseconds, by the server's clock. */
export interface Pass {
  /** The id of the pass. */
  readonly id: string
  /** The agent that requested the pass. */
  readonly originator: string
  /** The agent that does the work. */
  readonly subagent: string
  /** Originator, subagent and id, which together identify the pass. */
  readonly key: PassKey
  /** Reason for the pass, for people. */
  readonly reason: string
  /** The task to do. */
  readonly objective: string
  /** The complete context. It is decoded at the first read. */
  readonly context: WorkContext
  /** Queue in which the pass waited. */
  readonly priority: Priority
  /** Number of the attempt, starting at 1. A later attempt follows a lost worker. */
  readonly attempt: number
  /** Permissions of the pass, including its constraints. */
  readonly rights: Rights
  /**
   * Limits of one run: `max_compute_time_ms` of the handler (milliseconds) and `max_memory_mb` (MiB). Only a worker that
   * can limit its program, such as `passover work`, enforces the memory limit. An absent field means no limit.
   */
  readonly limits: { readonly max_compute_time_ms?: number | undefined; readonly max_memory_mb?: number | undefined }
  /** Kind of output that the originator wants. Passover does not check the output against it. */
  readonly expected_output_type: string | undefined
  /** Limits of this pass and all of its descendants. */
  readonly budget: Budget | undefined
  /** The session that the work belongs to. */
  readonly session_id: string
  /** Number of passes in the chain, including this one. */
  readonly chain_depth: number
  /** The agents higher up in the chain, root first. */
  readonly ancestors: readonly string[]
  /** Proof for a program that requests child passes of this pass outside of the handler. `passover work` provides it to its command. */
  readonly parent: ParentProof
  /** W3C traceparent of this run, for calls to other systems. `undefined` if the pass is not traced. */
  readonly traceparent: string | undefined
  /** Time from admission to the deadline, in milliseconds. */
  readonly timeout_ms: number
  /** Time at which the pass ends with E010, in milliseconds since 1970. */
  readonly deadline: number
  /** Signal that is aborted when the handler must stop for any reason. Its `reason` is a PassOverError with the cause. */
  readonly signal: AbortSignal
  /**
   * Reports progress. Sends at most two reports per second. If the handler reports more often, only the latest report is sent.
   *
   * @param message - The current activity, for people.
   * @param fraction - The fraction of the work that is done, from 0 to 1.
   */
  progress(message: string, fraction?: number): void
  /**
   * Checks whether the rights of the pass allow a tool.
   *
   * @param tool - The name of the tool.
   * @returns True if the handler may run the tool.
   */
  may(tool: string): boolean
  /**
   * Throws unless the rights of the pass allow a tool.
   *
   * @param tool - The name of the tool.
   * @throws PassOverError with code E013: the rights do not allow the tool. If the handler does not catch the error, the pass ends with it.
   */
  requireTool(tool: string): void
  /**
   * Requests a child of this pass, like `passOver()` inside the handler.
   *
   * @param options - As for `Agent.passOver`.
   * @returns A handle. Errors reject it, with the codes of `Agent.passOver`.
   */
  passOver(options: PassOverOptions): PassHandle
  /**
   * Publishes the return of the pass before the handler ends.
   *
   * @param output - Text, or the fields of the output.
   * @returns A promise that settles when the return is stored.
   * @throws PassOverError with code E013: the pass already has a return or has ended, so this return does not count. E021: the output is not valid;
   * nothing was sent. E040: the server did not store the return in time.
   */
  return(output: HandlerResult): Promise<void>
}

/**
 * Does the work of one pass. If it throws, the pass ends with E011 and the message of the error, and the originator may retry. Passover starts another
 * attempt or creates a dead letter only if a worker is lost.
 *
 * @param pass - The pass to work on.
 * @returns The output: text, the fields of the output, or nothing if it called `pass.return`.
 */
// biome-ignore lint/suspicious/noConfusingVoidType: a handler without a return statement is one, if it called `return`.
export type Handler = (pass: Pass) => Promise<HandlerResult | void> | HandlerResult | void

/**
 * Error that a handler throws to end its pass with this code and message. A handler may use these codes: E010, E011, E014, E021, and E013 for a right
 * (`details.field`) that its run violated. Every other error that a handler throws becomes E011, including the error of a child pass.
 *
 * @example
 * ```ts
 * throw new WorkError('E014', 'the disk of this worker is full')
 * ```
 */
export class WorkError extends PassOverError {}
