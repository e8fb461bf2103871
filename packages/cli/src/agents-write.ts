import { type Bus, CONTENT_TYPE, encode } from '@passover/bus'
import { type AgentBody, type AgentRecord, agentRecord, HEADER, type PassRow, WIRE_VERSION } from '@passover/schemas'
import { askList, requireCompiling } from '@passover/sdk/people'
import { type AgentChange, changedRecord } from './agents-record.js'
import { CliFailure } from './failure.js'

const OPEN = ['requested', 'held', 'waiting_for_return'] as const
const MOST = 1_000

/** The record of an agent. E041: there is none. */
export async function readAgent(bus: Bus, name: string): Promise<AgentRecord> {
  const entry = await (await bus.table('agents', agentRecord)).get(name)
  if (entry) return entry.value
  throw new CliFailure('E041', `there is no agent ${name}`, { hint: '`passover agents` shows those there are' })
}

/** Registers or changes an agent: the event first, then the record, so that the stream alone tells who could do what (DESIGN §2). */
export async function writeAgent(bus: Bus, change: AgentChange): Promise<{ record: AgentRecord; before: AgentRecord | undefined }> {
  const table = await bus.table('agents', agentRecord)
  const present = await table.get(change.name)
  const record = changedRecord(present?.value, change, {
    person: bus.identity,
    now: bus.now(),
    next_sequence: (await bus.bounds()).last + 1,
  })
  const schema = record.defaults?.output_schema
  if (schema) await requireCompiling(schema, 'defaults.output_schema')
  await publish(bus, { v: WIRE_VERSION, name: record.name, record })
  const revision = present ? await table.update(record.name, record, present.revision) : await table.create(record.name, record)
  if (revision === undefined) throw notStored('somebody else changed it at the same time')
  return { record, before: present?.value }
}

/** Takes an agent out of the registry: passes to it are refused from then on. Event first. */
export async function removeAgent(bus: Bus, name: string): Promise<void> {
  await publish(bus, { v: WIRE_VERSION, name })
  await (await bus.table('agents', agentRecord)).delete(name)
}

/** Open passes to an agent; `more`: there are more than are told. */
export async function openPassesTo(bus: Bus, name: string): Promise<{ passes: PassRow[]; more: boolean }> {
  const lists = await Promise.all(OPEN.map((status) => askList(bus, { subagent: name, status, limit: MOST })))
  return { passes: lists.flatMap(({ passes }) => passes), more: lists.some(({ more }) => more) }
}

async function publish(bus: Bus, body: AgentBody): Promise<void> {
  const outcome = await bus.publish({
    subject: bus.subjects.agent(bus.identity),
    headers: { [HEADER.contentType]: CONTENT_TYPE.msgpack },
    data: encode(body),
  })
  if (outcome.kind !== 'stored') throw notStored(outcome.kind === 'lost' ? 'refused' : outcome.description)
}

function notStored(why: string): CliFailure {
  return new CliFailure('E040', `the registration was not stored: ${why}`, { hint: 'try again' })
}
