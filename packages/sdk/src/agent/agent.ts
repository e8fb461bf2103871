import { Health, joinReports, PassOverError, type RetryOptions, tellReconnects, watchConnection } from '@passover/core'
import { type HealthReport, makeInstance, type WorkOutput } from '@passover/schemas'
import { type ApplyOptions, applyOutput } from '../apply/apply.js'
import type { Applied } from '../apply/apply-selected.js'
import type { ApplyContext } from '../apply/journal/recover.js'
import { type UndoResult, undoApplied } from '../apply/undo.js'
import { ReturnEvents, type ReturnListener } from '../delivery/return-events.js'
import {
  type DurableReturnListener,
  DurableReturns,
  hasDurableReturns,
  registerDurableReturns,
} from '../durable-returns/durable-returns.js'
import { invalidOption } from '../errors/option-errors.js'
import { currentScope } from '../handler/async-context.js'
import type { Handler } from '../handler/pass.js'
import { idWindow } from '../journal/id-window.js'
import type { PassOverOptions } from '../request/options.js'
import type { Originator } from '../request/originator.js'
import type { PassHandle } from '../request/pass-handle.js'
import { handleOf, passOver } from '../request/pass-over.js'
import { passOverWithRetry } from '../request/retry.js'
import { TraceHistory } from '../request/tracing.js'
import { ReturnWaiter } from '../returns/return-waiter.js'
import type { Deps } from '../runtime/dependencies.js'
import type { CrashIsolation } from '../worker/crash-isolation.js'
import { type AgentDescription, startWorker, type Worker, type WorkerOptions } from '../worker/start-worker.js'

/** A connected agent. It passes work to subagents, and can itself work as a subagent. Disposing it drains its workers and closes the connection. */
export interface Agent extends AsyncDisposable {
  /** Name of the agent. */
  readonly name: string
  /** Number of passes whose return this process waits for. */
  readonly awaited: number
  /** True if the server can be reached now. */
  readonly connected: boolean
  /**
   * Reports the state of the connection and of each worker.
   *
   * @returns A report that lists each problem with its cause, its start time and the action that was taken.
   */
  health(): HealthReport
  /**
   * Passes work to a subagent.
   *
   * @param options - The work, the subagent and the settings of the pass.
   * @returns A handle, without waiting for anything. `await handle` returns the worker's WorkOutput, with any `status`, or throws a PassOverError.
   * `await handle.stored` waits until the stream has stored the request.
   * @throws Nothing: every error rejects the handle, as a PassOverError with one of these codes:
   *
   * - E001: there is no such subagent. E002: the chain is too deep. E003: a delegation loop. E004: the policy disables the pair.
   * - E005: an option is unknown or has a wrong value, or the id was used for another request. Nothing was stored.
   * - E010: the deadline passed. E011: the handler threw, or its workers were lost. E012: the context is too large.
   * - E013: not allowed, or a person denied it. E014: a limit or a budget is used up.
   * - E021: the output is not valid. E022: the result is stored, but the originator did not fetch it in time.
   * - E040: the server or a service cannot be reached. E043: the pass was cancelled.
   * @example
   * ```ts
   * const handle = alice.passOver({ subagent: 'scout', reason: 'plan the change', work_context: { objective: 'find the callers of f' } })
   * await handle.stored
   * const output = await handle
   * ```
   */
  passOver(options: PassOverOptions): PassHandle
  /**
   * Passes work to a subagent, and retries after recoverable errors.
   *
   * @param options - As for `passOver`.
   * @param retry - `max_retries` (default 3), `retry_delay_ms` before the first retry (default 1,000 ms) and `backoff_multiplier` for each later
   * retry (default 2). If an error carries a longer `retry_after_ms`, that delay is used.
   * @returns The output of the first attempt that returned one.
   * @throws PassOverError with the code of the last attempt, as for `passOver`.
   */
  passOverWithRetry(options: PassOverOptions, retry?: Partial<RetryOptions>): Promise<WorkOutput>
  /**
   * Returns a handle for a pass that this agent requested before, in this process or another.
   *
   * @param id - The id of the pass.
   * @param subagent - The subagent of the pass.
   * @returns A handle. It sends nothing until it is awaited or one of its methods is called.
   */
  handle(id: string, subagent: string): PassHandle
  /**
   * Calls a listener for the returns of passes that this agent requests in this process after this call, even if no code awaits their handles. The
   * policy field `notify_on_return` selects which returns. When the agent closes, it waits at most 10,000 ms for running listeners.
   *
   * @param listener - Called once for each pass.
   * @returns A function that removes the listener.
   * @throws PassOverError with code E005: the listener is not a function.
   */
  onReturn(listener: ReturnListener): () => void
  /**
   * Calls a listener for the returns that no process of this agent has acknowledged, including returns of passes that earlier processes requested.
   * Each return goes to one process of the agent and is delivered at least once. It is acknowledged when the listener has finished. If the listener
   * throws or its process dies, the return is delivered again.
   *
   * @param listener - Called for each return.
   * @returns An object that removes the listener when it is disposed.
   * @throws PassOverError with code E005: durable returns are not enabled, neither with the option `durableReturns` nor by a person. E013: the agent
   * may not register. E040: the server or the dispatcher cannot be reached.
   */
  onDurableReturn(listener: DurableReturnListener): Promise<AsyncDisposable>
  /**
   * Registers this agent as a subagent and runs the handler for each pass to it.
   *
   * @param handler - Does the work of one pass.
   * @param options - The number of concurrent handlers, and the description of the agent in the registry.
   * @returns The worker, once it is ready to take work.
   * @throws PassOverError with code E005: an option is unknown or has a wrong value. E013: the agent may not register. E040: the server or the
   * dispatcher cannot be reached.
   * @example
   * ```ts
   * await using worker = await agent.onPass(async (pass) => `Hello, ${pass.objective}!`, { concurrency: 2 })
   * ```
   */
  onPass(handler: Handler, options?: WorkerOptions): Promise<Worker>
  /**
   * Applies the approved file modifications of an output in a directory: all of them, or none. A file that has changed since the subagent read it is a
   * conflict, and then `apply` writes nothing.
   *
   * @param output - The output, or the id of its pass.
   * @param options - The directory, and the approved modifications to apply.
   * @returns The files that were written, and the conflicts. If there is a conflict, nothing was written.
   * @throws PassOverError with code E005: `only` names a modification that does not exist. E013: the output belongs to another agent, was not
   * approved, was denied or awaits its release. E040: the audit service does not answer. E041: there is no such pass, or it has no return. E042:
   * several passes have the id; set `subagent`.
   * @example
   * ```ts
   * const { applied, conflicts } = await alice.apply(output, { directory: '/path/to/project' })
   * for (const { path, why } of conflicts) console.error(`${path}: ${why}`)
   * ```
   */
  apply(output: WorkOutput | string, options?: ApplyOptions): Promise<Applied>
  /**
   * Restores the files that `apply` changed for a pass. A file that has changed since then stays as it is and is a conflict in the result.
   *
   * @param id - The id of the pass, or a prefix of it.
   * @param options - `directory`: the directory in which the modifications were applied (default: the agent's directory).
   * @returns The files that were restored, and the conflicts.
   * @throws PassOverError with code E041: no modification of this pass was applied in the directory. E042: several passes have an id with this prefix.
   */
  undo(id: string, options?: Pick<ApplyOptions, 'directory'>): Promise<UndoResult>
}

/** Options of {@link createAgent}, which creates an agent from an existing connection. */
export interface AgentOptions {
  /**
   * Session of passes whose context has no `session_id`.
   * @defaultValue A new session for this connection; for a pass with a given `id`, a session named after that id.
   */
  sessionId?: string | undefined
  /** Directory of passes whose context has no `directory`. Modifications are applied in it. */
  directory: string
  /**
   * True if outputs that need no confirmation are applied in the directory automatically.
   * @defaultValue `false`
   */
  autoApply?: boolean | undefined
  /**
   * Time in milliseconds for which the id of a pass stays reserved.
   * @defaultValue The id window of the stream.
   */
  idWindowMs?: number | undefined
  /**
   * Id window in milliseconds until the agent has read the id window of the stream.
   * @defaultValue 3,600,000 (one hour)
   */
  unknownWindowMs?: number | undefined
  /** Description of the agent in the registry, stored when it starts a worker. */
  describes?: AgentDescription | undefined
  /** A listener as for `onReturn`, registered when the agent is created. */
  notify?: ReturnListener | undefined
  /**
   * True if returns are kept for the agent while it is not connected.
   * @defaultValue `false`
   */
  durableReturns?: boolean | undefined
  /** Crash isolation that all agents of the process share. By default, each worker isolates only its own passes. */
  isolation?: CrashIsolation | undefined
}

/**
 * Creates an agent from an existing connection. Disposing the agent closes the connection.
 *
 * @param deps - The connection, clock and randomness.
 * @param options - The behaviour of the agent.
 * @returns The agent.
 */
export function createAgent(deps: Deps, options: AgentOptions): Agent {
  return new ConnectedAgent(deps, options)
}

class ConnectedAgent implements Agent {
  readonly name: string
  readonly #deps: Deps
  readonly #describes: AgentDescription | undefined
  readonly #isolation: CrashIsolation | undefined
  readonly #origin: Originator
  readonly #workers = new Set<Worker>()
  readonly #events: ReturnEvents
  readonly #health: Health
  readonly #durable: boolean
  readonly #durableReturns = new Set<DurableReturns>()
  #closing: Promise<void> | undefined

  constructor(deps: Deps, options: AgentOptions) {
    const instance = makeInstance(deps.random)
    const window = idWindow(deps.bus, { given: options.idWindowMs, environment: options.unknownWindowMs })
    const { directory, sessionId: session_id } = options
    const name = deps.bus.identity
    this.name = name
    this.#deps = deps
    this.#describes = options.describes
    this.#isolation = options.isolation
    this.#health = new Health({ process: 'agent', clock: deps.clock, onChange: () => undefined })
    watchConnection(this.#health, deps.bus, 'told')
    tellReconnects(this.#health, deps.bus)
    this.#durable = options.durableReturns === true
    const events = new ReturnEvents(deps)
    this.#events = events
    if (options.notify) events.add(options.notify)
    const returns = new ReturnWaiter(deps, { name, instance, window, events, apply_in: options.autoApply ? directory : undefined })
    this.#origin = { deps, name, instance, returns, traces: new TraceHistory(), events, session_id, directory, window }
  }

  get awaited(): number {
    return this.#origin.returns.size
  }

  get connected(): boolean {
    return this.#deps.bus.connected
  }

  health(): HealthReport {
    const workers = [...this.#workers].map((worker) => worker.health())
    return joinReports(this.name, [this.#health.report(), ...workers])
  }

  passOver(options: PassOverOptions): PassHandle {
    return passOver(this.#origin, options, currentScope())
  }

  passOverWithRetry(options: PassOverOptions, retry?: Partial<RetryOptions>): Promise<WorkOutput> {
    const passing = {
      clock: this.#deps.clock,
      passOver: (one: PassOverOptions) => this.passOver(one),
      handle: (id: string, subagent: string) => this.handle(id, subagent),
    }
    return passOverWithRetry(passing, options, retry)
  }

  handle(id: string, subagent: string): PassHandle {
    return handleOf(this.#origin, { originator: this.name, subagent, id })
  }

  onReturn(listener: ReturnListener): () => void {
    checkListener(listener)
    return this.#events.add(listener)
  }

  async onDurableReturn(listener: DurableReturnListener): Promise<AsyncDisposable> {
    checkListener(listener)
    if (!this.#durable && !(await hasDurableReturns(this.#deps))) {
      const how = `connect with durableReturns: true, or run: passover agents set ${this.name} --durable-returns`
      throw new PassOverError('E005', `returns are kept only for agents with durable returns: ${how}`, { field: 'durableReturns' })
    }
    await registerDurableReturns(this.#deps)
    const durableReturns = await DurableReturns.start({ deps: this.#deps, returns: this.#origin.returns }, listener)
    this.#durableReturns.add(durableReturns)
    return durableReturns
  }

  async onPass(handler: Handler, options: WorkerOptions = {}): Promise<Worker> {
    const context = { deps: this.#deps, self: this, window: this.#origin.window, describes: this.#describes, isolation: this.#isolation }
    const worker = await startWorker(context, handler, options)
    this.#workers.add(worker)
    void worker.closed.then(() => this.#workers.delete(worker))
    return worker
  }

  apply(output: WorkOutput | string, options: ApplyOptions = {}): Promise<Applied> {
    return applyOutput(this.#applyContext(), output, options)
  }

  undo(id: string, { directory }: Pick<ApplyOptions, 'directory'> = {}): Promise<UndoResult> {
    return undoApplied(this.#applyContext(directory), { id, undone_by: this.name })
  }

  #applyContext(directory = this.#origin.directory): ApplyContext {
    return { deps: this.#deps, as: 'agent', directory }
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    await Promise.all([...this.#workers].map((worker) => worker.drain()))
    const closing = [...this.#durableReturns].map((one) => one[Symbol.asyncDispose]())
    await this.#origin.returns[Symbol.asyncDispose]()
    await Promise.all(closing)
    await this.#events.drain()
    await this.#deps.schemas?.[Symbol.asyncDispose]()
    await this.#deps.bus[Symbol.asyncDispose]()
    await this.#deps.tracing?.[Symbol.asyncDispose]()
  }
}

function checkListener(listener: unknown): void {
  if (typeof listener !== 'function') throw invalidOption('listener', 'must be a function')
}
