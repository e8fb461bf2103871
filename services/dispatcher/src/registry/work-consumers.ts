import { resolvePolicy, SYSTEM_DEFAULTS } from '@passover/core'
import { type AgentRecord, PRIORITIES } from '@passover/schemas'
import type { LivePolicy } from '../limits/live-policy.js'
import { JobPool } from '../runtime/job-pool.js'
import type { RegistryContext } from './update-agent.js'

/**
 * Number of agents checked in one round, so that thousands of agents do not keep the server busy. If there are more, missing consumers are found
 * through one listing.
 */
const AGENTS_PER_ROUND = 200
const CONCURRENCY = 4

/**
 * Returns the first sequence that a newly created work consumer must deliver: the subagent's lowest open work, or the next message to be stored.
 * `unknown` if the timekeeper has not read the whole stream yet; `undefined` if this process runs no timekeeper, so that all stored work is
 * delivered.
 */
export type WorkStart = (subagent: string) => number | 'unknown' | undefined

/**
 * Ensures that every subagent has its work consumers. A lost consumer is created again only some seconds after it was seen missing, from the lowest
 * open work. By then its workers know that the consumer is new and do not mistake a redelivery for a first delivery
 * (docs/architecture/storage.md#durable-consumers).
 */
export class WorkConsumers {
  readonly #context: RegistryContext & { policy: LivePolicy }
  readonly #workStart: WorkStart
  readonly #pool = new JobPool(CONCURRENCY)
  /** Monotonic time in milliseconds since which each agent's consumers have been missing. */
  readonly #missing = new Map<string, number>()
  /** Settings last applied to each agent's consumers and parts bucket. They change with the policy and the registry. */
  readonly #appliedSettings = new Map<string, string>()
  /** Agents whose durable returns were switched off and whose consumer of returns is not removed yet. */
  readonly #toRemove = new Set<string>()
  /** True once the consumers of returns that became unused before this process started have been found. */
  #unusedFound = false
  #timer: Disposable | undefined
  #next = 0
  #stopped = false

  constructor(context: RegistryContext & { policy: LivePolicy }, workStart: WorkStart) {
    this.#context = context
    this.#workStart = workStart
  }

  start(): void {
    this.#context.registry.onAgent = (record) => this.#checkSoon(record)
    this.#context.registry.onReturnsLeft = (name) => this.#scheduleRemoval(name)
    for (const record of this.#context.registry.consuming()) this.#checkSoon(record)
    this.#findUnusedReturnConsumers()
    this.#schedule()
  }

  /** Creates the consumers and the parts bucket of a new agent, or of one whose consumers were lost. */
  async make(record: AgentRecord): Promise<void> {
    const from = this.#workStart(record.name)
    await this.#ensure(record, typeof from === 'number' ? { from } : {})
    this.#missing.delete(record.name)
  }

  async #ensure(record: AgentRecord, how: { from?: number; lost?: 'leave' }): Promise<void> {
    const settings = this.#settingsOf(record)
    await this.#context.deps.bus.ensureAgent(record.name, { subagent: record.roles.subagent, ...settings, ...how })
    this.#appliedSettings.set(record.name, settingsText(settings))
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#timer?.[Symbol.dispose]()
    this.#pool.clear()
    await this.#pool.idle()
  }

  #settingsOf(record: AgentRecord): ConsumerSettings {
    const policy = resolvePolicy(this.#context.policy.current().document, { from: record.name, to: record.name, agent: record })
    const { max_attempts, lease_ms } = policy.ok ? policy.value.effective : SYSTEM_DEFAULTS
    return { max_attempts, lease_ms, parts_bytes: record.parts_bytes ?? this.#context.options.parts_bytes }
  }

  #schedule(): void {
    this.#timer = this.#context.deps.clock.after(this.#context.options.consumers_ms, () => {
      if (this.#stopped) return
      this.#round()
      this.#schedule()
    })
  }

  #round(): void {
    if (this.#pool.waiting > 0) return
    if (!this.#unusedFound) this.#findUnusedReturnConsumers()
    for (const name of this.#toRemove) this.#removeReturnConsumer(name)
    const all = [...this.#context.registry.consuming()]
    if (all.length > AGENTS_PER_ROUND) this.#findLost(all)
    for (let n = 0; n < Math.min(AGENTS_PER_ROUND, all.length); n++) {
      const record = all[this.#next++ % all.length]
      if (record) this.#checkSoon(record)
    }
  }

  /**
   * Finds missing consumers through one listing, since checking agents in turn would take many rounds. The listing may be incomplete if consumers
   * change meanwhile, so each reported agent is checked by itself.
   */
  #findLost(all: readonly AgentRecord[]): void {
    this.#pool.add(async () => {
      const { bus, log } = this.#context.deps
      try {
        if (this.#stopped) return
        const expected = all.map(({ name, roles, durable_returns }) => ({
          name,
          work: roles.subagent,
          returns: durable_returns !== undefined,
        }))
        const missing = new Set(await bus.findMissingConsumers(expected))
        for (const record of all) if (missing.has(record.name)) this.#checkSoon(record)
      } catch (error) {
        log.warn({ err: error }, 'consumers not listed')
      }
    })
  }

  #checkSoon(record: AgentRecord): void {
    this.#pool.add(async () => {
      try {
        if (!this.#stopped) await this.#check(record)
      } catch (error) {
        this.#context.deps.log.warn({ err: error, agent: record.name }, 'work consumers not checked')
      }
    })
  }

  /** Finds consumers of returns that became unused while no dispatcher ran. */
  #findUnusedReturnConsumers(): void {
    this.#pool.add(async () => {
      const { deps, registry } = this.#context
      try {
        if (this.#stopped) return
        for (const name of await deps.bus.listReturnConsumers()) if (!registry.get(name)?.durable_returns) this.#scheduleRemoval(name)
        this.#unusedFound = true
      } catch (error) {
        deps.log.warn({ err: error }, 'consumers of returns not checked')
      }
    })
  }

  #scheduleRemoval(name: string): void {
    this.#toRemove.add(name)
    this.#removeReturnConsumer(name)
  }

  /**
   * Removes the consumer of an agent's returns. If the agent asks for durable returns again meanwhile, returns wait from then on: the next check
   * creates a new consumer.
   */
  #removeReturnConsumer(name: string): void {
    this.#pool.add(async () => {
      const { bus, log } = this.#context.deps
      try {
        if (this.#stopped) return
        if (!(await this.#context.registry.table.get(name))?.value.durable_returns) await bus.removeReturns(name)
        this.#toRemove.delete(name)
      } catch (error) {
        log.warn({ err: error, agent: name }, 'consumer of returns not removed')
      }
    })
  }

  async #check(record: AgentRecord): Promise<void> {
    const { clock, log, bus } = this.#context.deps
    // Read again, because the record may have changed since this check was queued.
    const returns = this.#context.registry.get(record.name)?.durable_returns
    if (returns) await bus.ensureReturns(record.name, returns.from)
    if (!record.roles.subagent || !(await this.#isMissing(record.name))) {
      this.#missing.delete(record.name)
      if (record.roles.subagent || record.parts_bytes !== undefined) await this.#tune(record)
      return
    }
    const since = this.#missing.get(record.name)
    if (since === undefined) {
      this.#missing.set(record.name, clock.monotonic())
      clock.after(this.#context.options.missing_ms, () => this.#checkSoon(record))
      return
    }
    if (clock.monotonic() - since < this.#context.options.missing_ms || this.#workStart(record.name) === 'unknown') return
    await this.make(record)
    log.warn({ agent: record.name }, 'work consumers recreated')
  }

  /**
   * Applies lease, attempts and the limit of the parts bucket as policy and registry now define them. Does not create a lost consumer: the next check
   * finds it missing.
   */
  async #tune(record: AgentRecord): Promise<void> {
    if (this.#appliedSettings.get(record.name) === settingsText(this.#settingsOf(record)) || this.#workStart(record.name) === 'unknown')
      return
    await this.#ensure(record, { lost: 'leave' })
  }

  async #isMissing(agent: string): Promise<boolean> {
    for (const priority of PRIORITIES) {
      await using source = this.#context.deps.bus.work(agent, priority)
      if ((await source.created()) === undefined) return true
    }
    return false
  }
}

interface ConsumerSettings {
  max_attempts: number
  lease_ms: number
  parts_bytes: number | undefined
}

function settingsText({ max_attempts, lease_ms, parts_bytes }: ConsumerSettings): string {
  return `${max_attempts} ${lease_ms} ${parts_bytes ?? ''}`
}
