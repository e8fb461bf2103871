import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { encode } from '@passover/bus'
import { HEADER, type PassKey, type PassOverPreferences, type PolicyVersion, policyDigest, type WorkControl } from '@passover/schemas'
import { describe, expect, test } from 'vitest'
import { World } from '../../support/dispatcher/dispatcher.js'
import { admittedPasses, publishPolicy, storeOf } from '../../support/dispatcher/policies.js'
import { staysTrue, until } from '../../support/processes/until.js'

/** Three times the promise of 5 s: others use this machine too. What does not follow at all never does. */
const SOON_MS = 15_000
const soon = { deadline_ms: SOON_MS }

/** Passes until one is admitted under the version. */
async function admittedUnder(world: World, version: number): Promise<WorkControl> {
  return until(
    async () => {
      const control = await world.work(await world.ask())
      return control.policy_version === version ? control : undefined
    },
    { what: `a pass under version ${version}`, ...soon },
  )
}

describe('a policy version', () => {
  test('is an event first, then in force with every dispatcher, and each pass records it', async () => {
    await using world = await World.start({ dispatchers: [{}, {}] })
    await world.agent('audit')
    expect((await world.work(await world.ask())).policy_version).toBe(0)
    const value = await publishPolicy(world, { defaults: { timeout_ms: 11_000 } }, { by: 'maria', reason: 'slower' })
    const stored = await world.bus.journal.message(value.sequence)
    expect(stored).toMatchObject({ subject: 'policy.maria', time: value.time })
    expect(value).toMatchObject({ version: 1, by: 'maria', reason: 'slower' })
    const control = await admittedUnder(world, 1)
    expect(control).toMatchObject({ policy_name: 'defaults', policy: { timeout_ms: 11_000 } })
    expect((await admittedPasses(world)).map(({ policy_version }) => policy_version)).toContain(1)
    // Whichever of the two takes it: both follow.
    const versions = async () => {
      const later = await Promise.all(Array.from({ length: 40 }, async () => world.work(await world.ask())))
      return new Set(later.map(({ policy_version }) => policy_version))
    }
    await until(async () => !(await versions()).has(0), { what: 'both are under it', ...soon })
    expect(await versions()).toEqual(new Set([1]))
  })

  test('refuses by name: entry, version and place stand in the refusal, the version in its header', async () => {
    await using world = await World.start()
    await world.agent('audit')
    await publishPolicy(world, { pairs: { 'alice->audit': { enabled: false, reason: 'on leave' } } })
    const key = await until(
      async () => {
        const asked = await world.ask()
        return (await settled(world, asked)) === 'done' ? asked : undefined
      },
      { what: 'a refusal', ...soon },
    )
    const { error, step } = await world.end(key)
    expect(error).toMatchObject({
      code: 'E004',
      details: { policy_name: 'pair alice->audit', policy_version: 1, policy_path: '$.pairs["alice->audit"].enabled', reason: 'on leave' },
    })
    // claude-code#44534: no work was published.
    expect(step).toMatchObject({ by: 'passover', guard: { sequence: 0 } })
    expect((await world.bus.journal.message(step.sequence))?.headers.get(HEADER.policy)).toBe('1')
  })

  /** nats.deno#688: after a server restart a policy change is still seen within 5 s. */
  test('is followed soon also after the server was killed and came back', async () => {
    await using world = await World.start({ dispatchers: [{}, {}] })
    await world.agent('audit')
    await publishPolicy(world, { defaults: { timeout_ms: 11_000 } })
    await admittedUnder(world, 1)
    await world.nats.node.kill()
    await world.nats.node.restart()
    await until(() => world.bus.connected, { what: 'connected again' })
    await publishPolicy(world, { defaults: { timeout_ms: 12_000 } })
    const published = Date.now()
    await until(
      async () =>
        [...(await Promise.all(Array.from({ length: 8 }, async () => world.work(await world.ask()))))].every(
          ({ policy_version }) => policy_version === 2,
        ),
      { what: 'both dispatchers follow', ...soon },
    )
    expect(Date.now() - published).toBeLessThan(SOON_MS)
  })

  test('whose author died before it was in force is put there: by a dispatcher, also at its start', async () => {
    await using world = await World.start({ dispatchers: [] })
    await world.agent('audit')
    await eventAlone(world, 1, { defaults: { timeout_ms: 13_000 } })
    await world.dispatcher()
    expect((await world.work(await world.ask())).policy_version).toBe(1)
    expect(await (await storeOf(world)).stand()).toMatchObject({ kind: 'valid', value: { version: 1, by: 'maria' } })
    await eventAlone(world, 2, { defaults: { timeout_ms: 14_000 } })
    expect(await admittedUnder(world, 2)).toMatchObject({ policy: { timeout_ms: 14_000 } })
    expect((await (await storeOf(world)).versions()).map(({ version }) => version)).toEqual([2, 1])
  })
})

/** As an operator does who has a backup of its beginning: events that were stored since are gone. */
async function restoreStream(world: World, first: PolicyVersion): Promise<void> {
  const stored = await world.bus.journal.message(first.sequence)
  if (!stored) throw new Error('nothing to restore')
  const nc = await connect({ servers: world.nats.servers })
  const manager = await jetstreamManager(nc)
  const { config } = await manager.streams.info('PASSOVER')
  await manager.streams.delete('PASSOVER')
  await manager.streams.add(config)
  await nc.close()
  const headers = Object.fromEntries(stored.headers.pairs().filter(([name]) => !name.startsWith('Nats-')))
  const again = await world.bus.publish({ subject: stored.subject, data: stored.data, headers })
  expect(again).toMatchObject({ kind: 'stored', sequence: first.sequence })
  await world.bus.ensureTopology()
}

describe('a stream that lost the version in force', () => {
  test('is believed by running dispatchers as by those that start: the version that it has, and then the next one', async () => {
    await using world = await World.start({ dispatchers: [{ policy_ms: 50, consumers_ms: 200 }] })
    const first = await publishPolicy(world, { defaults: { timeout_ms: 11_000 } })
    await world.agent('audit')
    await publishPolicy(world, { defaults: { timeout_ms: 12_000 } })
    await publishPolicy(world, { defaults: { timeout_ms: 13_000 } })
    await admittedUnder(world, 3)
    await restoreStream(world, first)
    // The registrations were lost with the stream: the registry believes only events.
    await world.agent('audit')
    await world.agent('alice', { originates: 'always', subagent: false })
    expect(await admittedUnder(world, 1)).toMatchObject({ policy: { timeout_ms: 11_000 } })
    // The bucket still names the lost one, which an author replaces.
    expect(await publishPolicy(world, { defaults: { timeout_ms: 9_000 } })).toMatchObject({ version: 2 })
    expect(await admittedUnder(world, 2)).toMatchObject({ policy: { timeout_ms: 9_000 } })
    await world.dispatchers[0]!.drain()
    await world.dispatcher()
    expect(await world.work(await world.ask())).toMatchObject({ policy_version: 2, policy: { timeout_ms: 9_000 } })
  })
})

/** What became of a request. */
function settled(world: World, key: PassKey): Promise<string> {
  return until(
    async () => {
      const { state } = await world.journal(key)
      return state === 'none' ? undefined : state
    },
    { what: 'a first step' },
  )
}

/** As an author that dies between the event and the bucket. */
async function eventAlone(world: World, version: number, document: PassOverPreferences): Promise<void> {
  const body = { v: 1, version, base: version - 1, document, digest: policyDigest(document) }
  const outcome = await world.bus.publish({ subject: world.bus.subjects.policy('maria'), data: encode(body) })
  expect(outcome.kind).toBe('stored')
}

describe('what is no version changes nothing', () => {
  const good: PassOverPreferences = { defaults: { timeout_ms: 11_000 } }
  const version = (document: object, more: object = {}) => ({
    version: 2,
    digest: policyDigest(document as PassOverPreferences),
    document,
    by: 'mallory',
    time: 1,
    sequence: 99,
    ...more,
  })
  const BAD: [string, unknown][] = [
    ['no version at all', 'nonsense'],
    ['a document that fails the schema', version({ defaults: { timeout_ms: -1 } })],
    ['an unknown key', version({ defalts: {} })],
    ['another digest', version({ defaults: { timeout_ms: 1 } }, { digest: 'x' })],
  ]

  test.each(BAD)('`current` with %s', async (_, value) => {
    await using world = await World.start({ dispatchers: [{ policy_ms: 50 }] })
    await world.agent('audit')
    await publishPolicy(world, good)
    await admittedUnder(world, 1)
    await (await storeOf(world)).table.put('current', value)
    const ok = async () => {
      const { policy_version, policy } = await world.work(await world.ask())
      return policy_version === 1 && policy.timeout_ms === 11_000
    }
    await staysTrue(ok, { what: 'the last good version', for_ms: 500 })
    // A dispatcher that starts now finds the last good one too, and the next version mends it.
    await world.dispatchers[0]!.drain()
    await world.dispatcher()
    expect(await ok()).toBe(true)
    await publishPolicy(world, { defaults: { timeout_ms: 12_000 } })
    expect(await admittedUnder(world, 2)).toMatchObject({ policy: { timeout_ms: 12_000 } })
  })

  test('an older version, as a copy that lags behind shows it', async () => {
    await using world = await World.start({ dispatchers: [{ policy_ms: 50 }] })
    await world.agent('audit')
    const first = await publishPolicy(world, { defaults: { timeout_ms: 12_000 } })
    await publishPolicy(world, good)
    await admittedUnder(world, 2)
    await (await storeOf(world)).table.put('current', first)
    await staysTrue(async () => (await world.work(await world.ask())).policy_version === 2, { what: 'version 2', for_ms: 500 })
  })

  test('an event that no honest author publishes', async () => {
    await using world = await World.start({ dispatchers: [{ policy_ms: 50 }] })
    await world.agent('audit')
    await publishPolicy(world, good)
    const subject = world.bus.subjects.policy('mallory')
    const document: PassOverPreferences = { defaults: { timeout_ms: 1 } }
    const body = { v: 1, version: 2, base: 1, document, digest: policyDigest(document) }
    for (const wrong of [
      'nonsense',
      { ...body, digest: 'x' },
      { ...body, version: 7 },
      { ...body, version: 1 },
      { ...body, document: { defaults: { timeout_ms: -1 } } },
    ])
      await world.bus.publish({ subject, data: encode(wrong) })
    await admittedUnder(world, 1)
    await staysTrue(async () => (await world.work(await world.ask())).policy_version === 1, { what: 'version 1', for_ms: 2_500 })
    expect((await publishPolicy(world, { defaults: { timeout_ms: 12_000 } })).version).toBe(2)
  })

  test('a deleted `current`: it is made anew from the stream', async () => {
    await using world = await World.start()
    await world.agent('audit')
    await publishPolicy(world, good)
    await admittedUnder(world, 1)
    await (await storeOf(world)).table.delete('current')
    expect((await world.work(await world.ask())).policy_version).toBe(1)
    await world.dispatchers[0]!.drain()
    await world.dispatcher()
    expect((await world.work(await world.ask())).policy_version).toBe(1)
    expect(await (await storeOf(world)).stand()).toMatchObject({ kind: 'valid', value: { version: 1 } })
  })
})
