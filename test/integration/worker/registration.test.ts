import { openBus } from '@passover/bus'
import { agentRecord } from '@passover/schemas'
import type { WorkerEvent } from '@passover/sdk'
import { createAgent } from '@passover/sdk/internal'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { clockOf, random } from '../../support/dispatcher/dispatcher.js'
import { until } from '../../support/processes/until.js'

let world: AgentWorld
beforeAll(async () => {
  world = await AgentWorld.start({ audit: false })
})
afterAll(async () => {
  await world?.[Symbol.asyncDispose]()
})

test('a worker whose agent was taken out of the registry says so, and is well again once a person puts it back', async () => {
  const bus = await openBus({ servers: world.world.nats.servers, identity: 'audit', onError: () => undefined })
  await using agent = createAgent({ bus, clock: clockOf(bus), random, registered_ms: 50 }, { directory: '/p' })
  const events: WorkerEvent[] = []
  const worker = await agent.onPass(() => 'done', { log: (event) => events.push(event) })
  const registered = () => worker.health().checks.find(({ name }) => name === 'registered')
  const table = await world.world.bus.table('agents', agentRecord)
  const record = (await table.get('audit'))?.value
  if (!record) throw new Error('it did not register')
  expect(registered()).toMatchObject({ state: 'ok' })

  await table.delete('audit')
  await until(() => registered()?.state === 'failed', { what: 'it notices' })
  expect(worker.health()).toMatchObject({ ready: false, live: true })
  expect(registered()?.what).toContain('passover agents add audit')
  const told = () => events.filter(({ kind }) => kind === 'health').map(({ text }) => text)
  await until(() => told().some((text) => text.includes('audit is unhealthy: registered: it was removed from the registry')), {
    what: 'it says so',
  })
  // Asking registers nothing.
  expect(await table.get('audit')).toBeUndefined()

  await table.create('audit', record)
  await until(() => registered()?.state === 'ok', { what: 'it is well again' })
})

test('returns wait for whom a person let them wait, without a word in connect(); else E005 says both ways', async () => {
  const alice = await world.agent('alice')
  const refused = alice.onDurableReturn(() => undefined)
  await expect(refused).rejects.toMatchObject({
    code: 'E005',
    message: expect.stringMatching(/durableReturns: true.*passover agents set alice --durable-returns/),
  })
  const from = (await world.world.bus.bounds()).last + 1
  await world.world.agentRecord('alice', { originates: 'always', subagent: false, durable_returns: { from } })
  await using _waiting = await alice.onDurableReturn(() => undefined)
})
