import { type AuditSettings, startAudit } from '@passover/audit'
import type { Bus, Principal, TopologyOptions } from '@passover/bus'
import { startDispatcher } from '@passover/dispatcher'
import type { ServerSettings } from '@passover/nats-server'
import type { Agent } from '@passover/sdk'
import { createAgent } from '@passover/sdk/internal'
import { registerAgent } from '../builders/register.js'
import { until } from '../processes/until.js'
import { type PermittedFixture, type Probe, permittedFixture } from '../servers/permitted.js'
import { clockOf, random, SILENT } from './dispatcher.js'

const PERSON = 'maria'

export interface PermittedAgents<Name extends string> extends AsyncDisposable {
  fixture: PermittedFixture
  agents: Record<Name, Agent>
  /** A person's connection. */
  person: Bus
  audit: Awaited<ReturnType<typeof startAudit>>
  dispatcher: Awaited<ReturnType<typeof startDispatcher>>
  /** A bare client with an agent's credentials. */
  probe(name: Name): Promise<Probe>
}

interface Options<Name extends string> {
  /** All but the first receive passes; the first one originates by itself. */
  names: readonly Name[]
  config?: ServerSettings & { max_file_bytes?: number }
  topology?: TopologyOptions
  audit?: AuditSettings
  /** What the person may do. Default: a person. */
  person?: 'person' | 'custodian'
}

/** A server that enforces permissions, a dispatcher, an audit, and registered agents whose parts buckets exist. */
export async function permittedAgents<Name extends string>(options: Options<Name>): Promise<PermittedAgents<Name>> {
  const { names, config, topology } = options
  const principals = Object.fromEntries(
    names.map((name, n) => [name, { role: 'agent', name, originates: true, subagent: n > 0 }]),
  ) as unknown as Record<Name, Principal>
  const maria: Principal = { role: options.person ?? 'person', name: PERSON }
  const everybody = [
    ...Object.values<Principal>(principals),
    maria,
    { role: 'dispatcher' as const },
    { role: 'audit' as const },
    { role: 'notifier' as const },
  ]
  const fixture = await permittedFixture(everybody, config ? { config } : {})
  const [dispatcherBus, auditBus, person] = await Promise.all([
    fixture.bus({ role: 'dispatcher' }),
    fixture.bus({ role: 'audit' }),
    fixture.bus(maria),
  ])
  await dispatcherBus.ensureTopology(topology)
  const deps = { random, log: SILENT }
  const dispatcher = await startDispatcher({ ...deps, bus: dispatcherBus, clock: clockOf(dispatcherBus) }, { registration: 'closed' })
  const audit = await startAudit({ ...deps, bus: auditBus, clock: clockOf(auditBus) }, { people: [PERSON], ...options.audit })
  const agents = {} as Record<Name, Agent>
  for (const [n, name] of names.entries()) {
    const roles = { originates: n === 0 ? ('always' as const) : ('within_a_pass' as const), subagent: n > 0 }
    await registerAgent(person, { name, roles, registered_by: PERSON, updated_at: person.now() })
    const bus = await fixture.bus(principals[name])
    agents[name] = createAgent({ bus, clock: clockOf(bus), random }, { directory: '/p' })
    const made = async () =>
      ((await bus.ask({ parts_only: true }, { service: 'register' }).catch(() => undefined)) as { ok?: boolean } | undefined)?.ok
    await until(made, { what: `parts bucket of ${name}` })
  }
  return {
    fixture,
    agents,
    person,
    audit,
    dispatcher,
    probe: (name) => fixture.probe(principals[name]),
    async [Symbol.asyncDispose]() {
      for (const agent of Object.values<Agent>(agents)) await agent[Symbol.asyncDispose]()
      await dispatcher.drain(1_000)
      await audit[Symbol.asyncDispose]()
      await fixture[Symbol.asyncDispose]()
    },
  }
}
