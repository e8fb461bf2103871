import { randomBytes } from 'node:crypto'
import { openBus } from '@passover/bus'
import { agentRecord } from '@passover/schemas'
import { createAgent } from '@passover/sdk/internal'
import { expect, test } from 'vitest'
import { clockOf, World } from '../../support/dispatcher/dispatcher.js'

test('what connect and onPass say of a subagent is in the registry; onPass wins; what is none is E005', async () => {
  await using world = await World.start()
  const bus = await openBus({ servers: world.nats.servers, identity: 'judge' })
  const deps = { bus, clock: clockOf(bus), random: { bytes: (n: number) => randomBytes(n) } }
  const outputSchema = { type: 'object', required: ['status'] }
  const describes = { description: 'judges', skills: ['law'], outputSchema, limits: { max_active: 7 } }
  await using judge = createAgent(deps, { directory: '/p', describes })
  await judge.onPass(() => 'guilty', { skills: ['law', 'order'] })
  expect((await (await world.bus.table('agents', agentRecord)).get('judge'))?.value).toMatchObject({
    description: 'judges',
    skills: ['law', 'order'],
    defaults: { max_active: 7, output_schema: outputSchema },
    registered_by: 'judge',
  })
  await expect(judge.onPass(() => 'guilty', { limits: { max_active: 0 } })).rejects.toMatchObject({
    code: 'E005',
    context: { field: 'limits.max_active' },
  })
  const oldNames = { ...describes, output_schema: outputSchema }
  await using other = createAgent(
    { ...deps, bus: await openBus({ servers: world.nats.servers, identity: 'other' }) },
    { directory: '/p', describes: oldNames },
  )
  await expect(other.onPass(() => 'guilty')).rejects.toMatchObject({ code: 'E005', message: 'output_schema is outputSchema now' })
})
