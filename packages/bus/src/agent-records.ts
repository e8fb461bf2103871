import { type AgentBody, type AgentRecord, HEADER, WIRE_VERSION } from '@passover/schemas'
import type { Bus } from './bus.js'
import type { Outcome } from './bus-messages.js'
import type { Table } from './bus-stores.js'
import { CONTENT_TYPE, encode } from './codec.js'

/** A replica that is behind may be asked several times before the leader is. */
const TRIES = 20

/** The event of a change: stored before the record, so that the stream alone tells who could do what (DESIGN §2). Without a record: taken out. */
export function tellAgent(bus: Bus, name: string, record?: AgentRecord): Promise<Outcome> {
  const body: AgentBody = record ? { v: WIRE_VERSION, name, record } : { v: WIRE_VERSION, name }
  return bus.publish({
    subject: bus.subjects.agent(bus.identity),
    headers: { [HEADER.contentType]: CONTENT_TYPE.msgpack },
    data: encode(body),
  })
}

/** What `tellAgent` told; `over`: the revision it was made from, none for a new one. False: somebody else was faster, and that stands. */
export async function keepAgent(bus: Bus, table: Table<AgentRecord>, record: AgentRecord, over?: number): Promise<boolean> {
  const { name } = record
  const kept = over === undefined ? await table.create(name, record) : await table.update(name, record, over)
  if (kept !== undefined) return true
  await tellWhatStands(bus, table, { name, over: over ?? 0 })
  return false
}

/** Takes an agent out, whoever changes it meanwhile. */
export async function removeAgent(bus: Bus, table: Table<AgentRecord>, name: string): Promise<Outcome> {
  for (let tries = 0; tries < TRIES; tries++) {
    const stands = await table.get(name)
    const told = await tellAgent(bus, name)
    if (told.kind !== 'stored' || (await table.delete(name, stands?.revision))) return told
  }
  return { kind: 'lost' }
}

/**
 * Of two who change an agent at once the events may stand in the other order than the records: the stream's last word would be of what does not
 * stand, and with the bucket lost it would come back. That what was told stands yet only its compare-and-set can tell.
 */
async function tellWhatStands(bus: Bus, table: Table<AgentRecord>, { name, over }: { name: string; over: number }): Promise<void> {
  for (let tries = 0; tries < TRIES; tries++) {
    const [stands, bytes] = [await table.get(name), await table.bytesOf(name)]
    if (!bytes || bytes.revision <= over || (stands && stands.revision !== bytes.revision)) continue
    // A later version wrote it, who told it: it cannot be read here.
    if (!stands && bytes.data) return
    await tellAgent(bus, name, stands?.value)
    const isLast = stands ? await table.update(name, stands.value, stands.revision) : await table.delete(name, bytes.revision)
    if (isLast) return
  }
}
