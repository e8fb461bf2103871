import type { Bus } from '@passover/bus'
import { askAgents } from '../audit/ask.js'
import { openQueued, totalLoad } from './queue-load.js'
import { readPresence } from './workers.js'

/** One line of `passover agents`. */
export interface AgentLine {
  name: string
  subagent: boolean
  originates: string
  /** Number of worker processes that are up, number of passes they work on, and number of passes they can work on concurrently. */
  up: number
  busy: number
  places: number
  /** Number of free worker places that wait for work now. */
  idle_workers: number
  queued: number
  running: number
  /** Number of passes to the agent that are requested or held. */
  waiting: number
  originated: number
  /** True if returns are kept for the agent while it is not connected. */
  durable_returns: boolean
  /** Used bytes of the bucket for its large parts, and its limit, if any. */
  parts_bytes: number
  parts_max?: number | undefined
  description: string
  registered_by: string
  /** Time at which its credentials were revoked, according to the registry. */
  revoked_at?: number | undefined
}

/** Returns the registered agents, with their load. */
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
