import type { Bus } from '@passover/bus'
import { askAgents } from '../audit/ask.js'
import { openQueued, totalLoad } from './queue-load.js'
import { readPresence } from './workers.js'

/** One line of `passover agents`. */
export interface AgentLine {
  name: string
  subagent: boolean
  originates: string
  /** Worker processes that say they are up, passes that they work on, and how many they could at a time. */
  up: number
  busy: number
  places: number
  /** Places of workers that wait for work right now. */
  idle_workers: number
  queued: number
  running: number
  /** Passes that stand before it as requested or held. */
  waiting: number
  originated: number
  /** Returns wait for it while it is away. */
  durable_returns: boolean
  /** How full the bucket of its large parts is, bytes; `parts_max`: its limit, where it has one. */
  parts_bytes: number
  parts_max?: number | undefined
  description: string
  registered_by: string
  /** Its credentials were revoked then, as the registry has it. */
  revoked_at?: number | undefined
}

/** Registered agents by name, with what waits for them. */
export async function readAgents(bus: Bus): Promise<AgentLine[]> {
  const [rows, presence] = await Promise.all([askAgents(bus), readPresence(bus)])
  return Promise.all(
    rows.map(async ({ agent, open, waiting, originated }) => {
      const load = agent.roles.subagent ? await totalLoad(bus, agent.name) : { idle: 0, queued: 0, running: 0 }
      const parts = await bus.partsUsage(agent.name)
      return {
        name: agent.name,
        subagent: agent.roles.subagent,
        originates: agent.roles.originates,
        up: presence.get(agent.name)?.instances ?? 0,
        busy: presence.get(agent.name)?.running ?? 0,
        places: presence.get(agent.name)?.places ?? 0,
        idle_workers: load.idle,
        queued: openQueued(load, open),
        running: load.running,
        waiting,
        originated,
        durable_returns: agent.durable_returns !== undefined,
        parts_bytes: parts?.bytes ?? 0,
        ...(parts?.max_bytes !== undefined && { parts_max: parts.max_bytes }),
        description: agent.description ?? '',
        registered_by: agent.registered_by,
        ...(agent.revoked_at !== undefined && { revoked_at: agent.revoked_at }),
      }
    }),
  )
}
