import { sha256 } from '@passover/schemas'
import type { ToThread } from './messages.js'
import { SchemaThread } from './schema-thread.js'

export interface OutputSchemasOptions {
  /** What one check may take, compiling included, ms of the thread's own processor time where the system tells it (default 2,000). */
  timeout_ms?: number | undefined
  /** What a check may need, MB (default 128). */
  memory_mb?: number | undefined
}

/** Applies JSON Schemas that nobody vouches for. Nothing that a schema does blocks or ends the caller. */
export interface OutputSchemas extends AsyncDisposable {
  /** What the schema has against a value; [] when nothing. A schema that cannot be compiled, or takes too long, is a fault too. */
  check(schema: unknown, value: unknown): Promise<string[]>
  /** What is wrong with the schema itself; [] when nothing. */
  compile(schema: unknown): Promise<string[]>
}

const TIMEOUT_MS = 2_000
const MEMORY_MB = 128
const MAX_SCHEMA_BYTES = 1_048_576

interface Job {
  text: Omit<ToThread, 'id'>
  settle: (faults: string[]) => void
}

/** Starts no thread before the first check. */
export function outputSchemas(options: OutputSchemasOptions = {}): OutputSchemas {
  return new Checks({ timeout_ms: options.timeout_ms ?? TIMEOUT_MS, memory_mb: options.memory_mb ?? MEMORY_MB })
}

/** One check at a time, so that the one that takes too long is known, and only it is lost with the thread. */
class Checks implements OutputSchemas {
  readonly #waiting: Job[] = []
  readonly #thread: SchemaThread
  #working: Promise<void> | undefined
  #closed = false

  constructor(limits: { timeout_ms: number; memory_mb: number }) {
    this.#thread = new SchemaThread(limits)
  }

  check(schema: unknown, value: unknown): Promise<string[]> {
    const text = jsonOf(value ?? null)
    if (text === undefined) return Promise.resolve(['/: the output is no JSON'])
    return this.#ask(schema, text)
  }

  compile(schema: unknown): Promise<string[]> {
    return this.#ask(schema, undefined)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true
    await this.#thread[Symbol.asyncDispose]()
    for (const job of this.#waiting.splice(0)) job.settle(CLOSED)
    await this.#working
  }

  #ask(schema: unknown, value: string | undefined): Promise<string[]> {
    const text = jsonOf(schema)
    if (text === undefined) return Promise.resolve(['the schema is no JSON'])
    if (text.length > MAX_SCHEMA_BYTES) return Promise.resolve([`the schema is larger than ${MAX_SCHEMA_BYTES} characters`])
    if (this.#closed) return Promise.resolve(CLOSED)
    return new Promise((settle) => {
      this.#waiting.push({ text: { digest: sha256(text), schema: text, value }, settle })
      this.#working ??= this.#work()
    })
  }

  async #work(): Promise<void> {
    for (let job = this.#waiting.shift(); job; job = this.#waiting.shift()) {
      job.settle(this.#closed ? CLOSED : await this.#thread.check(job.text))
    }
    // In the turn of the last look: whoever asks from now on begins anew.
    this.#working = undefined
  }
}

const CLOSED = ['the output could not be checked: the process was about to end']

/** Undefined for what is no JSON, or too deep to be written. */
function jsonOf(value: unknown): string | undefined {
  try {
    return JSON.stringify(value)
  } catch {
    return undefined
  }
}
