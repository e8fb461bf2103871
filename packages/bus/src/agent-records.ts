import { type AgentBody, type AgentRecord, agentRecord, canonicalJson, HEADER, WIRE_VERSION } from '@passover/schemas'
import type { Bus } from './bus.js'
import type { Outcome } from './bus-messages.js'
import type { Table } from './bus-stores.js'
import { CONTENT_TYPE, decode, encode } from './codec.js'

/** A replica that is behind may be asked several times before the leader is. */
const TRIES = 20

/** What the bucket has of an agent. */
export interface AgentStanding {
  /** Undefined: none, or one that a later version wrote. */
  record: AgentRecord | undefined
  /** Of the record, or of its removal; 0: it never had one. What is written over it is written over nothing else. */
  revision: number
  isUnreadable: boolean
}

/** `untold`: it is not kept, and the stream's last word may be of what does not stand. */
export type AgentKept = 'kept' | 'lost' | 'untold'

export async function agentStanding(table: Table<AgentRecord>, name: string): Promise<AgentStanding> {
  const stored = await table.bytesOf(name)
  if (!stored?.data) return { record: undefined, revision: stored?.revision ?? 0, isUnreadable: false }
  const decoded = decode(stored.data)
  const parsed = decoded.ok ? agentRecord.safeParse(decoded.value) : undefined
  return { record: parsed?.data, revision: stored.revision, isUnreadable: parsed?.data === undefined }
}

/** The event of a change: stored before the record, so that the stream alone tells who could do what (DESIGN §2). Without a record: taken out. */
export function tellAgent(bus: Bus, name: string, record?: AgentRecord): Promise<Outcome> {
  const body: AgentBody = record ? { v: WIRE_VERSION, name, record } : { v: WIRE_VERSION, name }
  return bus.publish({
    subject: bus.subjects.agent(bus.identity),
    headers: { [HEADER.contentType]: CONTENT_TYPE.msgpack },
    data: encode(body),
  })
}

/** Writes the record that `tellAgent` told over what stood before its event; `lost`: somebody else was faster, and that stands. */
export async function keepAgent(
  bus: Bus,
  table: Table<AgentRecord>,
  { record, over }: { record: AgentRecord; over: number },
): Promise<AgentKept> {
  if ((await table.update(record.name, record, over)) !== undefined) return 'kept'
  return (await tellWhatStands(bus, table, { told: record, over })) ? 'lost' : 'untold'
}

/** Takes an agent out, whoever changes it meanwhile, and whatever version wrote it. */
export async function removeAgent(bus: Bus, table: Table<AgentRecord>, name: string): Promise<Outcome> {
  for (let tries = 0; tries < TRIES; tries++) {
    const { revision } = await agentStanding(table, name)
    const told = await tellAgent(bus, name)
    if (told.kind !== 'stored' || (await table.delete(name, revision))) return told
  }
  return { kind: 'lost' }
}

/**
 * Of two who change an agent at once the events may stand in the other order than the records: the stream's last word would be of what does not
 * stand, and with the bucket lost it would come back. That what was told stands yet only its compare-and-set can tell. False: it is not told.
 */
async function tellWhatStands(bus: Bus, table: Table<AgentRecord>, { told, over }: { told: AgentRecord; over: number }): Promise<boolean> {
  const { name } = told
  for (let tries = 0; tries < TRIES; tries++) {
    const { record, revision, isUnreadable } = await agentStanding(table, name)
    if (revision <= over) continue
    // Who wrote it has told it, in words that are not known here; or several say the same at once.
    if (isUnreadable || (record && saysTheSame(record, told))) return true
    if ((await tellAgent(bus, name, record)).kind !== 'stored') continue
    const isLast = record ? (await table.update(name, record, revision)) !== undefined : await table.delete(name, revision)
    if (isLast) return true
  }
  return false
}

function saysTheSame(one: AgentRecord, other: AgentRecord): boolean {
  return canonicalJson({ ...one, updated_at: 0 }) === canonicalJson({ ...other, updated_at: 0 })
}
