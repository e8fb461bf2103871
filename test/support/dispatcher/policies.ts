import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { decode, openBus, PolicyStore } from '@passover/bus'
import { openControl } from '@passover/core'
import type { ControlFrame, PassOverPreferences, PolicyVersion, WorkControl } from '@passover/schemas'
import type { World } from './dispatcher.js'

/** The store as an onlooker has it. */
export function storeOf(world: World): Promise<PolicyStore> {
  return PolicyStore.open(world.bus)
}

/** Puts a document into force upon whatever is in force now, as a person does. */
export async function publishPolicy(
  world: World,
  document: PassOverPreferences,
  { by = 'maria', reason }: { by?: string; reason?: string } = {},
): Promise<PolicyVersion> {
  await using bus = await openBus({ servers: world.nats.servers, identity: by })
  return await publishUpon(await PolicyStore.open(bus), { document, reason })
}

export async function publishUpon(
  store: PolicyStore,
  draft: { document: PassOverPreferences; reason?: string | undefined },
): Promise<PolicyVersion> {
  for (;;) {
    const current = await store.rollForward()
    const outcome = await store.publish({ ...draft, base: current?.version ?? 0 })
    if (outcome.kind === 'published') return outcome.value
    if (outcome.kind === 'refused') throw new Error(outcome.description)
  }
}

/** Persons, each on a connection of its own. */
export async function peopleOf(world: World, count: number): Promise<{ stores: PolicyStore[] } & AsyncDisposable> {
  const buses = await Promise.all(Array.from({ length: count }, (_, n) => openBus({ servers: world.nats.servers, identity: `person${n}` })))
  return {
    stores: await Promise.all(buses.map((bus) => PolicyStore.open(bus))),
    async [Symbol.asyncDispose]() {
      for (const bus of buses) await bus[Symbol.asyncDispose]()
    },
  }
}

/** The control frame of every admitted pass, as its step in the stream says it. */
export async function admittedPasses(world: World): Promise<WorkControl[]> {
  const found: WorkControl[] = []
  const reader = await world.bus.follow({ filters: [world.bus.subjects.all('work')] }, ({ data }, fact) => {
    const decoded = decode(data, 'msgpack')
    const control = decoded.ok && fact.type === 'step' && openControl((decoded.value as { control: ControlFrame }).control, fact)
    if (control) found.push(control)
  })
  await reader.caughtUp
  await reader[Symbol.asyncDispose]()
  return found
}

/** Tells how many requests the dispatchers have acknowledged so far, which costs those who are tested next to nothing. */
export async function acknowledgedOf(world: World): Promise<{ count(): Promise<number> } & AsyncDisposable> {
  const nc = await connect({ servers: world.nats.servers })
  const manager = await jetstreamManager(nc)
  return {
    count: async () => (await manager.consumers.info('PASSOVER', 'dispatcher')).ack_floor.consumer_seq,
    [Symbol.asyncDispose]: () => nc.close(),
  }
}
