import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { openBus } from '@passover/bus'
import { agentRecord, PRIORITIES, type RegisterAnswer, registerAnswer } from '@passover/schemas'
import { describe, expect, test } from 'vitest'
import { World } from '../../support/dispatcher/dispatcher.js'
import { until } from '../../support/processes/until.js'

async function registerAs(world: World, name: string, question: unknown = {}) {
  const bus = await openBus({ servers: world.nats.servers, identity: name })
  try {
    return await bus.ask(question, { service: 'register', timeout_ms: 60_000 })
  } finally {
    await bus[Symbol.asyncDispose]()
  }
}

describe('registration (decision 12)', () => {
  test('open: an agent registers itself, with event, record, consumers and bucket; then it is admitted to', async () => {
    await using world = await World.start({ dispatchers: [{}, {}] })
    const before = await world.bus.bounds()
    expect(await registerAs(world, 'audit', { description: 'checks', skills: ['types'] })).toEqual({ ok: true })
    const table = await world.bus.table('agents', agentRecord)
    expect((await table.get('audit'))?.value).toMatchObject({
      name: 'audit',
      roles: { originates: 'within_a_pass', subagent: true },
      registered_by: 'audit',
      description: 'checks',
      skills: ['types'],
    })
    const event = await world.bus.journal.message(before.last + 1)
    expect(event?.subject).toBe(world.bus.subjects.agent('passover'))
    for (const priority of PRIORITIES) expect(await world.workSource(priority).created()).toBeGreaterThan(0)
    // Whichever dispatcher takes it, also one whose watch has not heard yet.
    for (let n = 0; n < 8; n++) await world.work(await world.ask())
    expect(await registerAs(world, 'audit')).toEqual({ ok: true })
    // P3: without naming its parent it may start nothing.
    await world.agent('scout')
    expect((await world.end(await world.ask({ from: 'audit', to: 'scout' }))).error?.code).toBe('E013')
  })

  test("open: an agent says anew what it is for, its output schema and limits on itself; a person's word stands", async () => {
    await using world = await World.start()
    const schema = { type: 'object', required: ['verdict'] }
    expect(await registerAs(world, 'audit', { description: 'checks', limits: { max_active: 2 }, output_schema: schema })).toEqual({
      ok: true,
    })
    const table = await world.bus.table('agents', agentRecord)
    const record = async () => (await table.get('audit'))?.value
    expect(await record()).toMatchObject({ description: 'checks', defaults: { max_active: 2, output_schema: schema } })
    const before = await world.bus.bounds()
    // What it leaves out stays, and saying the same again says nothing.
    expect(await registerAs(world, 'audit', { skills: ['types'], limits: { max_active: 1 } })).toEqual({ ok: true })
    for (let n = 0; n < 3; n++)
      expect(await registerAs(world, 'audit', { skills: ['types'], limits: { max_active: 1 } })).toEqual({ ok: true })
    expect(await record()).toMatchObject({ description: 'checks', skills: ['types'], defaults: { max_active: 1, output_schema: schema } })
    expect((await world.bus.bounds()).last).toBe(before.last + 1)
    // No more than narrowing: an agent gives itself no right.
    expect(await registerAs(world, 'audit', { limits: { can_modify_files: true } })).toMatchObject({ ok: false, error: { code: 'E005' } })
    await world.agentRecord('audit', { description: 'a person said so' })
    expect(await registerAs(world, 'audit', { description: 'mine' })).toEqual({ ok: true })
    expect((await record())?.description).toBe('a person said so')
  })

  test('open: bounds what one agent stores of itself, of any size and at any rate, and never refuses a fleet that says the same', async () => {
    await using world = await World.start({ dispatchers: [{}, {}] })
    const eve = await openBus({ servers: world.nats.servers, identity: 'eve' })
    const asks = (question: unknown) =>
      eve.ask(question, { service: 'register', timeout_ms: 60_000 }).then((answer) => registerAnswer.parse(answer))
    const filler = (bytes: number) => ({ description: 'y'.repeat(bytes) })
    const events = async () => {
      let bytes = 0
      await using reader = await world.bus.follow({ filters: [world.bus.subjects.all('agent')] }, ({ data }) => {
        bytes += data.byteLength
      })
      await Promise.race([reader.caughtUp, reader.closed])
      return bytes
    }
    expect(await asks({ description: 'huge', output_schema: filler(66_000) })).toMatchObject({
      ok: false,
      error: { code: 'E005', message: expect.stringContaining('65536') },
    })
    // Two dispatchers, 8 questions at a time: more than one loses the race to change the record.
    const answers: RegisterAnswer[] = []
    let left = 60
    const repeat = async () => {
      while (left-- > 0) answers.push(await asks({ description: `number ${left}`, output_schema: filler(60_000) }))
    }
    await Promise.all(Array.from({ length: 8 }, repeat))
    const stored = answers.filter(({ ok }) => ok).length
    const refused = answers.flatMap((answer) => (answer.ok ? [] : [answer.error]))
    expect(stored).toBeGreaterThan(0)
    expect(new Set(refused.map(({ code }) => code))).toEqual(new Set(['E014']))
    expect(refused[0]?.details?.retry_after_ms).toBeGreaterThan(0)
    // Each dispatcher counts for itself. A change that lost a race left nothing.
    expect(await events()).toBeLessThan(2 * (256 + 64) * 1_024)
    const before = await events()
    const agents = await Promise.all(Array.from({ length: 20 }, () => openBus({ servers: world.nats.servers, identity: 'fleet' })))
    const same = { description: 'one of many', output_schema: { type: 'object' } }
    for (let restarts = 0; restarts < 5; restarts++) {
      const all = await Promise.all(agents.map((bus) => bus.ask(same, { service: 'register', timeout_ms: 60_000 })))
      expect(all).toEqual(agents.map(() => ({ ok: true })))
    }
    expect(await events()).toBeLessThan(before + 1_024)
    for (const bus of [eve, ...agents]) await bus[Symbol.asyncDispose]()
  })

  test('closed: who is not registered may neither work nor originate; a person adds it', async () => {
    await using world = await World.start({ dispatchers: [{ registration: 'closed' }] })
    expect(await registerAs(world, 'audit')).toMatchObject({ ok: false, error: { code: 'E013' } })
    await world.agentRecord('audit')
    await until(async () => (await world.workSource('low').created()) !== undefined, { what: 'its consumers are made' })
    expect(await registerAs(world, 'audit')).toEqual({ ok: true })
    expect((await world.end(await world.ask({ from: 'alice' }))).error).toMatchObject({
      code: 'E013',
      details: { mend: expect.stringContaining('passover agents add alice --originates always --no-subagent') },
    })
    await world.agentRecord('alice', { originates: 'always', subagent: false })
    await until(async () => (await world.journal(await world.ask({ from: 'alice' }))).state !== 'done', { what: 'alice may start' })
  })

  test('an agent that is registered as no subagent may not work; a question that is none is E005', async () => {
    await using world = await World.start()
    await world.agentRecord('alice', { originates: 'always', subagent: false })
    const refused = { code: 'E001', details: { mend: expect.stringContaining('passover agents set alice --subagent') } }
    expect(await registerAs(world, 'alice')).toMatchObject({ ok: false, error: refused })
    expect(await registerAs(world, 'audit', { skills: 'all' })).toMatchObject({ ok: false, error: { code: 'E005' } })
  })

  test('E001 for an agent whose record was removed', async () => {
    await using world = await World.start()
    await world.agent('audit')
    await world.work(await world.ask())
    await (await world.bus.table('agents', agentRecord)).delete('audit')
    await until(async () => (await world.end(await world.ask(), 1_000).catch(() => undefined))?.error?.code === 'E001', { what: 'refused' })
  })
})

describe('lost work consumers', () => {
  test('are made again, not sooner than 3 s after they were missed, from the lowest open work', async () => {
    await using world = await World.start({ dispatchers: [{ consumers_ms: 200 }] })
    await world.agent('audit')
    for (let n = 0; n < 3; n++) {
      const key = await world.ask()
      const journal = await world.state(key, 'open')
      await world.step('return', key, { attempt: 1, guard: journal.last })
    }
    const open = await world.ask({ timeout_ms: 300_000 })
    const journal = await world.state(open, 'open')
    const nc = await connect({ servers: world.nats.servers })
    const manager = await jetstreamManager(nc)
    const lost_at = Date.now()
    await manager.consumers.delete('PASSOVER', 'work_audit_medium')
    const created = await until(() => world.workSource('medium').created(), { what: 'it is made again', deadline_ms: 60_000 })
    expect(created - lost_at).toBeGreaterThan(2_500)
    const info = await manager.consumers.info('PASSOVER', 'work_audit_medium')
    expect(info.config).toMatchObject({ deliver_policy: 'by_start_sequence', opt_start_seq: journal.last })
    await nc.close()
    const delivered: number[] = []
    await using source = world.workSource('medium')
    const take = (expires_ms: number) => source.pull({ batch: 1, expires_ms }, (delivery) => void delivered.push(delivery.sequence))
    expect(await take(30_000)).toBe('full')
    expect(await take(300)).toBe('empty')
    expect(delivered).toEqual([journal.last])
  })
})

describe('a dispatcher that stops', () => {
  test('leaves nothing behind: subscriptions, consumers, clients', async () => {
    await using world = await World.start({ dispatchers: [] })
    await world.agent('audit')
    const before = await world.nats.census()
    const bus = await openBus({ servers: world.nats.servers, identity: 'passover' })
    const { startDispatcher } = await import('@passover/dispatcher')
    const { clockOf, random, SILENT } = await import('../../support/dispatcher/dispatcher.js')
    const running = await startDispatcher({ bus, clock: clockOf(bus), random, log: SILENT })
    await world.work(await world.ask())
    await running.drain()
    await running.drain()
    await running.closed
    await bus[Symbol.asyncDispose]()
    await world.nats.untilNothingLeft(before)
  })
})
