import { PassOverError, type RetryOptions } from '@passover/core'
import type { HandlerResult, WorkOutput } from '@passover/schemas'
import type { ApplyOptions } from '../apply/apply.js'
import type { Applied } from '../apply/apply-selected.js'
import { currentScope, type HandlerAgent } from '../handler/async-context.js'
import type { Handler } from '../handler/pass.js'
import type { PassOverOptions } from '../request/options.js'
import type { Worker, WorkerOptions } from '../worker/start-worker.js'
import type { Agent } from './agent.js'
import { connect } from './connect.js'

/**
 * Functions that need no explicit connection. Inside a handler they use the handler's agent, elsewhere the agent that `PASSOVER_AGENT` names.
 */

let defaultAgent: Promise<Agent> | undefined

function currentAgent(): HandlerAgent | Promise<HandlerAgent> {
  const scope = currentScope()
  if (scope) return scope.agent
  defaultAgent ??= connect().catch((error: unknown) => {
    defaultAgent = undefined
    throw error
  })
  return defaultAgent
}

/**
 * Passes work to a subagent and waits for the return. Inside a handler, the new pass is a child of the handler's pass. Elsewhere, the agent that
 * `PASSOVER_AGENT` names requests it. The first call connects this agent. Later calls use the same connection until `disconnect` closes it.
 *
 * @param options - The work, the subagent and the settings of the pass.
 * @returns The output of the worker, with any `status`.
 * @throws PassOverError with the codes of `connect` and `Agent.passOver`.
 * @example
 * ```ts
 * const output = await passOver({ subagent: 'greeter', reason: 'politeness', work_context: { objective: 'world' }, timeout_ms: 60_000 })
 * ```
 */
export async function passOver(options: PassOverOptions): Promise<WorkOutput> {
  const agent = await currentAgent()
  return agent.passOver(options)
}

/**
 * Calls `passOver`, and retries after recoverable errors.
 *
 * @param options - As for `passOver`.
 * @param retry - `max_retries` (default 3), `retry_delay_ms` (default 1,000 ms) and `backoff_multiplier` (default 2).
 * @returns The output of the first attempt that returned one.
 * @throws PassOverError with the code of the last attempt.
 */
export async function passOverWithRetry(options: PassOverOptions, retry?: Partial<RetryOptions>): Promise<WorkOutput> {
  const agent = await currentAgent()
  return agent.passOverWithRetry(options, retry)
}

/**
 * Applies the approved file modifications of an output (docs/architecture/protocol.md#release-and-apply). Inside a handler it acts as the agent of
 * the handler's pass, elsewhere as the agent that `PASSOVER_AGENT` names.
 *
 * @param output - The output, or the id of its pass.
 * @param options - The directory, and the approved modifications to apply.
 * @returns The files that were written, and the conflicts. If there is a conflict, nothing was written.
 * @throws PassOverError with the codes of `connect` and `Agent.apply`: E013 if the policy requires an approval and no person approved.
 * @example
 * ```ts
 * const { applied, conflicts } = await apply(output, { only: [1, 3] })
 * ```
 */
export async function apply(output: WorkOutput | string, options?: ApplyOptions): Promise<Applied> {
  const agent = await currentAgent()
  return agent.apply(output, options)
}

/**
 * Opens a connection and works as a subagent. The connection closes when the worker is drained.
 *
 * @param subagent - Name of the subagent.
 * @param handler - Does the work of one pass.
 * @param options - The number of concurrent handlers, and the description of the agent in the registry.
 * @returns The worker, once it is ready to take work.
 * @throws PassOverError with the codes of `connect` and `Agent.onPass`.
 * @example
 * ```ts
 * const worker = await onPass('greeter', async (pass) => `Hello, ${pass.objective}!`)
 * drainOnSignals(worker)
 * ```
 */
export async function onPass(subagent: string, handler: Handler, options: WorkerOptions = {}): Promise<Worker> {
  const agent = await connect(subagent)
  try {
    const worker = await agent.onPass(handler, options)
    return ownWorker(worker, agent)
  } catch (error) {
    await agent[Symbol.asyncDispose]()
    throw error
  }
}

function ownWorker(worker: Worker, agent: Agent): Worker {
  let draining: Promise<void> | undefined
  const drain = (ms?: number): Promise<void> => {
    draining ??= worker.drain(ms).then(() => agent[Symbol.asyncDispose]())
    return draining
  }
  return {
    subagent: worker.subagent,
    get running() {
      return worker.running
    },
    closed: worker.closed,
    health: () => worker.health(),
    drain,
    [Symbol.asyncDispose]: () => drain(),
  }
}

/**
 * Publishes the return of the current handler's pass before the handler ends.
 *
 * @param output - Text, or the fields of the output.
 * @returns A promise that settles when the return is stored.
 * @throws PassOverError with code E005: the call is not inside a handler. E013: the pass already has a return, or has ended. E021: the output is not
 * valid; nothing was sent. E040: the server did not store the return in time.
 * @example
 * ```ts
 * await onPass('greeter', async (pass) => {
 *   await returnFromPassOver(`Hello, ${pass.objective}!`)
 *   await deleteTemporaryFiles()
 * })
 * ```
 */
export async function returnFromPassOver(output: HandlerResult): Promise<void> {
  const scope = currentScope()
  if (!scope) throw new PassOverError('E005', 'returnFromPassOver() was called outside a handler')
  await scope.pass.return(output)
}

/**
 * Closes the connection that `passOver`, `passOverWithRetry` and `apply` share outside of handlers. Does nothing if there is none. The next call
 * connects again.
 *
 * @returns A promise that settles when the connection is closed.
 * @example
 * ```ts
 * const output = await passOver({ subagent: 'greeter', reason: 'politeness', work_context: { objective: 'world' } })
 * await disconnect()
 * ```
 */
export async function disconnect(): Promise<void> {
  const open = defaultAgent
  defaultAgent = undefined
  const agent = await open?.catch(() => undefined)
  await agent?.[Symbol.asyncDispose]()
}
