import { PolicyStore } from '@passover/bus'
import { resolvePolicy } from '@passover/core'
import { agentRecord, type PassOverPreferences } from '@passover/schemas'
import { describe, expect, test } from 'vitest'
import { World } from '../../support/dispatcher/dispatcher.js'
import { Installation } from '../../support/dispatcher/installation.js'
import { acknowledgedOf, admittedPasses, peopleOf, publishPolicy, publishUpon, storeOf } from '../../support/dispatcher/policies.js'
import { until } from '../../support/processes/until.js'

/** More of both makes a measurement of it: PASSOVER_IN_FLIGHT=256 PASSOVER_PER_VERSION=2000. */
const IN_FLIGHT = Number(process.env.PASSOVER_IN_FLIGHT ?? 32)
const PER_VERSION = Number(process.env.PASSOVER_PER_VERSION ?? 100)
const VERSIONS = 12

describe('many at once', () => {
  test('of fifty who publish upon the same version one wins, and all others hear who', async () => {
    await using world = await World.start({ dispatchers: [] })
    await using people = await peopleOf(world, 10)
    const outcomes = await Promise.all(
      Array.from({ length: 50 }, (_, n) => people.stores[n % 10]!.publish({ document: { defaults: { timeout_ms: 1_000 + n } }, base: 0 })),
    )
    const [winner, ...more] = outcomes.filter(({ kind }) => kind === 'published')
    expect(more).toEqual([])
    expect(outcomes.filter(({ kind }) => kind === 'lost')).toHaveLength(49)
    for (const outcome of outcomes) expect('value' in outcome && outcome.value).toEqual(winner && 'value' in winner && winner.value)
  })

  test('fifty who each change what is in force give fifty versions in order', async () => {
    await using world = await World.start({ dispatchers: [] })
    await using people = await peopleOf(world, 10)
    const published = await Promise.all(
      Array.from({ length: 50 }, (_, n) => publishUpon(people.stores[n % 10]!, { document: { defaults: { timeout_ms: 1_000 + n } } })),
    )
    expect(published.map(({ version }) => version).sort((a, b) => a - b)).toEqual(Array.from({ length: 50 }, (_, n) => n + 1))
    const versions = await (await storeOf(world)).versions()
    expect(versions.map(({ version }) => version)).toEqual(Array.from({ length: 50 }, (_, n) => 50 - n))
    const sequences = versions.map(({ sequence }) => sequence)
    expect([...sequences].sort((a, b) => b - a)).toEqual(sequences)
    expect(await PolicyStore.open(world.bus).then((store) => store.stand())).toMatchObject({ kind: 'valid', value: { version: 50 } })
  })

  test('under load every pass runs under exactly one version: the one that it records', async () => {
    // Dispatchers and load are processes of their own: what is measured is theirs, not this one's.
    await using installed = await Installation.start({ dispatchers: 2, audit: false })
    const { world, document: initial } = installed
    await world.agent('audit')
    const documents = new Map<number, PassOverPreferences>([[0, initial]])
    const load = await installed.requester('alice', { IN_FLIGHT: String(IN_FLIGHT) })
    await using acknowledged = await acknowledgedOf(world)
    let asked = 0
    const ask = () => {
      asked += PER_VERSION
      load.tell({ do: 'ask', to: 'audit', passes: PER_VERSION })
    }
    const began = performance.now()
    ask()
    for (let n = 1; n <= VERSIONS; n++) {
      // More are asked for before those have been admitted: no version comes into force at rest.
      ask()
      const { version, document } = await publishPolicy(world, {
        defaults: { max_attempts: 1 + (n % 5), lease_ms: 1_000 + n, max_timeout_ms: 700_000 + n },
        pairs: { 'alice->audit': { approval_expires_ms: 1_000 + n, max_chain_depth: 1 + (n % 4), allow_widening: ['timeout_ms'] } },
        subagents: { audit: { max_memory_mb: n } },
      })
      documents.set(version, document)
      const enough = asked - PER_VERSION
      await until(async () => (await acknowledged.count()) >= enough, { what: `${enough} passes`, deadline_ms: 120_000 })
    }
    await until(async () => (await acknowledged.count()) >= asked, { what: 'all passes', deadline_ms: 120_000 })
    const rate = Math.round((asked * 1_000) / (performance.now() - began))
    await world.untilAcknowledged(60_000)
    process.stdout.write(`policy changed ${VERSIONS} times under ${rate} passes/s: ${asked} passes, admitted by 2 dispatchers\n`)
    const agents = await world.bus.table('agents', agentRecord)
    const agent = (await agents.get('audit'))?.value
    const passes = await admittedPasses(world)
    expect(passes).toHaveLength(asked)
    const seen = new Set<number>()
    for (const control of passes) {
      seen.add(control.policy_version)
      const resolved = resolvePolicy(documents.get(control.policy_version)!, {
        from: 'alice',
        to: 'audit',
        request: { timeout_ms: 600_000 },
        agent,
      })
      if (!resolved.ok) throw new Error(resolved.error.message)
      expect(control.policy).toEqual(resolved.value.effective)
    }
    expect(seen.size).toBeGreaterThan(5)
  }, 600_000)
})
