import { agentRecord } from '@passover/schemas'
import type { Bus } from '../types/bus.js'
import { PolicyStore } from './policy-store.js'
import { VerifiedAgents } from './verified-agents.js'

/** A bucket entry without a matching event; every reader skips it. */
export interface UnannouncedEntry {
  bucket: 'agents' | 'policy'
  key: string
  revision: number
}

/** Returns entries of the registry and of the policy that have no event, or that the server wrote on a client's behalf. */
export async function unannouncedEntries(bus: Bus): Promise<UnannouncedEntry[]> {
  await using told = await VerifiedAgents.open(bus)
  const agents = await bus.table('agents', agentRecord)
  const found: UnannouncedEntry[] = []
  for await (const { key, value, revision } of agents.entries())
    if (!(await told.hasBy(key, value))) found.push({ bucket: 'agents', key, revision })
  for (const entry of await agents.bounced()) found.push({ bucket: 'agents', ...entry })
  const policy = await PolicyStore.open(bus)
  const stand = await policy.stand()
  if (stand.kind === 'invalid') found.push({ bucket: 'policy', key: 'current', revision: stand.revision })
  for (const entry of await policy.table.bounced()) found.push({ bucket: 'policy', ...entry })
  return found
}

export function unannouncedText({ bucket, key, revision }: UnannouncedEntry): string {
  return `${key} (revision ${revision}) of the bucket ${bucket} has no matching event in the stream`
}
