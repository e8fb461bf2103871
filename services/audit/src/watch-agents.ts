import type { Bus } from '@passover/bus'
import { type AgentRecord, agentRecord } from '@passover/schemas'

/** The registry as it is now, followed. */
export async function watchAgents(bus: Bus): Promise<{ agents: Map<string, AgentRecord>; watch: AsyncDisposable }> {
  const agents = new Map<string, AgentRecord>()
  const table = await bus.table('agents', agentRecord)
  const watch = await table.watch((name, record) => {
    if (record) agents.set(name, record)
    else agents.delete(name)
  })
  await watch.ready
  return { agents, watch }
}
