import { checkAgent, openBus, type Principal } from '@passover/bus'
import { expect, it } from 'vitest'
import { isolatedFixture } from '../../support/servers/isolated.js'
import { natsFixture } from '../../support/servers/nats.js'
import { type PermittedFixture, permittedFixture } from '../../support/servers/permitted.js'

const alice: Principal = { role: 'agent', name: 'alice', originates: true, subagent: true }
const scout: Principal = { role: 'agent', name: 'scout', originates: true, subagent: true }
const ann: Principal = { role: 'person', name: 'ann' }
const PRINCIPALS: Principal[] = [alice, scout, ann, { role: 'dispatcher' }, { role: 'audit' }]

/** Of what a check stores, the subject. */
const MARKER = /^\$O\.parts\.alice\.C\.passover-auth-check-[0-9a-f]{16}\.0$/

/** Creates what the services of an installation create, and answers questions as the audit does. */
async function furnish(fixture: PermittedFixture): Promise<void> {
  const dispatcher = await fixture.bus({ role: 'dispatcher' })
  await dispatcher.ensureTopology()
  for (const agent of ['alice', 'scout']) await dispatcher.ensureAgent(agent, { subagent: true, max_attempts: 3, lease_ms: 5_000 })
  const audit = await fixture.bus({ role: 'audit' })
  await audit.answer(async () => ({ now: 1 }))
}

function checkAlice(fixture: PermittedFixture, witness = true) {
  return checkAgent({
    servers: fixture.nats.servers,
    agent: 'alice',
    credentials: fixture.credentials(alice),
    witness: witness ? { identity: 'ann', credentials: fixture.credentials(ann) } : undefined,
    peers: ['alice', 'scout'],
  })
}

it('finds every way to have the server publish for an agent that is held to permissions only, and changes nothing in the stream', async () => {
  await using fixture = await permittedFixture(PRINCIPALS)
  await furnish(fixture)
  const person = await fixture.bus(ann)
  const before = await person.inspect()
  const check = await checkAlice(fixture)
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
  // Parts are written once: the next check finds the same ones there.
  expect(check.stored).toEqual([expect.stringMatching(MARKER), expect.stringMatching(MARKER)])
  expect(await checkAlice(fixture)).toEqual(check)
  const after = await person.inspect()
  expect({ last: after.stream?.last, messages: after.stream?.messages, consumers: after.consumers }).toEqual({
    last: before.stream?.last,
    messages: before.stream?.messages,
    consumers: before.consumers,
  })
  // Without a second connection, redirected answers are not observed; the consumer shows by its heartbeats.
  const alone = await checkAlice(fixture, false)
  expect(alone.probes.find(({ probe }) => probe === 'bounce: the answer of a direct get')?.state).toBe('untested')
  expect(alone.probes.find(({ probe }) => probe === 'bounce: a call of the JetStream API')?.state).toBe('possible')
})

it('finds nothing where each agent has an account of its own, though every attempt is answered to the agent itself', async () => {
  await using fixture = await isolatedFixture(PRINCIPALS)
  await furnish(fixture)
  const check = await checkAlice(fixture)
  expect(check.probes.filter(({ state }) => state !== 'refused')).toEqual([])
  expect(check.level).toBe('isolated')
  // None was refused because the agent may not even begin it: that would prove nothing.
  expect(check.probes.filter(({ text }) => text.includes('may not start') || text.includes('no bucket'))).toEqual([])
})

it('says at once that a server is open, and tries nothing else', async () => {
  await using nats = await natsFixture()
  await using bus = await openBus({ servers: nats.servers, identity: 'passover' })
  await bus.ensureTopology()
  const check = await checkAgent({ servers: nats.servers, agent: 'alice', witness: { identity: 'ann' } })
  expect(check).toMatchObject({ level: 'open', stored: [] })
  expect(check.probes).toHaveLength(2)
  expect((await bus.bounds()).last).toBe(0)
})
