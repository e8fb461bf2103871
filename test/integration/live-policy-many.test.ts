import { PolicyStore } from '@passover/bus'
import { resolvePolicy } from '@passover/core'
import { agentRecord, type PassOverPreferences } from '@passover/schemas'
import { describe, expect, test } from 'vitest'
import { CONTEXT, World } from '../support/dispatch.js'
import { admittedPasses, peopleOf, publishPolicy, publishUpon, storeOf } from '../support/policies.js'
import { until } from '../support/until.js'

/** More of both makes a measurement of it: PASSOVER_IN_FLIGHT=256 PASSOVER_PER_VERSION=2000. */
const IN_FLIGHT = Number(process.env.PASSOVER_IN_FLIGHT ?? 32)
const PER_VERSION = Number(process.env.PASSOVER_PER_VERSION ?? 100)

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
  }, 120_000)

  test('under load every pass runs under exactly one version: the one that it records', async () => {
    await using world = await World.start({ dispatchers: [{}, {}] })
    await world.agent('audit')
    const documents = new Map<number, PassOverPreferences>([[0, {}]])
    let passing = true
    let asked = 0
    const began = performance.now()
    const load = Array.from({ length: IN_FLIGHT }, async () => {
      while (passing) {
        // A session of its own each, so that the loop breaker is none of this.
        await world.ask({ timeout_ms: 60_000, work_context: { ...CONTEXT, session_id: `s${asked++}` } })
      }
    })
    for (let n = 1; n <= 12; n++) {
      const before = asked
      const document: PassOverPreferences = {
        defaults: { max_attempts: 1 + (n % 5), lease_ms: 1_000 + n, max_timeout_ms: 70_000 + n },
        pairs: { 'alice->audit': { approval_expires_ms: 1_000 + n, max_chain_depth: 1 + (n % 4), allow_widening: ['timeout_ms'] } },
        subagents: { audit: { max_memory_mb: n } },
      }
      const { version, document: stored } = await publishPolicy(world, document)
      documents.set(version, stored)
      await until(() => asked > before + PER_VERSION, { what: 'more passes', deadline_ms: 60_000 })
    }
    passing = false
    await Promise.all(load)
    const rate = (count: number) => Math.round((count * 1_000) / (performance.now() - began))
    const requested = rate(asked)
    await world.untilAcknowledged(60_000)
    process.stdout.write(`policy changed 12 times under ${requested} requests/s: ${asked} passes, admitted at ${rate(asked)}/s\n`)
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
        request: { timeout_ms: 60_000 },
        agent,
      })
      if (!resolved.ok) throw new Error(resolved.error.message)
      expect(control.policy).toEqual(resolved.value.effective)
    }
    expect(seen.size).toBeGreaterThan(5)
  }, 180_000)
})
