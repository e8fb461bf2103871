import { randomBytes } from 'node:crypto'
import { type AuditRunning, type AuditSettings, startAudit } from '@passover/audit'
import { type Bus, openBus } from '@passover/bus'
import type { DispatcherSettings } from '@passover/dispatcher'
import type { Agent } from '@passover/sdk'
import { createAgent, type Faults } from '@passover/sdk/internal'
import { openTracing } from '@passover/tracing'
import { outputSchemas } from '@passover/validation'
import { clockOf, SILENT, World } from './dispatcher.js'

export interface AgentWorldOptions {
  dispatchers?: DispatcherSettings[]
  /** false: nobody answers questions (default: one audit). */
  audit?: AuditSettings | false
  nodes?: 1 | 3
  /** The stream's limit. */
  max_bytes?: number
}

/** A world with everything that a real installation runs, and agents on connections of their own. */
export class AgentWorld implements AsyncDisposable {
  readonly world: World
  readonly audits: AuditRunning[] = []
  readonly #opened: AsyncDisposable[] = []
  /** The connection of each agent, for tests that cut it. */
  readonly buses = new Map<Agent, Bus>()

  private constructor(world: World) {
    this.world = world
  }

  static async start(options: AgentWorldOptions = {}): Promise<AgentWorld> {
    const { audit = {}, ...rest } = options
    const made = new AgentWorld(await World.start(rest))
    if (audit) await made.audit(audit)
    return made
  }

  async audit(settings: AuditSettings = {}): Promise<AuditRunning> {
    const bus = await openBus({ servers: this.world.nats.servers, identity: 'passover', name: 'audit', onError: () => undefined })
    const running = await startAudit(
      { bus, clock: clockOf(bus), random: { bytes: (n) => randomBytes(n) }, log: SILENT, schemas: outputSchemas() },
      settings,
    )
    this.audits.push(running)
    this.#opened.push(running, bus)
    return running
  }

  /** `session_id`: of its connection; `''`: none was named. */
  async agent(
    name: string,
    faults?: Faults,
    servers: string | string[] = this.world.nats.servers,
    session_id = 'session-of-test',
  ): Promise<Agent> {
    const bus = await openBus({ servers, identity: name, onError: () => undefined })
    const deps = {
      bus,
      clock: clockOf(bus),
      random: { bytes: (n: number) => randomBytes(n) },
      schemas: outputSchemas(),
      // As in a process of its own: whatever OpenTelemetry the test registers.
      tracing: await openTracing({ env: {}, service: name, say: () => undefined }),
      ...(faults && { faults }),
    }
    const agent = createAgent(deps, { directory: '/project', sessionId: session_id || undefined })
    this.buses.set(agent, bus)
    this.#opened.unshift(agent)
    return agent
  }

  /** As a process that dies: its connection is gone without a word, and nobody waits for it. */
  async die(agent: Agent): Promise<void> {
    this.#opened.splice(this.#opened.indexOf(agent), 1)
    await this.buses.get(agent)?.[Symbol.asyncDispose]()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const one of this.#opened) await one[Symbol.asyncDispose]()
    await this.world[Symbol.asyncDispose]()
  }
}
