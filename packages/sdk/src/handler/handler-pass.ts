import { cut, PassOverError, toolFault } from '@passover/core'
import type { Budget, HandlerResult, ParentProof, PassKey, Priority, Rights, WorkContext } from '@passover/schemas'
import { publishLate, type ReturnContext } from '../attempt/publish-return.js'
import type { Run } from '../attempt/run.js'
import { runTrace } from '../attempt/tracing.js'
import type { WorkerLogger } from '../attempt/worker-events.js'
import { invalidOption } from '../errors/option-errors.js'
import type { PassOverOptions } from '../request/options.js'
import type { PassHandle } from '../request/pass-handle.js'
import { type HandlerAgent, inScope, type Scope, type Scoped } from './async-context.js'
import { type Pass, WorkError } from './pass.js'
import { returnResult, validateResult } from './result.js'

/** Everything that running an attempt needs from its worker. */
export interface WorkerContext extends ReturnContext {
  /** The agent whose handler runs. It is the originator of child passes. */
  self: HandlerAgent
  logger: WorkerLogger
}

function returnedTwiceError(): PassOverError {
  return new PassOverError('E013', 'this pass has already been returned')
}

/** The view of a run that its handler gets. */
export class HandlerPass implements Pass, Scoped {
  readonly #worker: WorkerContext
  readonly #run: Run
  readonly #context: () => WorkContext

  constructor(worker: WorkerContext, run: Run, context: () => WorkContext) {
    this.#worker = worker
    this.#run = run
    this.#context = context
  }

  get key(): PassKey {
    return this.#run.key
  }
  get id(): string {
    return this.#run.key.id
  }
  get originator(): string {
    return this.#run.key.originator
  }
  get subagent(): string {
    return this.#run.key.subagent
  }
  get reason(): string {
    return this.#run.control.reason
  }
  get objective(): string {
    return this.#context().objective
  }
  get context(): WorkContext {
    return this.#context()
  }
  get priority(): Priority {
    return this.#run.control.priority
  }
  get attempt(): number {
    return this.#run.attempt
  }
  get rights(): Rights {
    return this.#run.control.rights
  }
  get limits(): Pass['limits'] {
    const { max_compute_time_ms, max_memory_mb } = this.#run.control.policy
    return { max_compute_time_ms, max_memory_mb }
  }
  get expected_output_type(): string | undefined {
    return this.#run.control.expected_output_type
  }
  get budget(): Budget | undefined {
    return this.#run.control.budget
  }
  get session_id(): string {
    return this.#run.control.session_id
  }
  get chain_depth(): number {
    return this.#run.control.chain_depth
  }
  get ancestors(): readonly string[] {
    return this.#run.control.ancestors
  }
  get parent(): ParentProof {
    return this.scope().parent
  }
  get traceparent(): string | undefined {
    return runTrace(this.#run)
  }
  get timeout_ms(): number {
    return this.#run.control.timeout_ms
  }
  get deadline(): number {
    return this.#run.deadline
  }
  get signal(): AbortSignal {
    return this.#run.abort.signal
  }

  progress(message: string, fraction?: number): void {
    if (typeof message !== 'string') throw invalidOption('progress', 'its message must be text')
    const bounded = fraction === undefined ? undefined : Math.min(1, Math.max(0, fraction))
    this.#run.progress = { message: cut(message, 4_096), ...(bounded !== undefined && !Number.isNaN(bounded) && { fraction: bounded }) }
  }

  may(tool: string): boolean {
    return toolFault(tool, this.rights) === undefined
  }

  requireTool(tool: string): void {
    const { code, message, details } = toolFault(tool, this.rights) ?? {}
    if (code) throw new WorkError(code, message ?? code, details)
  }

  passOver(options: PassOverOptions): PassHandle {
    return inScope(this, () => this.#worker.self.passOver(options))
  }

  async return(output: HandlerResult): Promise<void> {
    if (this.#run.returning) throw returnedTwiceError()
    const validated = await validateResult(this.#worker, this.#run, output)
    if (this.#run.returning) throw returnedTwiceError()
    if ('error' in validated) throw PassOverError.from(validated.error)
    const published = await returnResult(this.#worker, this.#run, validated)
    const { result } = this.#run
    if (published === 'returned' && result && 'error' in result) {
      if (this.#run.stop === 'deadline') await publishLate(this.#worker, this.#run, validated.output)
      throw PassOverError.from(result.error)
    }
    if (published === 'returned') return
    const why = { ended: 'the pass had already ended', lost: 'a newer attempt has started', gave_up: 'the server did not answer' }[
      published
    ]
    throw new PassOverError(published === 'gave_up' ? 'E040' : 'E013', `the return was not accepted: ${why}`, { outcome: published })
  }

  scope(): Scope {
    const { control, key, proof } = this.#run
    const { originator, subagent, id } = key
    const parent: ParentProof = { originator, subagent, id, return_id: control.return_id, proof }
    return { agent: this.#worker.self, pass: this, parent, traceparent: () => this.traceparent, context: this.#context }
  }
}
