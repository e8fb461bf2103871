import { sha256 } from '@passover/schemas'
import { type BudgetLimits, CheckBudget } from './budget.js'
import type { ToThread } from './messages.js'
import { SchemaThread } from './schema-thread.js'

export interface OutputSchemasOptions {
  /** What one check may take, compiling included, ms of the thread's own processor time where the system tells it (default 2,000). */
  timeout_ms?: number | undefined
  /** What a check may need, MB (default 128). */
  memory_mb?: number | undefined
  /** Time that the checks of one owner, and of all, may use (default 5,000 and 30,000 ms per 60,000 ms). */
  budget?: BudgetLimits | undefined
}

/** What a schema has against a value, or why it was not applied. */
export type SchemaVerdict = { faults: string[] } | { unchecked: string }

/** Applies JSON Schemas that nobody vouches for. Nothing that a schema does blocks or ends the caller. */
export interface OutputSchemas extends AsyncDisposable {
  /** What the schema has against a value; [] when nothing. A schema that cannot be compiled, or takes too long, is a fault too. */
  check(schema: unknown, value: unknown): Promise<string[]>
  /**
   * The same for the schema of an agent, within that agent's budget of checking time. Agents take turns, so that one whose checks are slow
   * delays another's by one check.
   */
  checkFor(owner: string, schema: unknown, value: unknown): Promise<SchemaVerdict>
  /** What is wrong with the schema itself; [] when nothing. */
  compile(schema: unknown): Promise<string[]>
}

const TIMEOUT_MS = 2_000
const MEMORY_MB = 128
const BUDGET: BudgetLimits = { owner_ms: 5_000, total_ms: 30_000, window_ms: 60_000 }
const MAX_SCHEMA_BYTES = 1_048_576
/** Checks without an owner have no budget: a process checks its own output, or a person a schema. */
const NO_OWNER = ''

interface Job {
  owner: string
  text: Omit<ToThread, 'id'>
  settle: (verdict: SchemaVerdict) => void
}

/** Starts no thread before the first check. */
export function outputSchemas(options: OutputSchemasOptions = {}): OutputSchemas {
  return new Checks({
    timeout_ms: options.timeout_ms ?? TIMEOUT_MS,
    memory_mb: options.memory_mb ?? MEMORY_MB,
    budget: options.budget ?? BUDGET,
  })
}

/** One check at a time, so that the one that takes too long is known, and only it is lost with the thread. */
class Checks implements OutputSchemas {
  /** Checks that wait, by owner; the first owner is next. */
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
    if (text === undefined) return Promise.resolve({ faults: ['/: the output is no JSON'] })
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
    if (text === undefined) return Promise.resolve({ faults: ['the schema is no JSON'] })
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
    // In the turn of the last look: whoever asks from now on begins anew.
    this.#working = undefined
  }

  async #checked({ owner, text }: Job): Promise<SchemaVerdict> {
    const refusal = owner === NO_OWNER ? undefined : this.#budget.refusal(owner)
    if (refusal !== undefined) return { unchecked: refusal }
    const { faults, spent_ms } = await this.#thread.check(text)
    if (owner !== NO_OWNER) this.#budget.spend(owner, spent_ms)
    return { faults }
  }

  /** The first job of the first owner, who is then last. */
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

const CLOSED: SchemaVerdict = { faults: ['the output could not be checked: the process was about to end'] }

/** Undefined for what is no JSON, or too deep to be written. */
function jsonOf(value: unknown): string | undefined {
  try {
    return JSON.stringify(value)
  } catch {
    return undefined
  }
}
