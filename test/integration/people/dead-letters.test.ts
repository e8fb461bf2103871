import { type Bus, encode } from '@passover/bus'
import { type DeadLetter, type DeadLetterAnswer, type DeadLetterDetail, HEADER, type PassKey } from '@passover/schemas'
import { describe, expect, test } from 'vitest'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { sequenceOf, type World } from '../../support/dispatcher/dispatcher.js'
import { until } from '../../support/processes/until.js'

const POLICY = { version: 1, document: { defaults: { max_attempts: 1, lease_ms: 300, timeout_ms: 120_000 } } }

const letters = async (bus: Bus, question: object = {}) =>
  ((await bus.ask({ op: 'dead_letters', ...question }, { timeout_ms: 20_000 })) as { letters: DeadLetter[] }).letters
const letterOf = (bus: Bus, { id }: PassKey, state: DeadLetter['state']) =>
  until(async () => (await letters(bus)).find((letter) => letter.id === id && letter.state === state), { what: `${id} is ${state}` })

async function register(world: World, subagent: string): Promise<void> {
  await world.agentRecord(subagent)
  await world.bus.ensureAgent(subagent, { subagent: true, max_attempts: 1, lease_ms: 300 })
}

/** Its only attempt is taken and never finished, until the server says so. */
async function giveUp(world: World, key: PassKey): Promise<void> {
  const advised = async () => (await world.bus.journal.newest(world.bus.subjects.advisories())) !== undefined
  await using source = world.workSource('medium', key.subagent)
  while (!(await advised())) await source.pull({ batch: 1, expires_ms: 300 }, () => undefined)
}

async function settle(bus: Bus, key: PassKey, how: { by: string; after: number; body?: object }): Promise<number> {
  const { subjects } = bus
  const outcome = await bus.publish({
    subject: subjects.event(key, 'settled', how.by),
    headers: { [HEADER.id]: key.id },
    data: encode(how.body ?? { v: 1, action: 'drop', reason: 'no use' }),
    guard: { subject: subjects.eventsOf(key, 'settled'), sequence: how.after },
  })
  return sequenceOf(outcome)
}

describe('what died while nobody listened (nats-server#5564, murmur#34)', () => {
  test('work that the server gave up with no dispatcher and no audit up: told as pending, then ended with its return and a dead letter', async () => {
    await using made = await AgentWorld.start({ dispatchers: [{ policy: POLICY }], audit: false })
    const { world } = made
    await register(world, 'audit')
    const key = await world.ask()
    await world.state(key, 'open')
    await world.dispatchers[0]?.drain(5_000)
    await giveUp(world, key)
    await made.audit({ open: true })
    expect(await letterOf(world.bus, key, 'pending')).toMatchObject({ what: 'work', code: 'E011', attempts: 1, deliveries: 1 })
    await world.dispatcher({ policy: POLICY })
    expect((await world.end(key, 30_000)).error).toMatchObject({ code: 'E011' })
    expect(await letterOf(world.bus, key, 'open')).toMatchObject({ what: 'work', code: 'E011', attempts: 1 })
    expect(await letters(world.bus)).toHaveLength(1)
  })

  test('work whose only worker died in its last attempt: E011 and a dead letter soon after its lease, though nobody asks for more work', async () => {
    await using made = await AgentWorld.start({ dispatchers: [{ policy: POLICY }], audit: { open: true } })
    const { world } = made
    await register(world, 'audit')
    const key = await world.ask()
    await world.state(key, 'open')
    const source = world.workSource('medium')
    expect(await source.pull({ batch: 1, expires_ms: 30_000 }, () => undefined)).toBe('full')
    const taken = world.bus.now()
    await source[Symbol.asyncDispose]()
    const { error, step } = await world.end(key, 30_000)
    expect(error).toMatchObject({ code: 'E011', details: { attempts: 1 } })
    console.log(`lost in its last attempt, ended ${step.time - taken - POLICY.document.defaults.lease_ms} ms after its lease`)
    // The lease, and a second; others use this machine too.
    expect(step.time - taken).toBeLessThan(20_000)
    expect(await letterOf(world.bus, key, 'open')).toMatchObject({ what: 'work', code: 'E011', attempts: 1, deliveries: 1 })
  })

  test('a poisoned request that was stored with nobody up: a dead letter with its bytes, and a terminal return', async () => {
    await using made = await AgentWorld.start({ dispatchers: [], audit: { open: true } })
    const { world } = made
    await register(world, 'audit')
    const bytes = Buffer.from([0xc1, 0xff, 0x00, 0x1b])
    const bad = await world.send(bytes)
    await world.dispatcher({ policy: POLICY })
    expect((await world.end(bad, 30_000)).error).toMatchObject({ code: 'E005' })
    expect(await letterOf(world.bus, bad, 'open')).toMatchObject({ what: 'request', code: 'E005', bytes: bytes.length })
    const answer = (await world.bus.ask({ op: 'dead_letter', id: bad.id })) as { letters: { data: Uint8Array }[] }
    expect(Buffer.from(answer.letters[0]?.data ?? [])).toEqual(bytes)
  })
})

describe('who is told of dead letters, and who settles them', () => {
  test('an agent is told of its own; what an agent settles does not count and is a violation; the first person does', async () => {
    await using made = await AgentWorld.start({ dispatchers: [{ policy: POLICY }], audit: { open: true } })
    const { world } = made
    await register(world, 'audit')
    const mallory = await made.agent('mallory')
    const asked = made.buses.get(mallory)
    await world.agentRecord('mallory')
    const bad = await world.send(Buffer.from('nonsense'))
    await letterOf(world.bus, bad, 'open')
    const own = async () => (asked ? await letters(asked) : [])
    await until(async () => (await own()).length === 0, { what: 'mallory is known for an agent' })
    for (const id of [bad.id, 'not an id', '*'])
      expect(await asked?.ask({ op: 'dead_letter', id }), id).toMatchObject({ ok: false, error: { code: 'E041' } })
    const forged = await settle(world.bus, bad, { by: 'mallory', after: 0 })
    const seen = await until(async () => (await letters(world.bus)).find(({ settled_sequence }) => settled_sequence === forged), {
      what: 'it is read',
    })
    expect(seen).toMatchObject({ state: 'open' })
    await until(() => world.bus.journal.newest(world.bus.subjects.eventsOf(bad, 'violation')), { what: 'the violation' })
    const by_ann = await settle(world.bus, bad, { by: 'ann', after: forged })
    await expect(settle(world.bus, bad, { by: 'bob', after: forged })).rejects.toThrow('not stored')
    await settle(world.bus, bad, { by: 'bob', after: by_ann })
    expect(await letterOf(world.bus, bad, 'dropped')).toMatchObject({ settlement: { action: 'drop', by: 'ann', reason: 'no use' } })
    const record = await until(
      async () => {
        const answer = (await world.bus.ask({ op: 'pass', id: bad.id })) as { passes: { record?: { settlement?: object } }[] }
        return answer.passes[0]?.record?.settlement
      },
      { what: 'its record tells it' },
    )
    expect(record).toMatchObject({ action: 'drop', by: 'ann' })
  })

  // Fails where the answer to a subagent holds the request: what the policy kept from it (P5), and all of what was never admitted.
  test('a subagent is told of the work that it lost, but of no request: the originator has both', async () => {
    const document = { ...POLICY.document, subagents: { audit: { pass_files: false } } }
    await using made = await AgentWorld.start({ dispatchers: [{ policy: { version: 1, document } }], audit: { open: true } })
    const { world } = made
    await register(world, 'audit')
    const [alice, audit] = [made.buses.get(await made.agent('alice')), made.buses.get(await made.agent('audit'))]
    if (!alice || !audit) throw new Error('no connection')
    await world.agentRecord('alice', { originates: 'always' })
    const bad = await world.send(Buffer.from('nonsense'))
    const key = await world.ask()
    await world.state(key, 'open')
    await giveUp(world, key)
    await letterOf(world.bus, key, 'open')
    await letterOf(world.bus, bad, 'open')
    const ids = async (bus: Bus) => (await letters(bus)).map(({ id }) => id)
    await until(async () => (await ids(audit)).length === 1, { what: 'the subagent is known for an agent' })
    expect([await ids(audit), await ids(alice)]).toEqual([[key.id], [key.id, bad.id]])
    const whole = async (bus: Bus, { id }: PassKey) => (await bus.ask({ op: 'dead_letter', id })) as Partial<DeadLetterAnswer>
    expect(await whole(audit, bad)).toMatchObject({ ok: false, error: { code: 'E041' } })
    const asked = (await whole(audit, key)) as { letters: DeadLetterDetail[] }
    expect(asked.letters).toMatchObject([{ letter: { what: 'work' }, error: { code: 'E011' } }])
    expect(Object.keys(asked.letters[0] ?? {}).sort()).toEqual(['error', 'letter'])
    const own = (await whole(alice, key)) as { letters: DeadLetterDetail[] }
    expect(Buffer.from(own.letters[0]?.request?.data ?? []).toString()).toContain('let a = 1')
    expect(await whole(alice, bad)).toMatchObject({ letters: [{ data: expect.anything(), request: expect.anything() }] })
  })

  test('a notice that nobody took hides no dead letter of its pass', async () => {
    await using made = await AgentWorld.start({ dispatchers: [{ policy: POLICY }], audit: { open: true } })
    const { world } = made
    await register(world, 'audit')
    const key = await world.ask()
    const journal = await world.state(key, 'open')
    const body = { v: 1, sequence: journal.last - 1, error: { code: 'E040', message: 'the webhook took it 0 times', recoverable: true } }
    sequenceOf(await world.bus.publish({ subject: world.bus.subjects.event(key, 'dead_letter', 'passover'), data: encode(body) }))
    expect(await letterOf(world.bus, key, 'open')).toMatchObject({ what: 'notice' })
    await giveUp(world, key)
    await world.end(key, 30_000)
    await until(async () => (await letters(world.bus)).some(({ what }) => what === 'work'), { what: 'the lost work is told' })
  })
})
