import { type Bus, type BusOptions, openBus } from '@passover/bus'
import type { PassKey } from '@passover/schemas'
import type { NatsFixture } from './nats.js'

/** What a connection counts of itself (NatsBus.counts), to look for leaks from inside. */
export interface BusCounts {
  subscriptions: number
  pending: number
  open: number
  listeners: number
}

/** A bus on a fixture whose reported errors can be looked at. */
export async function busOn(
  nats: NatsFixture,
  options: Partial<BusOptions> = {},
): Promise<Bus & { readonly errors: unknown[]; readonly counts: BusCounts }> {
  const errors: unknown[] = []
  const bus = await openBus({ servers: nats.servers, identity: 'passover', onError: (error) => errors.push(error), ...options })
  return Object.assign(bus as Bus & { readonly counts: BusCounts }, { errors })
}

let next = 0
/** A key that no other test uses, in the form of generated ids of one instance. */
export function freshKey(parts: Partial<PassKey> = {}): PassKey {
  next += 1
  return {
    originator: 'alice',
    subagent: 'audit',
    id: `0abcdefg${Date.now().toString(36).padStart(9, '0')}_t${String(next).padStart(13, '0')}`,
    ...parts,
  }
}
