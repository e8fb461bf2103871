import type { Bus, LiveSubscription, WorkSource } from '@passover/bus'
import { type HealthReport, LIMITS, type OwnLimits, PRIORITIES, type Priority, registerQuestion } from '@passover/schemas'
import { z } from 'zod'
import { ConsumerAges } from '../attempt/consumer-ages.js'
import { createWorkerLogger, type WorkerLogger } from '../attempt/worker-events.js'
import { checkOptions, invalidOption, readSafely } from '../errors/option-errors.js'
import type { HandlerAgent } from '../handler/async-context.js'
import type { Handler } from '../handler/pass.js'
import type { IdWindow } from '../journal/id-window.js'
import type { Deps } from '../runtime/dependencies.js'
import type { CrashIsolation } from './crash-isolation.js'
import { Heartbeat } from './heartbeat.js'
import { register } from './register.js'
import { WorkerLoop } from './worker-loop.js'

/** Description of a subagent in the registry. It is stored if registration is open. It does not overwrite fields that a person set. */
export interface AgentDescription {
  /**
   * Purpose of the agent.
   * @defaultValue None.
   */
  description?: string | undefined
  /**
   * Capabilities of the agent, as search terms.
   * @defaultValue None.
   */
  skills?: string[] | undefined
  /**
   * JSON Schema (2020-12) for the outputs of the agent. A pass whose output does not match it ends with E021.
   * @defaultValue Outputs are not checked against a schema.
   */
  outputSchema?: Record<string, unknown> | undefined
  /**
   * Limits that the agent sets for itself: number of open passes, number of passes that begin per minute, time of one handler run (milliseconds),
   * memory of a command (MiB).
   * @defaultValue None.
   */
  limits?: OwnLimits | undefined
}

/** Options of a worker. Fields of the description that are set here replace those given to `connect`. */
export interface WorkerOptions extends AgentDescription {
  /**
   * Maximum number of handlers that run concurrently.
   * @defaultValue `8`
   */
  concurrency?: number | undefined
  /**
   * Time in milliseconds for which a drain waits for running handlers, at most 86,400,000 (24 hours). Then it aborts them and returns their work to the
   * queue.
   * @defaultValue `10_000`
   */
  drainMs?: number | undefined
  /**
   * Function that receives the events of the worker, see `WorkerEvent`. The worker reports the end of an attempt after the server has stored it.
   * @defaultValue Prints lines on stderr.
   */
  log?: WorkerLogger | undefined
}

/** A worker that takes passes until it is drained. Disposing it drains it. */
export interface Worker extends AsyncDisposable {
  /** Name of the subagent. */
  readonly subagent: string
  /** Number of passes that the worker is working on now. */
  readonly running: number
  /**
   * Reports the state of the worker.
   *
   * @returns A report that lists each problem with its cause, its start time and the action that was taken.
   */
  health(): HealthReport
  /**
   * Stops taking passes and waits for running handlers. Then aborts the handlers that still run and returns their work to the queue. A second call
   * waits for the same drain.
   *
   * @param ms - Time to wait for handlers, in milliseconds (default: `drainMs`).
   * @returns A promise that settles when the worker is drained.
   */
  drain(ms?: number): Promise<void>
  /** Resolves when the worker is drained. */
  readonly closed: Promise<void>
}

const workerOptions = z.strictObject({
  concurrency: z.int().positive().max(LIMITS.handlers).default(8),
  drainMs: z.number().min(0).max(86_400_000).default(10_000),
  ...registerQuestion.pick({ description: true, skills: true, limits: true }).shape,
  outputSchema: registerQuestion.shape.output_schema,
  log: z.custom<WorkerLogger>((value) => typeof value === 'function', 'must be a function').optional(),
} satisfies Record<keyof WorkerOptions, z.ZodType>)

/** Everything that starting a worker needs from its agent. */
export interface AgentContext {
  deps: Deps
  self: HandlerAgent
  window: IdWindow
  /** Crash isolation that all workers of the process share. If absent, each worker isolates only its own passes. */
  isolation?: CrashIsolation | undefined
  describes?: AgentDescription | undefined
}

/** Registers the agent and starts a worker. Throws E005 for invalid options, and E013 or E040 if the agent cannot be registered. */
export async function startWorker(agent: AgentContext, handler: Handler, options: WorkerOptions): Promise<Worker> {
  if (typeof handler !== 'function') throw invalidOption('handler', 'must be a function')
  if (typeof options !== 'object' || options === null) throw invalidOption('options', 'must be an object')
  const given = readSafely(options, 'options', () => ({ ...agent.describes, ...options }))
  const { concurrency, drainMs, log, outputSchema, ...described } = checkOptions(workerOptions, given)
  const { bus, clock } = agent.deps
  const sources = sourcesOf(bus)
  let subscription: LiveSubscription | undefined
  try {
    await register(agent.deps, { ...described, ...(outputSchema && { output_schema: outputSchema }) }, sources)
    const consumers = new ConsumerAges(sources, () => clock.monotonic())
    await Promise.all(PRIORITIES.map((priority) => consumers.creation(priority).catch(() => undefined)))
    const logger = createWorkerLogger(agent.deps, log)
    const heartbeat = await Heartbeat.start(agent.deps, { concurrency, logger })
    const loop = new WorkerLoop({ agent, handler, consumers, sources, concurrency, drainMs, logger, heartbeat })
    subscription = await bus.subscribeTerminations(bus.identity, (ending) => loop.onTermination(ending))
    loop.begin(subscription)
    return loop
  } catch (error) {
    await subscription?.[Symbol.asyncDispose]()
    await Promise.all(PRIORITIES.map((priority) => sources[priority][Symbol.asyncDispose]()))
    throw error
  }
}

function sourcesOf(bus: Bus): Record<Priority, WorkSource> {
  const source = (priority: Priority) => bus.work(bus.identity, priority)
  return { high: source('high'), medium: source('medium'), low: source('low') }
}
