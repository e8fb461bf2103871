import { sha256 } from '@passover/schemas'
import { type BudgetLimits, CheckBudget } from './budget.js'
import type { ToThread } from './messages.js'
import { SchemaThread } from './schema-thread.js'

export interface OutputSchemasOptions {
  /** Time limit per check, compiling included, in ms of the thread's processor time, if the system reports it. Default 2,000. */
  timeout_ms?: number | undefined
  /** Memory limit per check in MB. Default 128. */
  memory_mb?: number | undefined
  /** Limits on checking time per owner and in total. Default 5,000 and 30,000 ms per 60,000 ms. */
  budget?: BudgetLimits | undefined
}

/** Faults of a value, or the reason why the schema was not applied. */
export type SchemaVerdict = { faults: string[] } | { unchecked: string }

/** Applies untrusted JSON Schemas. No schema can block or end the calling process. */
export interface OutputSchemas extends AsyncDisposable {
  /** Returns the faults of a value; [] if it is valid. A schema that does not compile or takes too long is a fault, too. */
  check(schema: unknown, value: unknown): Promise<string[]>
  /**
   * Checks like `check`, but for the schema of an agent and within that agent's budget of checking time. Agents take turns, so that slow checks of
   * one delay another by one check only.
   */
  checkFor(owner: string, schema: unknown, value: unknown): Promise<SchemaVerdict>
  /** Returns the faults of the schema itself; [] if there are none. */
  compile(schema: unknown): Promise<string[]>
}

const TIMEOUT_MS = 2_000
const MEMORY_MB = 128
const BUDGET: BudgetLimits = { owner_ms: 5_000, total_ms: 30_000, window_ms: 60_000 }
const MAX_SCHEMA_BYTES = 1_048_576
/** Owner of checks without a budget: a process that checks its own output, or a person who checks a schema. */
const NO_OWNER = ''

interface Job {
  owner: string
  text: Omit<ToThread, 'id'>
  settle: (verdict: SchemaVerdict) => void
}

/** Creates a checker. Starts no thread before the first check. */
export function outputSchemas(options: OutputSchemasOptions = {}): OutputSchemas {
  return new Checks({
    timeout_ms: options.timeout_ms ?? TIMEOUT_MS,
    memory_mb: options.memory_mb ?? MEMORY_MB,
    budget: options.budget ?? BUDGET,
  })
}

/** Runs one check at a time, so that a check that takes too long can be identified, and is the only one lost with the thread. */
class Checks implements OutputSchemas {
  /** Waiting checks by owner, in the order of their turns. */
  readonly #waiting = new Map<string, Job[]>()
  readonly #thread: SchemaThread
  readonly #budget: CheckBudget
  #working: Promise<void> | undefined
  #closed = false

  constructor({ budget, ...limits }: { timeout_ms: number; memory_mb: number; budget: BudgetLimits }) {
    this.#thread = new SchemaThread(limits)
    this.#budget = new CheckBudget(budget, () => performance.now())
  }

  async check(schema: unknown, value: unknown): Promise<string[]> {
    return faultsIn(await this.checkFor(NO_OWNER, schema, value))
  }

  checkFor(owner: string, schema: unknown, value: unknown): Promise<SchemaVerdict> {
    const text = jsonOf(value ?? null)
    if (text === undefined) return Promise.resolve({ faults: ['/: the output is not JSON'] })
    return this.#ask(owner, schema, text)
  }

  async compile(schema: unknown): Promise<string[]> {
    return faultsIn(await this.#ask(NO_OWNER, schema, undefined))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true
    await this.#thread[Symbol.asyncDispose]()
    for (let job = this.#next(); job; job = this.#next()) job.settle(CLOSED)
    await this.#working
  }

  #ask(owner: string, schema: unknown, value: string | undefined): Promise<SchemaVerdict> {
    const text = jsonOf(schema)
    if (text === undefined) return Promise.resolve({ faults: ['the schema is not JSON'] })
    if (text.length > MAX_SCHEMA_BYTES) return Promise.resolve({ faults: [`the schema is larger than ${MAX_SCHEMA_BYTES} characters`] })
    if (this.#closed) return Promise.resolve(CLOSED)
    return new Promise((settle) => {
      const jobs = this.#waiting.get(owner) ?? []
      jobs.push({ owner, text: { digest: sha256(text), schema: text, value }, settle })
      this.#waiting.set(owner, jobs)
      this.#working ??= this.#work()
    })
  }

  async #work(): Promise<void> {
    for (let job = this.#next(); job; job = this.#next()) job.settle(this.#closed ? CLOSED : await this.#checked(job))
    // Set synchronously after the last check of the queue: a later request starts the loop again.
    this.#working = undefined
  }

  async #checked({ owner, text }: Job): Promise<SchemaVerdict> {
    const refusal = owner === NO_OWNER ? undefined : this.#budget.refusal(owner)
    if (refusal !== undefined) return { unchecked: refusal }
    const { faults, spent_ms } = await this.#thread.check(text)
    if (owner !== NO_OWNER) this.#budget.spend(owner, spent_ms)
    return { faults }
  }

  /** Returns the first job of the first owner, and moves that owner to the end. */
  #next(): Job | undefined {
    const first = this.#waiting.entries().next()
    if (first.done) return undefined
    const [owner, jobs] = first.value
    const job = jobs.shift()
    this.#waiting.delete(owner)
    if (jobs.length > 0) this.#waiting.set(owner, jobs)
    return job
  }
}

function faultsIn(verdict: SchemaVerdict): string[] {
  return 'faults' in verdict ? verdict.faults : [verdict.unchecked]
}

const CLOSED: SchemaVerdict = { faults: ['the output could not be checked because the process is shutting down'] }

/** Returns the JSON text of a value, or `undefined` if it is not JSON or too deeply nested. */
function jsonOf(value: unknown): string | undefined {
  try {
    return JSON.stringify(value)
  } catch {
    return undefined
  }
}
