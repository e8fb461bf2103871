import { encode } from '@passover/bus'
import { type PassOverPreferences, type PolicyVersion, policyDigest } from '@passover/schemas'
import { expect, test } from 'vitest'
import { World } from '../../support/dispatcher/dispatcher.js'
import { publishPolicy, storeOf } from '../../support/dispatcher/policies.js'
import { staysTrue, until } from '../../support/processes/until.js'

const GOOD: PassOverPreferences = { defaults: { timeout_ms: 11_000 } }
const FORGED: PassOverPreferences = { defaults: { timeout_ms: 77_000 } }

interface Forging {
  world: World
  good: PolicyVersion
}

/** A whole and fitting version, as somebody writes it who may write the bucket and nothing else. */
function forged(more: Partial<PolicyVersion>): PolicyVersion {
  return { version: 2, digest: policyDigest(FORGED), document: FORGED, by: 'maria', time: Date.now(), sequence: 99_999, ...more }
}

async function event(world: World, document: PassOverPreferences, version = 2): Promise<number> {
  const body = { v: 1, version, base: version - 1, document, digest: policyDigest(document) }
  // A person's subject, no guard: of an event that nobody puts into force for 1.5 s.
  const outcome = await world.bus.publish({ subject: world.bus.subjects.policy('maria'), data: encode(body) })
  if (outcome.kind !== 'stored') throw new Error(outcome.kind)
  return outcome.sequence
}

const FORGERIES: [string, (forging: Forging) => Promise<PolicyVersion>][] = [
  ['no event', async () => forged({})],
  ['an event of another digest: the version before', async ({ good }) => forged({ sequence: good.sequence })],
  [
    'a sequence that is something else',
    async ({ world }) => forged({ sequence: (await world.bus.journal.newest(world.bus.subjects.all('request')))!.sequence }),
  ],
  [
    'an event that is deleted',
    async ({ world }) => {
      const sequence = await event(world, FORGED)
      await world.bus.journal.deleteMessage(sequence)
      return forged({ sequence })
    },
  ],
]

test.each(FORGERIES)('`current` that names %s changes nothing, and the next version mends it', async (_, forge) => {
  await using world = await World.start({ dispatchers: [{ policy_ms: 50 }] })
  await world.agent('audit')
  const good = await publishPolicy(world, GOOD)
  await underVersion(world, 1)
  const value = await forge({ world, good })
  const store = await storeOf(world)
  await store.table.put('version.2', value)
  await store.table.put('current', value)
  const ok = async () => {
    const { policy_version, policy } = await world.work(await world.ask())
    return policy_version === 1 && policy.timeout_ms === 11_000
  }
  await staysTrue(ok, { what: 'the last good version', for_ms: 500 })
  expect(await store.stand()).toMatchObject({ kind: 'invalid', why: expect.stringContaining(`sequence ${value.sequence}`) })
  expect((await store.versions()).map(({ version }) => version)).toEqual([1])
  // One that starts now takes what the stream says, and so does the next author.
  await world.dispatchers[0]!.drain()
  await world.dispatcher()
  expect(await ok()).toBe(true)
  expect(await publishPolicy(world, { defaults: { timeout_ms: 12_000 } })).toMatchObject({ version: 2 })
  expect(await underVersion(world, 2)).toBe(12_000)
})

test('a version is told as its event says it, whatever the bucket says of its author and reason', async () => {
  await using world = await World.start({ dispatchers: [] })
  const good = await publishPolicy(world, GOOD, { reason: 'slower' })
  const store = await storeOf(world)
  for (const key of ['current', 'version.1']) await store.table.put(key, { ...good, by: 'jonas', reason: 'mine', time: 1 })
  expect(await store.stand()).toMatchObject({ kind: 'valid', value: good })
  expect(await store.versions()).toEqual([good])
})

/** Passes until one is admitted under the version; gives its timeout. */
function underVersion(world: World, version: number): Promise<number> {
  return until(
    async () => {
      const { policy_version, policy } = await world.work(await world.ask())
      return policy_version === version ? policy.timeout_ms : undefined
    },
    { what: `a pass under version ${version}` },
  )
}
