import type { Table } from '@passover/bus'
import { withTimeout } from '@passover/core'
import { makeInstance, type PresenceRecord, presenceRecord } from '@passover/schemas'
import type { WorkerLogger } from '../attempt/worker-events.js'
import type { Deps } from '../runtime/dependencies.js'

/** Four times within the age after which it would be taken for gone. */
const INTERVAL_MS = 5_000
const CHANGED_INTERVAL_MS = 1_000
const STOP_TIMEOUT_MS = 1_000
/** Places that are tried for a new entry; most are free unless an agent has hundreds of workers. */
const MAX_TRIES = 8

/**
 * Says that a worker is up and how busy, for `passover agents`. It never harms the work: one write at a time, none is waited
 * for, and that it fails is told once.
 */
export class Heartbeat {
  readonly #deps: Deps
  readonly #table: Table<PresenceRecord>
  readonly #told: WorkerLogger
  readonly #record: Omit<PresenceRecord, 'running' | 'seen_at'>
  #written: { at: number; running: number } | undefined
  /** Where its entry is. */
  #place: { key: string; revision: number } | undefined
  #writing: Promise<void> | undefined
  #stopped = false
  #failed = false
  #unseen: string | undefined

  private constructor(deps: Deps, table: Table<PresenceRecord>, about: { concurrency: number; told: WorkerLogger }) {
    this.#deps = deps
    this.#table = table
    this.#told = about.told
    const { host = 'unknown', pid = 0 } = deps.process ?? {}
    const instance = makeInstance(deps.random)
    this.#record = { agent: deps.bus.identity, instance, host, pid, concurrency: about.concurrency, started_at: deps.clock.now() }
  }

  static async start(deps: Deps, about: { concurrency: number; told: WorkerLogger }): Promise<Heartbeat> {
    return new Heartbeat(deps, await deps.bus.table('presence', presenceRecord), about)
  }

  /** Why others cannot see it; undefined: they can. */
  get trouble(): string | undefined {
    return this.#unseen
  }

  /** Called often by the worker's sweep; writes where it is time, or `running` has changed. */
  tick(running: number): void {
    if (this.#stopped || this.#writing) return
    const now = this.#deps.clock.monotonic()
    const since = this.#written ? now - this.#written.at : Number.POSITIVE_INFINITY
    if (since < (running === this.#written?.running ? INTERVAL_MS : CHANGED_INTERVAL_MS)) return
    this.#written = { at: now, running }
    this.#writing = this.#write(running)
  }

  /** It is not up any more. */
  async stop(): Promise<void> {
    if (this.#stopped) return
    this.#stopped = true
    await withTimeout(this.#deps.clock, STOP_TIMEOUT_MS, this.#remove())
  }

  async #write(running: number): Promise<void> {
    try {
      await this.#put({ ...this.#record, running, seen_at: this.#deps.clock.now() })
      this.#unseen = undefined
    } catch (error) {
      this.#unseen = `it cannot say that it is up: ${messageOf(error)}`
      // That the server is lost, or refuses the worker, is told by itself.
      if (this.#failed || !this.#deps.bus.connected) return
      this.#failed = true
      this.#told({ kind: 'unseen', text: `${this.#record.agent} works, but cannot say so: ${messageOf(error)}` })
    } finally {
      this.#writing = undefined
    }
  }

  /**
   * Writes the record to its place, or to a free one where it has none. The server has a bounded number of places for an agent and derives the
   * place from the key, so the key of another worker may lead to the same place.
   */
  async #put(record: PresenceRecord): Promise<void> {
    const known = this.#place
    this.#place = undefined
    const revision = known && (await this.#table.update(known.key, record, known.revision))
    if (known && revision !== undefined) this.#place = { key: known.key, revision }
    for (let tries = 0; !this.#place && tries < MAX_TRIES; tries++) {
      const key = `${record.agent}.${makeInstance(this.#deps.random)}`
      const created = await this.#table.update(key, record, 0)
      if (created !== undefined) this.#place = { key, revision: created }
    }
    if (!this.#place) throw new Error(`all places for workers of ${record.agent} are taken`)
  }

  async #remove(): Promise<void> {
    await this.#writing
    if (this.#place) await this.#table.delete(this.#place.key, this.#place.revision).catch(() => undefined)
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
