import { randomBytes } from 'node:crypto'
import { openBus } from '@passover/bus'
import { passAnswer } from '@passover/schemas'
import { type Agent, createAgent, type ReturnedPass } from '@passover/sdk'
import type { AgentWorld } from './agents.js'
import { clockOf } from './dispatch.js'
import { until } from './until.js'

/** A process of an agent that asks for delivery. */
export interface Process extends AsyncDisposable {
  agent: Agent
  /** As a process that is killed: its connection is gone without a word. */
  die(): Promise<void>
}

export async function durable(all: AgentWorld, name: string): Promise<Process> {
  const bus = await openBus({ servers: all.world.nats.servers, identity: name, onError: () => undefined })
  const asked = (await bus.ask({ durable_returns: true }, { service: 'register', timeout_ms: 20_000 })) as { ok?: boolean } | undefined
  if (!asked?.ok) throw new Error(`returns do not wait for ${name}: ${JSON.stringify(asked)}`)
  const deps = { bus, clock: clockOf(bus), random: { bytes: (n: number) => randomBytes(n) } }
  const agent = createAgent(deps, { directory: '/p', session_id: 'session-of-test', durable_returns: true })
  return { agent, die: async () => bus[Symbol.asyncDispose](), [Symbol.asyncDispose]: () => agent[Symbol.asyncDispose]() }
}

/** Remembers what it is told. */
export function listener() {
  const told: ReturnedPass[] = []
  return { told, hears: (returned: ReturnedPass) => void told.push(returned), ids: () => told.map(({ pass }) => pass.id).sort() }
}

export async function shownPass(all: AgentWorld, id: string) {
  const answer = passAnswer.parse(await all.world.bus.ask({ op: 'pass', id, history: true }, { timeout_ms: 30_000 }))
  return answer.ok ? answer.passes[0] : undefined
}

export function untilSend(all: AgentWorld, id: string, send: string): Promise<unknown> {
  return until(async () => (await shownPass(all, id))?.row.send === send, { what: `${id} is ${send}`, deadline_ms: 40_000, every_ms: 100 })
}
