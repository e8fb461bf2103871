import { type Bus, VerifiedAgents } from '@passover/bus'
import { firstRevoked } from '@passover/core'
import { type AgentRecord, agentRecord, type RevokedAgent } from '@passover/schemas'

/** Agents whose credentials were revoked by a person, with the server time of the revocation in ms. */
export type RevokedAgents = ReadonlyMap<string, number>

interface WatchedAgents {
  agents: Map<string, AgentRecord>
  revoked: RevokedAgents
  watch: AsyncDisposable
}

/** Opens the agent registry as verified by events, and keeps it up to date. */
export async function watchAgents(bus: Bus): Promise<WatchedAgents> {
  const agents = new Map<string, AgentRecord>()
  const told = await VerifiedAgents.open(bus)
  await told.watch(await bus.table('agents', agentRecord), (name, record) => {
    if (record) agents.set(name, record)
    else agents.delete(name)
  })
  return { agents, revoked: told.revoked, watch: told }
}

/** Returns the first agent of a chain whose credentials were revoked, as a field of an answer. */
export function revokedOf(revoked: RevokedAgents, chain: readonly string[]): { revoked?: RevokedAgent } {
  const found = firstRevoked(chain, revoked)
  return found ? { revoked: found } : {}
}
