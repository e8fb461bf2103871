import { AgentRegistry, type Bus, type PublishResult, verifiedAgents } from '@passover/bus'
import { askList, OPEN_STATUSES, requireCompiling } from '@passover/operator'
import { type AgentRecord, agentRecord, type PassRow } from '@passover/schemas'
import { CliFailure } from '../errors.js'
import { type AgentChange, applyAgentChange } from './agent-record.js'

const MAX_OPEN_PASSES = 1_000

/** Returns the record of an agent. Throws CliFailure E041 if it is not registered. */
export async function readAgent(bus: Bus, name: string): Promise<AgentRecord> {
  const record = (await verifiedAgents(bus)).get(name)
  if (record) return record
  throw unknownAgentError(name)
}

/** Creates the E041 error for an agent that is not registered. An agent that only originates passes does not register itself. */
export function unknownAgentError(name: string): CliFailure {
  return new CliFailure('E041', `agent ${name} is not registered`, {
    hint: `\`passover agents\` lists the registered agents; to register an agent that only originates passes: passover agents add ${name} --no-subagent`,
  })
}

/** Registers or changes an agent. Publishes the event before it writes the record, so that the stream alone shows who could do what. */
export async function writeAgent(bus: Bus, change: AgentChange): Promise<{ record: AgentRecord; before: AgentRecord | undefined }> {
  const registry = new AgentRegistry(bus, await bus.table('agents', agentRecord))
  const { record: before, revision: over, isUnreadable } = await registry.standing(change.name)
  if (isUnreadable)
    throw new CliFailure('E031', `${change.name} was registered by a newer version of passover`, { hint: 'use that version to change it' })
  const record = applyAgentChange(before, change, { person: bus.identity, now: bus.now(), next_sequence: (await bus.bounds()).last + 1 })
  const schema = record.defaults?.output_schema
  if (schema) await requireCompiling(schema, 'defaults.output_schema')
  stored(await registry.tell(record.name, record))
  if ((await registry.keep({ record, over })) !== 'kept') throw notStored('another process changed it at the same time')
  return { record, before }
}

/** Removes an agent from the registry. Passes to it are refused from then on. */
export async function removeAgent(bus: Bus, name: string): Promise<void> {
  stored(await new AgentRegistry(bus, await bus.table('agents', agentRecord)).remove(name))
}

/** Lists open passes to an agent, up to 1,000 of each status. `more` is true if there are others. */
export async function listOpenPassesTo(bus: Bus, name: string): Promise<{ passes: PassRow[]; more: boolean }> {
  const lists = await Promise.all(OPEN_STATUSES.map((status) => askList(bus, { subagent: name, status, limit: MAX_OPEN_PASSES })))
  return { passes: lists.flatMap(({ passes }) => passes), more: lists.some(({ more }) => more) }
}

function stored(outcome: PublishResult): void {
  if (outcome.kind === 'lost') throw notStored('other processes keep changing it')
  if (outcome.kind !== 'stored') throw notStored(outcome.description)
}

function notStored(why: string): CliFailure {
  return new CliFailure('E040', `the registration was not stored: ${why}`, { hint: 'try again' })
}
