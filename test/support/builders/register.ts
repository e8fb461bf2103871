import { AgentRegistry, type Bus } from '@passover/bus'
import { type AgentRecord, agentRecord } from '@passover/schemas'

/** Registers an agent as a person does: the event first, which readers of the registry ask for, then the record over what stands there. */
export async function registerAgent(bus: Bus, record: AgentRecord): Promise<void> {
  const table = await bus.table('agents', agentRecord)
  const told = await new AgentRegistry(bus, table).tell(record.name, record)
  if (told.kind !== 'stored') throw new Error(`not registered: ${JSON.stringify(told)}`)
  await table.put(record.name, record)
}
