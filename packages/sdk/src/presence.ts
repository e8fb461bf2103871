import type { Table } from '@passover/bus'
import { within } from '@passover/core'
import { makeInstance, type PresenceRecord, presenceRecord } from '@passover/schemas'
import type { Deps } from './deps.js'
import type { Told } from './worker-log.js'

/** Four times within the age after which it would be taken for gone. */
const EVERY_MS = 5_000
const CHANGED_MS = 1_000
const STOP_MS = 1_000

/**
 * Says that a worker is up and how busy, for `passover agents`. It never harms the work: one write at a time, none is waited
 * for, and that it fails is told once.
 */
export class Presence {
  readonly #deps: Deps
  readonly #table: Table<PresenceRecord>
  readonly #told: Told
  readonly #record: Omit<PresenceRecord, 'running' | 'seen_at'>
  #written: { at: number; running: number } | undefined
  #writing: Promise<void> | undefined
  #stopped = false
  #failed = false
  #unseen: string | undefined

  private constructor(deps: Deps, table: Table<PresenceRecord>, about: { concurrency: number; told: Told }) {
    this.#deps = deps
    this.#table = table
    this.#told = about.told
    const { host = 'unknown', pid = 0 } = deps.process ?? {}
    const instance = makeInstance(deps.random)
    this.#record = { agent: deps.bus.identity, instance, host, pid, concurrency: about.concurrency, started_at: deps.clock.now() }
  }

  static async start(deps: Deps, about: { concurrency: number; told: Told }): Promise<Presence> {
    return new Presence(deps, await deps.bus.table('presence', presenceRecord), about)
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
    if (since < (running === this.#written?.running ? EVERY_MS : CHANGED_MS)) return
    this.#written = { at: now, running }
    this.#writing = this.#write(running)
  }

  /** It is not up any more. */
  async stop(): Promise<void> {
    if (this.#stopped) return
    this.#stopped = true
    await within(this.#deps.clock, STOP_MS, this.#remove())
  }

  get #key(): string {
    return `${this.#record.agent}.${this.#record.instance}`
  }

  async #write(running: number): Promise<void> {
    try {
      await this.#table.put(this.#key, { ...this.#record, running, seen_at: this.#deps.clock.now() })
      this.#unseen = undefined
    } catch (error) {
      this.#unseen = `it cannot say that it is up: ${messageOf(error)}`
      if (!this.#failed) this.#told({ kind: 'unseen', text: `${this.#record.agent} works, but cannot say so: ${messageOf(error)}` })
      this.#failed = true
    } finally {
      this.#writing = undefined
    }
  }

  async #remove(): Promise<void> {
    await this.#writing
    if (this.#written) await this.#table.delete(this.#key).catch(() => undefined)
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
