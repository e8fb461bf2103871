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

/** The functions of an agent without a connection in hand: inside a handler they are its agent's, else PASSOVER_AGENT's. */

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

/** Passes work over: as a child of the pass that is worked on, or as PASSOVER_AGENT. */
export async function passOver(options: PassOverOptions): Promise<WorkOutput> {
  const agent = await currentAgent()
  return agent.passOver(options)
}

/** The same, asking again after recoverable errors. */
export async function passOverWithRetry(options: PassOverOptions, retry?: Partial<RetryOptions>): Promise<WorkOutput> {
  const agent = await currentAgent()
  return agent.passOverWithRetry(options, retry)
}

/** Applies what was approved of an output (docs/architecture/protocol.md#release-and-apply), as the agent of the pass that is worked on, else as PASSOVER_AGENT. */
export async function apply(output: WorkOutput | string, options?: ApplyOptions): Promise<Applied> {
  const agent = await currentAgent()
  return agent.apply(output, options)
}

/** Works as `subagent` over a connection of its own, which closes with the worker. */
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

/** Returns the pass that is worked on. E005 outside a handler; E021: nothing was sent. */
export async function returnFromPassOver(output: HandlerResult): Promise<void> {
  const scope = currentScope()
  if (!scope) throw new PassOverError('E005', 'returnFromPassOver() was called outside a handler')
  await scope.pass.return(output)
}

/** Closes the connection that bare calls share, if there is one. */
export async function disconnect(): Promise<void> {
  const open = defaultAgent
  defaultAgent = undefined
  const agent = await open?.catch(() => undefined)
  await agent?.[Symbol.asyncDispose]()
}
