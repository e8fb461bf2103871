import { AgentRegistry, type Table, VerifiedAgents } from '@passover/bus'
import { type AgentRecord, agentRecord, newAgentName } from '@passover/schemas'
import type { Logger } from 'pino'
import { type DispatcherDeps, timingOf } from '../runtime/dependencies.js'

/** Milliseconds for which a name that is not registered is not looked up again, since an unknown originator may ask often. */
const UNKNOWN_MS = 1_000
const MOST_UNKNOWN = 10_000

export type OnAgent = (record: AgentRecord) => void
/** Called with the name of an agent whose durable returns were switched off. */
export type OnReturnsLeft = (name: string) => void

/**
 * The registered agents from the bucket `agents`. The bucket is watched, and read once for a name that another dispatcher may have just written. A
 * record without an event in the stream is ignored.
 */
export class Registry implements AsyncDisposable {
  readonly table: Table<AgentRecord>
  readonly writes: AgentRegistry
  readonly #records = new Map<string, AgentRecord>()
  /** Names that are not registered, with the server time (ms) until which they are not looked up again. */
  readonly #unknown = new Map<string, number>()
  readonly #loading = new Map<string, Promise<AgentRecord | undefined>>()
  /** Names that the watch reported while they were being loaded. */
  readonly #changedMeanwhile = new Set<string>()
  readonly #now: () => number
  readonly #log: Logger
  #onAgent: OnAgent = () => undefined
  #onReturnsLeft: OnReturnsLeft = () => undefined
  readonly #verified: VerifiedAgents

  private constructor(deps: DispatcherDeps, table: Table<AgentRecord>, verified: VerifiedAgents) {
    this.table = table
    this.#verified = verified
    this.writes = new AgentRegistry(deps.bus, table, timingOf(deps))
    this.#now = () => deps.clock.now()
    this.#log = deps.log
  }

  static async start(deps: DispatcherDeps): Promise<Registry> {
    const table = await deps.bus.table('agents', agentRecord)
    const registry = new Registry(deps, table, await VerifiedAgents.open(deps.bus, timingOf(deps)))
    await registry.#verified.watch(table, (name, record) => registry.#changed(name, record))
    const made = await registry.rebuild()
    if (made > 0) deps.log.warn({ agents: made }, 'agents restored from their events')
    return registry
  }

  /**
   * Restores records that have an event in the stream but were never stored in the bucket: after the bucket was lost, or after a registration crashed
   * between its event and its record. Also replaces values that the server wrote on a client's behalf. Records removed from the bucket stay removed.
   * Returns the number of restored records.
   */
  async rebuild(): Promise<number> {
    const bounced = new Map((await this.table.bounced()).map(({ key, revision }) => [key, revision]))
    const made = [...this.#verified.newest()].map(([name, record]) => record && this.table.update(name, record, bounced.get(name) ?? 0))
    return (await Promise.all(made)).filter((revision) => revision !== undefined).length
  }

  get(name: string): AgentRecord | undefined {
    return this.#records.get(name)
  }

  /** Returns true if the bucket was asked for this name within the last second and has no record. */
  isUnknown(name: string): boolean {
    const until = this.#unknown.get(name)
    return until !== undefined && until > this.#now()
  }

  /** Reads a name from the bucket that the watch has not reported yet. */
  async load(name: string): Promise<AgentRecord | undefined> {
    if (this.isUnknown(name)) return undefined
    const loading = this.#loading.get(name) ?? this.#load(name).finally(() => this.#loading.delete(name))
    this.#loading.set(name, loading)
    return loading
  }

  /**
   * Returns the revoked agents as of all events stored so far, with the sequences of the events that revoked them. Returns `undefined` if these
   * cannot be read in time.
   */
  revoked(): Promise<ReadonlyMap<string, number> | undefined> {
    return this.#verified.revokedBy()
  }

  /** Yields the agents that have consumers: subagents, and agents with durable returns. */
  *consuming(): Iterable<AgentRecord> {
    for (const record of this.#records.values()) if (record.roles.subagent || record.durable_returns) yield record
  }

  /** Called for each record that is added or changed from now on. Records that are already known are not reported. */
  set onAgent(listener: OnAgent) {
    this.#onAgent = listener
  }

  set onReturnsLeft(listener: OnReturnsLeft) {
    this.#onReturnsLeft = listener
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#verified[Symbol.asyncDispose]()
  }

  async #load(name: string): Promise<AgentRecord | undefined> {
    this.#changedMeanwhile.delete(name)
    const entry = await this.table.get(name)
    const isTold = entry?.value.name === name && (await this.#verified.hasBy(name, entry.value))
    // The read may come from a lagging replica, so a change that the watch reported takes precedence.
    if (this.#changedMeanwhile.delete(name)) return this.#records.get(name)
    if (entry && isTold) {
      this.#records.set(name, entry.value)
      return entry.value
    }
    this.#leaveOut(name)
    return undefined
  }

  #leaveOut(name: string): void {
    if (this.#unknown.size >= MOST_UNKNOWN) this.#unknown.clear()
    this.#unknown.set(name, this.#now() + UNKNOWN_MS)
  }

  #changed(name: string, record: AgentRecord | undefined): void {
    this.#unknown.delete(name)
    if (this.#loading.has(name)) this.#changedMeanwhile.add(name)
    if (this.#records.get(name)?.durable_returns && !record?.durable_returns) this.#onReturnsLeft(name)
    if (!record) {
      this.#records.delete(name)
      // A lagging replica may still return the removed record.
      this.#leaveOut(name)
      return
    }
    if (record.name !== name || !newAgentName.safeParse(name).success) {
      this.#log.warn({ name }, 'agent record ignored: it is stored under another name, or its name is reserved')
      return
    }
    this.#records.set(name, record)
    this.#onAgent(record)
  }
}
