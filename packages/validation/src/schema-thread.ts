import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import type { FromThread, ToThread } from './messages.js'

/** Path of the built file. Node itself starts the thread and does not run TypeScript, so the source uses the built file, too. */
const FILE = new URL(import.meta.url.endsWith('.ts') ? '../dist/thread.js' : './thread.js', import.meta.url)
const START_MS = 30_000
const NS_PER_MS = 1_000_000
/** Multiple of the time limit after which a check ends, however little processor time the thread gets. */
const AT_MOST = 10
const SOONEST_MS = 20
/**
 * At least this fraction (1/STARVED) of the elapsed time is charged. Not all of it: on a busy machine a thread gets only part of a processor, which
 * must not exhaust the budget of an agent with quick checks.
 */
const STARVED = 4

interface Checked {
  faults: string[]
  /** Processor time in ms, but at least a part of the elapsed time, for which others had to wait. Excludes starting the thread. */
  spent_ms: number
}

/** Reuses one thread for all checks. Kills it if a check takes too long, and starts a new one for the next check. */
export class SchemaThread implements AsyncDisposable {
  readonly #limits: { timeout_ms: number; memory_mb: number }
  #worker: Worker | undefined
  #ready = false
  #task: string | undefined
  #last = 0

  constructor(limits: { timeout_ms: number; memory_mb: number }) {
    this.#limits = limits
  }

  /** Runs one check at a time, and reports how long it used the thread. Never throws. */
  async check(text: Omit<ToThread, 'id'>): Promise<Checked> {
    const worker = await this.#started()
    if (!worker) return { faults: ['the output could not be checked because no thread could be started for its schema'], spent_ms: 0 }
    const task = this.#task
    const began = { spent: spentBy(task), at: performance.now() }
    const faults = await this.#checkOn(worker, text)
    const elapsed = performance.now() - began.at
    const spent = spentBy(task)
    if (spent === undefined || began.spent === undefined) return { faults, spent_ms: elapsed }
    return { faults, spent_ms: Math.max(spent - began.spent, elapsed / STARVED) }
  }

  async #checkOn(worker: Worker, text: Omit<ToThread, 'id'>): Promise<string[]> {
    const { timeout_ms, memory_mb } = this.#limits
    const id = ++this.#last
    worker.ref()
    const answer = answerOf(worker, id, { ms: timeout_ms, task: this.#task })
    worker.postMessage({ ...text, id } satisfies ToThread)
    const ended = await answer
    worker.unref()
    if (ended.kind === 'checked') return ended.faults
    await this.#kill()
    if (ended.kind === 'late') return [`the schema took longer than ${timeout_ms} ms`]
    const why = ended.kind === 'broken' ? ended.why : 'its thread was restarted'
    return [`the schema needs more than ${memory_mb} MB, or its thread failed: ${why}`]
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#kill()
  }

  /** Starts the thread if needed. Its startup time is not charged to any check. */
  async #started(): Promise<Worker | undefined> {
    if (this.#worker && this.#ready) return this.#worker
    const worker = this.#begin()
    const answer = await answerOf(worker, 'ready', { ms: START_MS, task: undefined })
    if (answer.kind !== 'ready') {
      await this.#kill()
      return undefined
    }
    this.#ready = true
    this.#task = answer.task
    worker.unref()
    return worker
  }

  #begin(): Worker {
    const { memory_mb } = this.#limits
    // The thread gets nothing of the process's environment, because a schema becomes code there.
    const worker = new Worker(FILE, {
      env: {},
      execArgv: [],
      stdin: false,
      resourceLimits: { maxOldGenerationSizeMb: memory_mb, maxYoungGenerationSizeMb: 16, stackSizeMb: 4 },
    })
    // Permanent listener: an unhandled error event would end the process.
    worker.on('error', () => undefined)
    worker.once('exit', () => {
      if (this.#worker === worker) this.#forget()
    })
    this.#worker = worker
    return worker
  }

  #forget(): void {
    this.#worker = undefined
    this.#ready = false
  }

  async #kill(): Promise<void> {
    const worker = this.#worker
    this.#forget()
    await worker?.terminate()
  }
}

type Answer = FromThread | { kind: 'late' } | { kind: 'broken'; why: string }

interface Limit {
  ms: number
  task: string | undefined
}

/** Returns the thread's answer to a check, or the reason why there is none. */
async function answerOf(worker: Worker, wanted: number | 'ready', limit: Limit): Promise<Answer> {
  const over = new AbortController()
  const { signal } = over
  const late = lateness(limit, signal)
  const broken = once(worker, 'exit', { signal }).then(
    (): Answer => ({ kind: 'broken', why: 'it ended' }),
    (error: unknown): Answer => ({ kind: 'broken', why: error instanceof Error ? error.message : String(error) }),
  )
  try {
    return await Promise.race([heard(worker, wanted, signal), broken, late])
  } finally {
    over.abort()
  }
}

/** Settles when the thread has used up its time: processor time if the system reports it, otherwise elapsed time. */
function lateness({ ms, task }: Limit, signal: AbortSignal): Promise<Answer> {
  const began = { spent: spentBy(task), at: performance.now() }
  return new Promise((resolve) => {
    const look = (): void => {
      const spent = spentBy(task)
      const left = spent === undefined || began.spent === undefined ? 0 : ms - (spent - began.spent)
      const isOver = left <= 0 || performance.now() - began.at >= ms * AT_MOST
      // If this process was blocked, the answer may already be queued: process it first.
      if (isOver) setImmediate(() => resolve({ kind: 'late' }))
      else timer = setTimeout(look, Math.max(SOONEST_MS, left))
    }
    let timer = setTimeout(look, ms)
    signal.addEventListener('abort', () => clearTimeout(timer), { once: true })
  })
}

function heard(worker: Worker, wanted: number | 'ready', signal: AbortSignal): Promise<Answer> {
  return new Promise((resolve) => {
    const onMessage = (message: FromThread): void => {
      if (message.kind === 'ready' ? wanted === 'ready' : message.id === wanted) resolve(message)
    }
    worker.on('message', onMessage)
    signal.addEventListener('abort', () => worker.off('message', onMessage), { once: true })
  })
}

/**
 * Returns the processor time that a thread has used in ms, or `undefined` if the system does not report it. Elapsed time would make a valid output
 * look uncheckable on a busy machine.
 */
function spentBy(task: string | undefined): number | undefined {
  if (task === undefined) return undefined
  try {
    const ns = Number(readFileSync(`/proc/${task}/schedstat`, 'utf8').split(' ')[0])
    return Number.isFinite(ns) ? ns / NS_PER_MS : undefined
  } catch {
    return undefined
  }
}
