import { AgentRegistry, type Table, VerifiedAgents } from '@passover/bus'
import { type AgentRecord, agentName, agentRecord } from '@passover/schemas'
import type { Logger } from 'pino'
import { type DispatcherDeps, timingOf } from '../runtime/dependencies.js'

/** A name that nobody registered is not looked up again for so long: an unknown originator may ask often. */
const UNKNOWN_MS = 1_000
const MOST_UNKNOWN = 10_000

export type OnAgent = (record: AgentRecord) => void
/** Called with the name of an agent for which returns waited, and shall not any more. */
export type OnReturnsLeft = (name: string) => void

/**
 * The agents, as the bucket `agents` has them and events told: watched, and read once where another dispatcher may have just written. A record
 * without its event changes nothing.
 */
export class Registry implements AsyncDisposable {
  readonly table: Table<AgentRecord>
  readonly writes: AgentRegistry
  readonly #records = new Map<string, AgentRecord>()
  /** Names that are not registered, until when (server ms). */
  readonly #unknown = new Map<string, number>()
  readonly #loading = new Map<string, Promise<AgentRecord | undefined>>()
  /** Names that are being loaded and of which the watch reported meanwhile. */
  readonly #changedMeanwhile = new Set<string>()
  readonly #now: () => number
  readonly #log: Logger
  #onAgent: OnAgent = () => undefined
  #onReturnsLeft: OnReturnsLeft = () => undefined
  readonly #told: VerifiedAgents

  private constructor(deps: DispatcherDeps, table: Table<AgentRecord>, told: VerifiedAgents) {
    this.table = table
    this.#told = told
    this.writes = new AgentRegistry(deps.bus, table, timingOf(deps))
    this.#now = () => deps.clock.now()
    this.#log = deps.log
  }

  static async start(deps: DispatcherDeps): Promise<Registry> {
    const table = await deps.bus.table('agents', agentRecord)
    const registry = new Registry(deps, table, await VerifiedAgents.open(deps.bus, timingOf(deps)))
    await registry.#told.watch(table, (name, record) => registry.#changed(name, record))
    const made = await registry.rebuild()
    if (made > 0) deps.log.warn({ agents: made }, 'agents put back from their events')
    return registry
  }

  /**
   * Puts back what the stream tells and the bucket never had: after the bucket was lost, or a registration died between its event and its
   * record, or replaces a value that the server wrote on a client's behalf. What was removed from the bucket stays removed. Returns how many records were made.
   */
  async rebuild(): Promise<number> {
    const bounced = new Map((await this.table.bounced()).map(({ key, revision }) => [key, revision]))
    const made = [...this.#told.newest()].map(([name, record]) => record && this.table.update(name, record, bounced.get(name) ?? 0))
    return (await Promise.all(made)).filter((revision) => revision !== undefined).length
  }

  get(name: string): AgentRecord | undefined {
    return this.#records.get(name)
  }

  /** Whether the bucket was asked for this name a moment ago, and had none. */
  isUnknown(name: string): boolean {
    const until = this.#unknown.get(name)
    return until !== undefined && until > this.#now()
  }

  /** Asks the bucket for a name that the watch has not told of yet. */
  async load(name: string): Promise<AgentRecord | undefined> {
    if (this.isUnknown(name)) return undefined
    const loading = this.#loading.get(name) ?? this.#load(name).finally(() => this.#loading.delete(name))
    this.#loading.set(name, loading)
    return loading
  }

  /** Agents that have consumers: passes may go to them, or returns wait for them. */
  *consuming(): Iterable<AgentRecord> {
    for (const record of this.#records.values()) if (record.roles.subagent || record.durable_returns) yield record
  }

  /** Called for every record there is and for each that comes or changes. */
  set onAgent(listener: OnAgent) {
    this.#onAgent = listener
  }

  set onReturnsLeft(listener: OnReturnsLeft) {
    this.#onReturnsLeft = listener
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#told[Symbol.asyncDispose]()
  }

  async #load(name: string): Promise<AgentRecord | undefined> {
    this.#changedMeanwhile.delete(name)
    const entry = await this.table.get(name)
    const isTold = entry?.value.name === name && (await this.#told.hasBy(name, entry.value))
    // The read may come from a replica that lags behind: what the watch reported wins.
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
      // A copy that lags behind may still have it.
      this.#leaveOut(name)
      return
    }
    if (record.name !== name || !agentName.safeParse(name).success) {
      this.#log.warn({ name }, 'agent record left out: it stands under another name')
      return
    }
    this.#records.set(name, record)
    this.#onAgent(record)
  }
}
