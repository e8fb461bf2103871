import { resolvePolicy, SYSTEM_DEFAULTS } from '@passover/core'
import { type AgentRecord, SLOTS } from '@passover/schemas'
import type { LivePolicy } from '../limits/live-policy.js'
import { JobPool } from '../runtime/job-pool.js'
import type { RegistryContext } from './update-agent.js'

/** Agents looked at in one round, so that thousands of them do not keep the server busy; of more, those that lack one are found by one listing. */
const ROUND = 200
const WIDTH = 4

/**
 * First sequence that a work consumer made now must deliver: the subagent's lowest open work, or what is stored from now on.
 * `unknown`: the timekeeper has not read all yet. Undefined: nobody keeps time here, so all work there is.
 */
export type WorkStart = (subagent: string) => number | 'unknown' | undefined

/**
 * Sees to it that every subagent has its work consumers. A lost one is made again only some seconds after it was seen
 * missing, from the lowest open work: by then its workers take no younger delivery for a first one (docs/architecture/storage.md#durable-consumers).
 */
export class WorkConsumers {
  readonly #context: RegistryContext & { policy: LivePolicy }
  readonly #workStart: WorkStart
  readonly #pool = new JobPool(WIDTH)
  /** Since when (monotonic ms) each agent's consumers have been seen missing. */
  readonly #missing = new Map<string, number>()
  /** Settings that each agent's consumers and parts bucket were last given: policy and registry change while they exist. */
  readonly #tuned = new Map<string, string>()
  /** For whom returns shall wait no longer, until the server keeps no place for them. */
  readonly #leaving = new Set<string>()
  /** It was seen which places nobody needs any more since before this process began. */
  #compared = false
  #timer: Disposable | undefined
  #next = 0
  #stopped = false

  constructor(context: RegistryContext & { policy: LivePolicy }, workStart: WorkStart) {
    this.#context = context
    this.#workStart = workStart
  }

  start(): void {
    this.#context.registry.onAgent = (record) => this.#later(record)
    this.#context.registry.onReturnsLeft = (name) => this.#leaves(name)
    for (const record of this.#context.registry.consuming()) this.#later(record)
    this.#compare()
    this.#schedule()
  }

  /** Makes the consumers and the parts bucket of an agent that had none before. */
  async make(record: AgentRecord): Promise<void> {
    const from = this.#workStart(record.name)
    await this.#ensure(record, typeof from === 'number' ? { from } : {})
    this.#missing.delete(record.name)
  }

  async #ensure(record: AgentRecord, how: { from?: number; lost?: 'leave' }): Promise<void> {
    const tuned = this.#tunedOf(record)
    await this.#context.deps.bus.ensureAgent(record.name, { subagent: record.roles.subagent, ...tuned, ...how })
    this.#tuned.set(record.name, tunedText(tuned))
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#timer?.[Symbol.dispose]()
    this.#pool.clear()
    await this.#pool.idle()
  }

  #tunedOf(record: AgentRecord): Tuned {
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
    if (!this.#compared) this.#compare()
    for (const name of this.#leaving) this.#leave(name)
    const all = [...this.#context.registry.consuming()]
    if (all.length > ROUND) this.#findLost(all)
    for (let n = 0; n < Math.min(ROUND, all.length); n++) {
      const record = all[this.#next++ % all.length]
      if (record) this.#later(record)
    }
  }

  /** Each by itself would have its turn only once in many rounds. A listing may be cut by what changes meanwhile: each that it misses is looked at. */
  #findLost(all: readonly AgentRecord[]): void {
    this.#pool.add(async () => {
      const { bus, log } = this.#context.deps
      try {
        if (this.#stopped) return
        const wanted = all.map(({ name, roles, durable_returns }) => ({
          name,
          work: roles.subagent,
          returns: durable_returns !== undefined,
        }))
        const lacking = new Set(await bus.findMissingConsumers(wanted))
        for (const record of all) if (lacking.has(record.name)) this.#later(record)
      } catch (error) {
        log.warn({ err: error }, 'consumers not listed')
      }
    })
  }

  #later(record: AgentRecord): void {
    this.#pool.add(async () => {
      try {
        if (!this.#stopped) await this.#check(record)
      } catch (error) {
        this.#context.deps.log.warn({ err: error, agent: record.name }, 'work consumers not checked')
      }
    })
  }

  /** What was to go while no dispatcher ran. */
  #compare(): void {
    this.#pool.add(async () => {
      const { deps, registry } = this.#context
      try {
        if (this.#stopped) return
        for (const name of await deps.bus.listReturnConsumers()) if (!registry.get(name)?.durable_returns) this.#leaves(name)
        this.#compared = true
      } catch (error) {
        deps.log.warn({ err: error }, 'consumers of returns not compared with the agents')
      }
    })
  }

  #leaves(name: string): void {
    this.#leaving.add(name)
    this.#leave(name)
  }

  /** The server keeps no place for returns that nobody shall be told. Said again meanwhile, they wait from then on: who checks makes it anew. */
  #leave(name: string): void {
    this.#pool.add(async () => {
      const { bus, log } = this.#context.deps
      try {
        if (this.#stopped) return
        if (!(await this.#context.registry.table.get(name))?.value.durable_returns) await bus.removeReturns(name)
        this.#leaving.delete(name)
      } catch (error) {
        log.warn({ err: error, agent: name }, 'the consumer of its returns was not removed')
      }
    })
  }

  async #check(record: AgentRecord): Promise<void> {
    const { clock, log, bus } = this.#context.deps
    // As it is by now: it may have changed since this was queued.
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
      clock.after(this.#context.options.missing_ms, () => this.#later(record))
      return
    }
    if (clock.monotonic() - since < this.#context.options.missing_ms || this.#workStart(record.name) === 'unknown') return
    await this.make(record)
    log.warn({ agent: record.name }, 'work consumers made again')
  }

  /** Lease and attempts of the consumers, and the limit of the parts bucket, follow policy and registry. One that is lost meanwhile is seen missing by the next look. */
  async #tune(record: AgentRecord): Promise<void> {
    if (this.#tuned.get(record.name) === tunedText(this.#tunedOf(record)) || this.#workStart(record.name) === 'unknown') return
    await this.#ensure(record, { lost: 'leave' })
  }

  async #isMissing(agent: string): Promise<boolean> {
    for (const slot of SLOTS) {
      await using source = this.#context.deps.bus.work(agent, slot)
      if ((await source.created()) === undefined) return true
    }
    return false
  }
}

interface Tuned {
  max_attempts: number
  lease_ms: number
  parts_bytes: number | undefined
}

function tunedText({ max_attempts, lease_ms, parts_bytes }: Tuned): string {
  return `${max_attempts} ${lease_ms} ${parts_bytes ?? ''}`
}
