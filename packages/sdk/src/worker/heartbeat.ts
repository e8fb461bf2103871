import type { Table } from '@passover/bus'
import { withTimeout } from '@passover/core'
import { makeInstance, type PresenceRecord, presenceRecord } from '@passover/schemas'
import type { WorkerLogger } from '../attempt/worker-events.js'
import type { Deps } from '../runtime/dependencies.js'

/** Milliseconds between heartbeats: a quarter of the age at which the worker would count as gone. */
const INTERVAL_MS = 5_000
const CHANGED_INTERVAL_MS = 1_000
const STOP_TIMEOUT_MS = 1_000
/** Maximum number of keys tried for a new entry. Most are free unless an agent has hundreds of workers. */
const MAX_TRIES = 8

/**
 * Publishes the state and load of a worker, for `passover agents`. It never delays work: it makes one write at a time, no code waits for the write, and
 * a failure is logged once.
 */
export class Heartbeat {
  readonly #deps: Deps
  readonly #table: Table<PresenceRecord>
  readonly #logger: WorkerLogger
  readonly #record: Omit<PresenceRecord, 'running' | 'seen_at'>
  #written: { at: number; running: number } | undefined
  /** Key and revision of the worker's entry. */
  #entry: { key: string; revision: number } | undefined
  #writing: Promise<void> | undefined
  #stopped = false
  #failed = false
  #failure: string | undefined

  private constructor(deps: Deps, table: Table<PresenceRecord>, about: { concurrency: number; logger: WorkerLogger }) {
    this.#deps = deps
    this.#table = table
    this.#logger = about.logger
    const { host = 'unknown', pid = 0 } = deps.process ?? {}
    const instance = makeInstance(deps.random)
    this.#record = { agent: deps.bus.identity, instance, host, pid, concurrency: about.concurrency, started_at: deps.clock.now() }
  }

  static async start(deps: Deps, about: { concurrency: number; logger: WorkerLogger }): Promise<Heartbeat> {
    return new Heartbeat(deps, await deps.bus.table('presence', presenceRecord), about)
  }

  /** Reason why the heartbeat cannot be written, or `undefined` if it can. */
  get trouble(): string | undefined {
    return this.#failure
  }

  /** Called often by the worker's sweep. Writes the entry when it is due or `running` has changed. */
  tick(running: number): void {
    if (this.#stopped || this.#writing) return
    const now = this.#deps.clock.monotonic()
    const since = this.#written ? now - this.#written.at : Number.POSITIVE_INFINITY
    if (since < (running === this.#written?.running ? INTERVAL_MS : CHANGED_INTERVAL_MS)) return
    this.#written = { at: now, running }
    this.#writing = this.#write(running)
  }

  /** Stops the heartbeat and deletes the entry. */
  async stop(): Promise<void> {
    if (this.#stopped) return
    this.#stopped = true
    await withTimeout(this.#deps.clock, STOP_TIMEOUT_MS, this.#remove())
  }

  async #write(running: number): Promise<void> {
    try {
      await this.#put({ ...this.#record, running, seen_at: this.#deps.clock.now() })
      this.#failure = undefined
    } catch (error) {
      this.#failure = `its heartbeat cannot be written: ${messageOf(error)}`
      // Losing the server and refused credentials are logged elsewhere.
      if (this.#failed || !this.#deps.bus.connected) return
      this.#failed = true
      this.#logger({ kind: 'unseen', text: `${this.#record.agent} is working, but its heartbeat cannot be written: ${messageOf(error)}` })
    } finally {
      this.#writing = undefined
    }
  }

  /**
   * Writes the record to its key, or to a free key if it has none. The server has a bounded number of places for an agent and derives the place from
   * the key, so the key of another worker may map to the same place.
   */
  async #put(record: PresenceRecord): Promise<void> {
    const known = this.#entry
    this.#entry = undefined
    const revision = known && (await this.#table.update(known.key, record, known.revision))
    if (known && revision !== undefined) this.#entry = { key: known.key, revision }
    for (let tries = 0; !this.#entry && tries < MAX_TRIES; tries++) {
      const key = `${record.agent}.${makeInstance(this.#deps.random)}`
      const created = await this.#table.update(key, record, 0)
      if (created !== undefined) this.#entry = { key, revision: created }
    }
    if (!this.#entry) throw new Error(`the maximum number of workers of ${record.agent} is running`)
  }

  async #remove(): Promise<void> {
    await this.#writing
    if (this.#entry) await this.#table.delete(this.#entry.key, this.#entry.revision).catch(() => undefined)
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
