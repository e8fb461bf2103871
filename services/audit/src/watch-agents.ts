import { type Bus, ToldAgents } from '@passover/bus'
import { type AgentRecord, agentRecord } from '@passover/schemas'

/** The registry as events told it, followed. */
export async function watchAgents(bus: Bus): Promise<{ agents: Map<string, AgentRecord>; watch: AsyncDisposable }> {
  const agents = new Map<string, AgentRecord>()
  const told = await ToldAgents.open(bus)
  await told.watch(await bus.table('agents', agentRecord), (name, record) => {
    if (record) agents.set(name, record)
    else agents.delete(name)
  })
  return { agents, watch: told }
}
