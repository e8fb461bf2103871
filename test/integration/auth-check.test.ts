import { checkAgent, type Principal } from '@passover/bus'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { natsFixture } from '../support/nats.js'
import { type PermittedFixture, permittedFixture } from '../support/permitted.js'

const alice: Principal = { role: 'agent', name: 'alice', originates: true, subagent: true }
const scout: Principal = { role: 'agent', name: 'scout', originates: true, subagent: true }
const ann: Principal = { role: 'person', name: 'ann' }

describe('passover auth check on a server that relies on permissions', () => {
  let fixture: PermittedFixture
  beforeAll(async () => {
    fixture = await permittedFixture([alice, scout, ann, { role: 'dispatcher' }, { role: 'audit' }])
    const dispatcher = await fixture.bus({ role: 'dispatcher' })
    await dispatcher.ensureTopology()
    for (const agent of ['alice', 'scout']) await dispatcher.ensureAgent(agent, { subagent: true, max_attempts: 3, lease_ms: 5_000 })
    const audit = await fixture.bus({ role: 'audit' })
    await audit.answer(async () => ({ now: 1 }))
  })
  afterAll(() => fixture[Symbol.asyncDispose]())

  it('finds every way to have the server publish for an agent, and changes nothing in the stream', async () => {
    const person = await fixture.bus(ann)
    const before = await person.inspect()
    const check = await checkAgent({
      servers: fixture.nats.servers,
      agent: 'alice',
      credentials: fixture.credentials(alice),
      witness: { identity: 'ann', credentials: fixture.credentials(ann) },
      peers: ['alice', 'scout'],
    })
    expect(check.level).toBe('permissions')
    const found = (state: string) => check.probes.filter((one) => one.state === state).map(({ probe }) => probe)
    expect(found('untested')).toEqual([])
    expect(found('possible')).toEqual([
      'bounce: the answer of a direct get',
      'bounce: the acknowledgment of a publish',
      'bounce: the status of a pull request',
      'bounce: the confirmation of a message acknowledgment',
      'bounce: the answer of a JetStream API call',
      'bounce: the answer of the audit service',
      'bounce: a call of the JetStream API',
    ])
    expect(check.stored).toEqual(['$O.parts.alice.C.passover-auth-check.0'])
    const after = await person.inspect()
    expect({ last: after.stream?.last, messages: after.stream?.messages, consumers: after.consumers }).toEqual({
      last: before.stream?.last,
      messages: before.stream?.messages,
      consumers: before.consumers,
    })
  })

  it('leaves untested what nobody can observe', async () => {
    const check = await checkAgent({ servers: fixture.nats.servers, agent: 'alice', credentials: fixture.credentials(alice) })
    const untested = check.probes.filter(({ state }) => state === 'untested').map(({ probe }) => probe)
    expect(untested).toContain('bounce: the answer of a direct get')
    expect(check.probes.find(({ probe }) => probe === 'bounce: a call of the JetStream API')?.state).toBe('possible')
  })
})

it('passover auth check on an open server says so and tries nothing else', async () => {
  await using nats = await natsFixture()
  const { openBus } = await import('@passover/bus')
  await using bus = await openBus({ servers: nats.servers, identity: 'passover' })
  await bus.ensureTopology()
  const check = await checkAgent({ servers: nats.servers, agent: 'alice', witness: { identity: 'ann' } })
  expect(check).toMatchObject({ level: 'open', stored: [] })
  expect(check.probes).toHaveLength(2)
  expect((await bus.bounds()).last).toBe(0)
})
