import { Health, joinReports, PassOverError, type RetryOptions, tellReconnects, watchConnection } from '@passover/core'
import { type HealthReport, makeInstance, type WorkOutput } from '@passover/schemas'
import { type ApplyOptions, applyOutput } from '../apply/apply.js'
import type { Applied } from '../apply/apply-selected.js'
import type { ApplyHome } from '../apply/journal/recover.js'
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

/** An agent that is connected: it passes work over, and works. Disposing it drains its workers and closes the connection. */
export interface Agent extends AsyncDisposable {
  readonly name: string
  /** Passes that are waited for. */
  readonly awaited: number
  /** Whether the server can be reached now. */
  readonly connected: boolean
  /** How it is now, and each of its workers: what is wrong, since when, and what was done about it. */
  health(): HealthReport
  /**
   * Passes work over to a subagent. Awaiting the handle gives every WorkOutput that a worker returned, whatever its status, and throws
   * a PassOverError for what was refused, failed, timed out or was cancelled.
   */
  passOver(options: PassOverOptions): PassHandle
  /** The same, asking again after recoverable errors. */
  passOverWithRetry(options: PassOverOptions, retry?: Partial<RetryOptions>): Promise<WorkOutput>
  /** A pass that this agent asked for before, in this process or another. */
  handle(id: string, subagent: string): PassHandle
  /**
   * Calls back for each return of a pass that this agent asks for from now on, in this process, as far as its policy wants that told
   * (notify_on_return), also where nobody awaits its handle. Gives what ends that. Closing waits 10 s at most for a listener.
   */
  onReturn(listener: ReturnListener): () => void
  /**
   * Calls back for each return that nobody took, those of passes included that processes before this one asked for (`durable_returns`
   * of connecting): once it is back, to one of its processes, at least once each. A return counts as delivered when the listener is done
   * with it; one that it throws at, or that its process dies with, comes again. E005 where neither it nor a person asked for that; E013, E040.
   */
  onDurableReturn(listener: DurableReturnListener): Promise<AsyncDisposable>
  /** Works as this agent: runs the handler for each pass to it. E005, E013, E040. */
  onPass(handler: Handler, options?: WorkerOptions): Promise<Worker>
  /**
   * Applies the approved file modifications of an output (or of the pass with that id): all of them or none, never over a file that is not
   * as the subagent saw it; the conflicts are told. E013 where nobody approved and the policy asks for it.
   */
  apply(output: WorkOutput | string, options?: ApplyOptions): Promise<Applied>
  /** Puts back what a pass changed in the directory, where its files still are as applied. E041: nothing is applied. */
  undo(id: string, options?: Pick<ApplyOptions, 'directory'>): Promise<UndoResult>
}

export interface AgentOptions {
  session_id?: string | undefined
  directory: string
  /** Whether outputs that may apply themselves are applied in the directory (default false). */
  auto_apply?: boolean | undefined
  /** Default: the stream's. */
  id_window_ms?: number | undefined
  /** The id window for as long as nobody told the stream's (default: an hour). */
  unknown_window_ms?: number | undefined
  /** What the registry is told when it begins to work. */
  describes?: AgentDescription | undefined
  /** As `onReturn`, from the beginning. */
  notify?: ReturnListener | undefined
  /** Returns wait for it while it is away. */
  durable_returns?: boolean | undefined
  /** Shared by all agents of the process; absent: each worker isolates its own passes only. */
  isolation?: CrashIsolation | undefined
}

/** Makes an agent of a connection. The agent owns it. */
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
  readonly #notices: ReturnEvents
  readonly #health: Health
  readonly #durable: boolean
  readonly #waiting = new Set<DurableReturns>()
  #closing: Promise<void> | undefined

  constructor(deps: Deps, options: AgentOptions) {
    const instance = makeInstance(deps.random)
    const window = idWindow(deps.bus, { given: options.id_window_ms, environment: options.unknown_window_ms })
    const { directory, session_id } = options
    const name = deps.bus.identity
    this.name = name
    this.#deps = deps
    this.#describes = options.describes
    this.#isolation = options.isolation
    this.#health = new Health({ process: 'agent', clock: deps.clock, onChange: () => undefined })
    watchConnection(this.#health, deps.bus, 'told')
    tellReconnects(this.#health, deps.bus)
    this.#durable = options.durable_returns === true
    const notices = new ReturnEvents(deps)
    this.#notices = notices
    if (options.notify) notices.add(options.notify)
    const returns = new ReturnWaiter(deps, { name, instance, window, notices, apply_in: options.auto_apply ? directory : undefined })
    this.#origin = { deps, name, instance, returns, traces: new TraceHistory(), notices, session_id, directory, window }
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
    return this.#notices.add(listener)
  }

  async onDurableReturn(listener: DurableReturnListener): Promise<AsyncDisposable> {
    checkListener(listener)
    if (!this.#durable && !(await hasDurableReturns(this.#deps))) {
      const how = `connect with durable_returns: true, or let a person say so: passover agents set ${this.name} --durable-returns`
      throw new PassOverError('E005', `returns wait only for who asks for it: ${how}`, { field: 'durable_returns' })
    }
    await registerDurableReturns(this.#deps)
    const waiting = await DurableReturns.start({ deps: this.#deps, returns: this.#origin.returns }, listener)
    this.#waiting.add(waiting)
    return waiting
  }

  async onPass(handler: Handler, options: WorkerOptions = {}): Promise<Worker> {
    const home = { deps: this.#deps, self: this, window: this.#origin.window, describes: this.#describes, isolation: this.#isolation }
    const worker = await startWorker(home, handler, options)
    this.#workers.add(worker)
    void worker.closed.then(() => this.#workers.delete(worker))
    return worker
  }

  apply(output: WorkOutput | string, options: ApplyOptions = {}): Promise<Applied> {
    return applyOutput(this.#home(), output, options)
  }

  undo(id: string, { directory }: Pick<ApplyOptions, 'directory'> = {}): Promise<UndoResult> {
    return undoApplied(this.#home(directory), { id, undone_by: this.name })
  }

  #home(directory = this.#origin.directory): ApplyHome {
    return { deps: this.#deps, as: 'agent', directory }
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    await Promise.all([...this.#workers].map((worker) => worker.drain()))
    const waiting = [...this.#waiting].map((one) => one[Symbol.asyncDispose]())
    await this.#origin.returns[Symbol.asyncDispose]()
    await Promise.all(waiting)
    await this.#notices.drain()
    await this.#deps.schemas?.[Symbol.asyncDispose]()
    await this.#deps.bus[Symbol.asyncDispose]()
    await this.#deps.tracing?.[Symbol.asyncDispose]()
  }
}

function checkListener(listener: unknown): void {
  if (typeof listener !== 'function') throw invalidOption('listener', 'must be a function')
}
