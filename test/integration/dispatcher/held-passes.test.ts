import type { PassKey } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { CLOCK_MS, CONTEXT, World } from '../../support/dispatcher/dispatcher.js'
import { staysTrue, until } from '../../support/processes/until.js'

const HOLD = { hold_before_dispatch: true }

async function heldPass(world: World, ask: Parameters<World['ask']>[0] = {}): Promise<{ key: PassKey; digest: string }> {
  const key = await world.ask({ override: HOLD, ...ask })
  // Whatever became of it since: a short approval may have expired before anybody looks.
  const held = await until(async () => (await world.bus.journal.read(key)).find(({ kind }) => kind === 'held'), { what: 'it is held' })
  if (!held.digest) throw new Error('no digest')
  return { key, digest: held.digest }
}

describe('held passes', () => {
  let world: World
  beforeAll(async () => {
    const approvers = { pairs: { 'alice->vault': { approvers: ['olga'] }, 'alice->quick': { approval_expires_ms: 700 } } }
    world = await World.start({ dispatchers: [{ policy: { version: 7, document: approvers } }] })
    for (const name of ['audit', 'scout', 'vault', 'quick']) await world.agent(name)
  })
  afterAll(() => world[Symbol.asyncDispose]())

  test('approved: becomes work with its context, its timeout counting from the approval', async () => {
    const { key, digest } = await heldPass(world, { timeout_ms: 9_000 })
    await world.decide(key, { digest })
    const control = await world.work(key)
    expect(control).toMatchObject({ digest, timeout_ms: 9_000, policy_version: 7 })
    const steps = await world.bus.journal.read(key)
    expect(steps.map(({ kind }) => kind)).toEqual(['held', 'work'])
    expect(steps[1]).toMatchObject({ guard: { sequence: steps[0]?.sequence }, timeout_ms: 9_000 })
    const { parts } = (await world.body(steps[1]?.sequence ?? 0)) as { parts: { name: string; data: Uint8Array }[] }
    expect(Buffer.from(parts.find(({ name }) => name === 'file:a.ts')?.data ?? []).toString()).toBe(CONTEXT.files[0]?.content)
  })

  test('denied: E013 with the reason, and nothing was dispatched', async () => {
    const { key, digest } = await heldPass(world)
    await world.decide(key, { digest, verdict: 'deny', reason: 'not today' })
    const end = await world.end(key)
    expect(end.error).toMatchObject({ code: 'E013', details: { approval: 'denied', person: 'pat' } })
    expect(end.error?.message).toContain('not today')
    expect((await world.bus.journal.read(key)).map(({ kind }) => kind)).toEqual(['held', 'return'])
  })

  test('another digest, the own subagent, another agent, and who is no approver do not count; the next decision does', async () => {
    const { key, digest } = await heldPass(world, { to: 'vault' })
    await world.decide(key, { person: 'olga', digest: '0'.repeat(64) })
    await world.decide(key, { person: 'vault', digest })
    await world.decide(key, { person: 'scout', digest })
    const last = await world.decide(key, { person: 'pat', digest })
    await until(async () => (await world.bus.journal.message(last)) !== undefined, { what: 'stored' })
    await staysTrue(async () => (await world.journal(key)).state === 'held', { what: 'it stays held', for_ms: 300 })
    await world.decide(key, { person: 'olga', digest })
    await world.state(key, 'open')
  })

  test('of several decisions the first in the stream counts', async () => {
    const { key, digest } = await heldPass(world)
    const { subjects } = world.bus
    await Promise.all([
      world.decide(key, { person: 'pat', digest, verdict: 'deny' }),
      world.decide(key, { person: 'quinn', digest, verdict: 'approve' }),
    ])
    const history = await world.bus.journal.history(key)
    const first = history.map((stored) => subjects.parse(stored.subject)).find((parsed) => parsed.kind === 'decision')
    const journal = await until(
      async () => {
        const now = await world.journal(key)
        return now.state === 'held' ? undefined : now
      },
      { what: 'it is decided' },
    )
    expect(journal.state).toBe(first?.kind === 'decision' && first.person === 'pat' ? 'done' : 'open')
  })

  test('the expiry that nobody met ends it with E013; a late approval changes nothing', async () => {
    const { key, digest } = await heldPass(world, { to: 'quick' })
    const end = await world.end(key)
    expect(end.error).toMatchObject({ code: 'E013', details: { approval: 'expired' } })
    const lasted = end.step.time - (await world.bus.journal.read(key))[0]!.time
    expect(lasted).toBeGreaterThanOrEqual(700 - CLOCK_MS)
    // Long before the day that an approval has by itself; others use this machine too.
    expect(lasted).toBeLessThan(10_000)
    await world.decide(key, { digest })
    const audit = await heldPass(world)
    await world.decide(audit.key, { digest: audit.digest })
    await world.state(audit.key, 'open')
    expect((await world.bus.journal.read(key)).map(({ kind }) => kind)).toEqual(['held', 'return'])
  })

  test('a held JSON request is answered in JSON when it is denied, cancelled or expires', async () => {
    const denied = await heldPass(world, { form: 'json' })
    await world.decide(denied.key, { digest: denied.digest, verdict: 'deny' })
    expect((await world.end(denied.key)).content_type).toBe('application/json')
    const expired = await heldPass(world, { form: 'json', to: 'quick' })
    expect((await world.end(expired.key)).content_type).toBe('application/json')
    const cancelled = await heldPass(world, { form: 'json' })
    await world.cancel(cancelled.key)
    expect(await world.end(cancelled.key)).toMatchObject({ content_type: 'application/json', error: { code: 'E043' } })
  })

  test('a held child ends with its parent, and its approval does nothing', async () => {
    const parent = await world.ask({ to: 'audit' })
    const open = await world.state(parent, 'open')
    const { return_id } = await world.work(parent)
    const child = await heldPass(world, { from: 'audit', to: 'scout', parent: { ...parent, return_id, proof: open.valid } })
    await world.cancel(parent)
    expect((await world.end(child.key)).error).toMatchObject({ code: 'E043' })
  })

  test('a decision about a pass that is not there, or malformed, is acknowledged', async () => {
    const ghost = { originator: 'alice', subagent: 'audit', id: world.id() }
    await world.decide(ghost, { digest: 'x' })
    await world.bus.publish({ subject: world.bus.subjects.decision(ghost, 'dispatch', 'pat'), data: Buffer.from([0xc1, 0, 1]) })
    const { key, digest } = await heldPass(world)
    await world.bus.publish({ subject: world.bus.subjects.decision(key, 'dispatch', 'pat'), data: Buffer.from('{') })
    await world.decide(key, { digest, person: 'quinn' })
    await world.state(key, 'open')
  })
})
