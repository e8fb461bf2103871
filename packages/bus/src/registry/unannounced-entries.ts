import { agentRecord } from '@passover/schemas'
import type { Bus } from '../types/bus.js'
import { PolicyStore } from './policy-store.js'
import { ToldAgents } from './verified-agents.js'

/** An entry of a bucket without an event that says the same: every reader skips it. */
export interface Untold {
  bucket: 'agents' | 'policy'
  key: string
  revision: number
}

/** Returns entries of the registry and of the policy that have no event, or that the server wrote on a client's behalf. */
export async function untoldEntries(bus: Bus): Promise<Untold[]> {
  await using told = await ToldAgents.open(bus)
  const agents = await bus.table('agents', agentRecord)
  const found: Untold[] = []
  for await (const { key, value, revision } of agents.entries())
    if (!(await told.hasBy(key, value))) found.push({ bucket: 'agents', key, revision })
  for (const entry of await agents.bounced()) found.push({ bucket: 'agents', ...entry })
  const policy = await PolicyStore.open(bus)
  const stand = await policy.stand()
  if (stand.kind === 'invalid') found.push({ bucket: 'policy', key: 'current', revision: stand.revision })
  for (const entry of await policy.table.bounced()) found.push({ bucket: 'policy', ...entry })
  return found
}

export function untoldText({ bucket, key, revision }: Untold): string {
  return `${key} (revision ${revision}) of the bucket ${bucket} has no event that says the same`
}
