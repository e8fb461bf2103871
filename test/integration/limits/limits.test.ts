import type { PassOverPreferences } from '@passover/schemas'
import { describe, expect, test } from 'vitest'
import { BUSY } from '../../support/builders/busy-policy.js'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { decided } from '../../support/dispatcher/decided.js'
import { type Ask, World } from '../../support/dispatcher/dispatcher.js'
import { until } from '../../support/processes/until.js'

const policy = (document: PassOverPreferences) => ({ policy: { version: 0, document } })

/** Asks so often at a time, and tells what became of each. */
async function ask(world: World, times: number, what: Ask = {}) {
  const keys = await Promise.all(Array.from({ length: times }, () => world.ask({ timeout_ms: 300_000, ...what })))
  return decided(world, keys)
}

async function finish(world: World, key: { originator: string; subagent: string; id: string }): Promise<void> {
  const journal = await world.state(key, 'open')
  await world.step('return', key, { attempt: 1, guard: journal.last })
  await world.state(key, 'done')
}

describe('the loop breaker', () => {
  test('ends an agent that passes on for ever at exactly its limit, and leaves its delegator the session', async () => {
    const limit = 12
    await using agents = await AgentWorld.start({
      dispatchers: [policy({ defaults: { max_passes_per_session: limit } }), policy({ defaults: { max_passes_per_session: limit } })],
    })
    const alice = await agents.agent('alice')
    const audit = await agents.agent('audit')
    const scout = await agents.agent('scout')
    let made = 0
    await scout.onPass(() => ({ status: 'completed', artifacts: [] }))
    await audit.onPass(async (pass) => {
      // Each child claims a session of its own: all count for the tree all the same.
      for (;;) {
        const session_id = `made-up-${made}`
        await pass.passOver({ subagent: 'scout', reason: 'again', work_context: { objective: 'and again', session_id } })
        made += 1
      }
    })
    const session_id = 'named'
    const output = alice.passOver({
      subagent: 'audit',
      reason: 'loop',
      work_context: { objective: 'loop', session_id },
      timeout_ms: 60_000,
    })
    const error = await output.result().then(
      () => undefined,
      (cause: Error) => cause,
    )
    expect(error).toMatchObject({ code: 'E011' })
    expect(error?.message).toMatch(new RegExp(`audit already requested ${limit} passes within the tree of \\S+;`))
    expect(made).toBe(limit)
    const more = (context: object) => alice.passOver({ subagent: 'scout', reason: 'more', work_context: { objective: 'more', ...context } })
    const one = async (context: object) => (await more(context).result()).status
    // The children took nothing from the session of alice: `limit - 1` more, and no other.
    for (let n = 1; n < limit; n++) expect(await one({ session_id })).toBe('completed')
    await expect(one({ session_id })).rejects.toMatchObject({
      code: 'E014',
      recoverable: false,
      context: { field: 'max_passes_per_session', scope: 'session', limit, count: limit, mend: expect.stringContaining('another session') },
    })
    // Nobody waits for what never comes.
    const spent = { subagent: 'scout', reason: 'more', work_context: { objective: 'more', session_id } }
    const unbearable = { retry_delay_ms: 3_600_000 }
    await expect(alice.passOverWithRetry(spent, unbearable)).rejects.toMatchObject({ code: 'E014' })
    expect(await one({ session_id: 'another' })).toBe('completed')
  })

  test('does not count the passes of a connection for which nobody named a session', async () => {
    const limit = 3
    await using agents = await AgentWorld.start({ dispatchers: [policy({ defaults: { max_passes_per_session: limit } })] })
    const alice = await agents.agent('alice', undefined, undefined, '')
    const audit = await agents.agent('audit')
    const scout = await agents.agent('scout')
    await scout.onPass(() => ({ status: 'completed', artifacts: [] }))
    const codes: (string | undefined)[] = []
    await audit.onPass(async (pass) => {
      const below = { subagent: 'scout', reason: 'below', work_context: { objective: 'below' } }
      for (let n = 0; n <= limit; n++) {
        const told = pass.passOver(below).result()
        codes.push(await told.then(() => 'completed').catch((error: { code?: string }) => error.code))
      }
      return { status: 'completed', artifacts: [] }
    })
    for (let n = 0; n < 2 * limit; n++) {
      const output = alice.passOver({ subagent: 'scout', reason: 'on', work_context: { objective: 'on' } })
      expect((await output.result()).status).toBe('completed')
    }
    // Each tree is counted by itself.
    for (let n = 0; n < 2; n++) await alice.passOver({ subagent: 'audit', reason: 'tree', work_context: { objective: 'tree' } }).result()
    const tree = [...Array.from({ length: limit }, () => 'completed'), 'E014']
    expect(codes).toEqual([...tree, ...tree])
  })
})

describe('held passes of one originator', () => {
  test('are at most max_held, to whomever they are, over restarts; there is room again when one is approved, denied, cancelled or expires', async () => {
    const limit = 4
    const settings = policy({ defaults: { max_held: limit }, pairs: { 'alice->quick': { approval_expires_ms: 1_000 } } })
    await using world = await World.start({ dispatchers: [settings] })
    for (const name of ['audit', 'scout', 'quick']) await world.agent(name)
    const override = { hold_before_dispatch: true }
    /** Of held passes the first step tells, whatever became of them since. */
    const hold = async (what: Ask = {}) => {
      const key = await world.ask({ override, timeout_ms: 300_000, ...what })
      const first = await until(async () => (await world.bus.journal.read(key))[0], { what: 'it is decided', deadline_ms: 60_000 })
      return { key, digest: first.digest ?? '', error: first.kind === 'held' ? undefined : (await world.end(key)).error }
    }
    const all = await Promise.all(Array.from({ length: 12 }, (_, n) => hold({ to: n % 2 ? 'audit' : 'scout' })))
    const held = all.filter(({ error }) => !error)
    const full = { code: 'E014', details: { field: 'max_held', scope: 'originator', limit, count: limit, retry_after_ms: 60_000 } }
    expect(held).toHaveLength(limit)
    for (const { error } of all) if (error) expect(error).toMatchObject(full)
    expect((await ask(world, 2)).open).toHaveLength(2)
    expect((await hold({ from: 'bob' })).error).toBeUndefined()

    for (const snapshot of [true, false]) {
      await world.dispatchers.at(-1)?.drain()
      const store = await world.bus.objects('snapshots')
      if (!snapshot) for (const name of await store.list()) await store.delete(name)
      await world.dispatcher(settings)
      expect((await hold()).error).toMatchObject(full)
    }

    /** Holds one more as soon as there is room, and then no other. */
    const room = async (what: Ask = {}) => {
      const one = await until(async () => [await hold(what)].find(({ error }) => !error), { what: 'there is room for one' })
      if (what.to !== 'quick') expect((await hold()).error).toMatchObject(full)
      return one
    }
    const [approved, denied, cancelled] = held
    await world.decide(approved!.key, { digest: approved!.digest })
    await room()
    await world.decide(denied!.key, { digest: denied!.digest, verdict: 'deny' })
    await room()
    await world.cancel(cancelled!.key)
    const expires = await room({ to: 'quick' })
    expect((await world.end(expires.key)).error).toMatchObject({ code: 'E013', details: { approval: 'expired' } })
    await room()
  })
})

describe('open passes of one pair', () => {
  test('are at most max_open, held ones too, over restarts; the next one begins when one has ended; max_active of the pair replaces it', async () => {
    const limit = 4
    const settings = policy({ defaults: { max_open: limit }, pairs: { 'bob->audit': { max_active: limit + 2 } } })
    await using world = await World.start({ dispatchers: [settings] })
    for (const name of ['audit', 'scout']) await world.agent(name)
    await world.state(await world.ask({ override: { hold_before_dispatch: true }, timeout_ms: 300_000 }), 'held')
    const mine = await ask(world, 12)
    expect(mine.open).toHaveLength(limit - 1)
    const mend = expect.stringContaining('passover cancel --from alice --to audit --all')
    const full = { code: 'E014', details: { field: 'max_open', scope: 'pair', limit, count: limit, retry_after_ms: 1_000, mend } }
    for (const error of mine.errors) expect(error).toMatchObject(full)
    // Other pairs have their own: of the same originator, and to the same subagent.
    expect((await ask(world, limit, { to: 'scout' })).open).toHaveLength(limit)
    expect((await ask(world, limit + 4, { from: 'bob' })).open).toHaveLength(limit + 2)

    for (const snapshot of [true, false]) {
      await world.dispatchers.at(-1)?.drain()
      const store = await world.bus.objects('snapshots')
      if (!snapshot) for (const name of await store.list()) await store.delete(name)
      const again = await world.dispatcher(settings)
      const hasRead = () => again.health().checks.some(({ name, state }) => name === 'timekeeper' && state === 'ok')
      await until(hasRead, { what: 'it has read the stream' })
      const { errors } = await ask(world, 2)
      expect(errors).toMatchObject([full, full])
    }

    await finish(world, mine.open[0]!)
    await until(async () => (await ask(world, 1)).open.length === 1, { what: 'there is room for one more' })
    expect((await ask(world, 3)).open).toHaveLength(0)
  })
})

describe('rates and active passes', () => {
  test('one dispatcher lets through exactly max_active, whoever asks at once, and the next when one has ended', async () => {
    await using world = await World.start({ dispatchers: [policy({ subagents: { audit: { max_active: 10 } } })] })
    await world.agent('audit')
    // Passes that wait for a person take nothing of the subagent, however many one agent asks for.
    const held = await Promise.all(
      Array.from({ length: 20 }, () => world.ask({ from: 'mallory', override: { hold_before_dispatch: true }, timeout_ms: 300_000 })),
    )
    for (const key of held) await world.state(key, 'held')
    expect((await ask(world, 8, { from: 'mallory' })).errors.map((error) => error?.details)).toEqual(
      Array.from({ length: 3 }, () => expect.objectContaining({ field: 'max_active', scope: 'share', limit: 5, of: 10, count: 5 })),
    )
    const [mine, bobs] = await Promise.all([ask(world, 100), ask(world, 100, { from: 'bob' })])
    expect(mine.open.length + bobs.open.length).toBe(5)
    for (const error of [...mine.errors, ...bobs.errors]) {
      expect(error).toMatchObject({ code: 'E014', details: { field: 'max_active', scope: 'subagent', limit: 10, count: 10 } })
      expect(error?.details?.retry_after_ms).toBe(1_000)
    }
    await finish(world, [...mine.open, ...bobs.open][0]!)
    await until(async () => (await ask(world, 1)).open.length === 1, { what: 'there is room for one more' })
    expect((await ask(world, 3)).open).toHaveLength(0)
  })

  test('several dispatchers overshoot by no more than is under way, and then not at all', async () => {
    const settings = { ...policy({ pairs: { 'alice->audit': { max_active: 10 } } }), concurrency: 4 }
    await using world = await World.start({ dispatchers: [settings, settings, settings] })
    await world.agent('audit')
    const { open } = await ask(world, 200)
    expect(open.length).toBeGreaterThanOrEqual(10)
    expect(open.length).toBeLessThanOrEqual(10 + 2 * 4)
    await until(() => world.dispatchers.every((one) => one.stats().open >= open.length), { what: 'all have read it' })
    expect((await ask(world, 30)).open).toHaveLength(0)
    // Another pair is not bound by it.
    expect((await ask(world, 3, { from: 'bob' })).open).toHaveLength(3)
  })

  test('both levels bind; the error says when the minute has room again', async () => {
    const pairs = { 'alice->audit': { max_passes_per_minute: 3 }, 'bob->audit': { max_passes_per_minute: 100 } }
    await using world = await World.start({ dispatchers: [policy({ pairs })] })
    // The registry's limit stands below the policy's entry, and counts all passes to the subagent.
    await world.agent('audit', { defaults: { max_passes_per_minute: 5 } })
    const mine = await ask(world, 5)
    expect(mine.open).toHaveLength(3)
    expect(mine.errors[0]).toMatchObject({ code: 'E014', details: { field: 'max_passes_per_minute', scope: 'pair', limit: 3, count: 3 } })
    const bobs = await ask(world, 5, { from: 'bob' })
    expect(bobs.open).toHaveLength(2)
    expect(bobs.errors[0]).toMatchObject({ details: { scope: 'subagent', limit: 5, count: 5 } })
    const wait = Number(bobs.errors[0]?.details?.retry_after_ms)
    expect(wait).toBeGreaterThan(30_000)
    expect(wait).toBeLessThanOrEqual(61_000)
    // Ended passes count for their minute.
    for (const key of mine.open) await finish(world, key)
    expect((await ask(world, 1)).open).toHaveLength(0)
  })

  test('without a limit nothing is refused', async () => {
    await using world = await World.start({ dispatchers: [{ policy: BUSY }] })
    await world.agent('audit')
    expect((await ask(world, 1_100)).open).toHaveLength(1_100)
  })
})

describe('counts of a dispatcher that starts again', () => {
  const limits = policy({
    defaults: { max_passes_per_session: 12 },
    pairs: { 'alice->audit': { max_active: 5 }, 'alice->scout': { max_passes_per_minute: 4 } },
  })

  test.each([['from its snapshot'], ['without one']])(
    '%s they are what they were',
    async (how) => {
      await using world = await World.start({ dispatchers: [limits] })
      for (const name of ['audit', 'scout', 'fixer']) await world.agent(name)
      expect((await ask(world, 8, { to: 'audit' })).open).toHaveLength(5)
      const scouts = await ask(world, 6, { to: 'scout' })
      expect(scouts.open).toHaveLength(4)
      for (const key of scouts.open) await finish(world, key)
      await world.dispatchers[0]!.drain()
      if (how === 'without one') {
        const store = await world.bus.objects('snapshots')
        for (const name of await store.list()) await store.delete(name)
      }
      await world.dispatcher(limits)
      const audits = await ask(world, 2, { to: 'audit' })
      expect(audits.errors[0]?.details).toMatchObject({ field: 'max_active', count: 5 })
      expect(audits.open).toHaveLength(0)
      expect((await ask(world, 2, { to: 'scout' })).errors[0]?.details).toMatchObject({ field: 'max_passes_per_minute', count: 4 })
      // 9 of the session have begun: three more, and no fourth.
      const rest = await ask(world, 6, { to: 'fixer' })
      expect(rest.open).toHaveLength(3)
      expect(rest.errors[0]?.details).toMatchObject({ field: 'max_passes_per_session', scope: 'session', count: 12 })
    },
    180_000,
  )

  test('a dispatcher that keeps no time leaves passes under a rate to one that does, and bounds sessions by itself', async () => {
    await using world = await World.start({ dispatchers: [{ ...limits, timekeeper: false }] })
    for (const name of ['audit', 'fixer']) await world.agent(name)
    const limited = await world.ask({ to: 'audit' })
    await until(() => world.dispatchers[0]!.stats().retried > 0, { what: 'it is given back' })
    expect((await world.journal(limited)).state).toBe('none')
    const free = await ask(world, 20, { to: 'fixer' })
    expect(free.open).toHaveLength(12)
    await world.dispatcher({ ...limits, policy: { version: 0, document: { pairs: limits.policy.document.pairs! } } })
    await world.state(limited, 'open', 20_000)
  })
})
