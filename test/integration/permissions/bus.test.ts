import { createHash, randomBytes } from 'node:crypto'
import type { Bus, Delivery, Principal, ReceivedReturn } from '@passover/bus'
import type { Part, PassKey } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { until, within } from '../../support/processes/until.js'
import { PERMITTED_MODES } from '../../support/servers/isolated.js'
import type { PermittedFixture } from '../../support/servers/permitted.js'

/** What permissions.ts grants is enough for everything that the bus does, role by role, on a server that enforces it. */

const WHO = {
  alice: { role: 'agent', name: 'alice', originates: true, subagent: false },
  audit: { role: 'agent', name: 'audit', originates: true, subagent: true },
  bob: { role: 'person', name: 'bob' },
  dispatcher: { role: 'dispatcher' },
  auditor: { role: 'audit' },
} as const satisfies Record<string, Principal>

const key: PassKey = { originator: 'alice', subagent: 'audit', id: '0abcdefg0abcdefgh_ABCDEFGHIJKLMN' }
const body = new TextEncoder().encode('{}')

describe.each(PERMITTED_MODES)('the bus under permissions, $mode', ({ start }) => {
  let permitted: PermittedFixture
  let bus: Record<keyof typeof WHO, Bus>

  beforeAll(async () => {
    permitted = await start(Object.values(WHO))
    const dispatcher = await permitted.bus(WHO.dispatcher)
    await dispatcher.ensureTopology()
    await dispatcher.ensureAgent('alice', { subagent: false, max_attempts: 3, lease_ms: 5_000 })
    await dispatcher.ensureAgent('audit', { subagent: true, max_attempts: 3, lease_ms: 5_000 })
    const auditor = await permitted.bus(WHO.auditor)
    await auditor.answer(async (asker, question) => ({ asker, question, now: Date.now() }))
    await dispatcher.answer(async (agent) => ({ ok: true, agent }), 'register')
    bus = {
      dispatcher,
      auditor,
      alice: await permitted.bus(WHO.alice),
      audit: await permitted.bus(WHO.audit),
      bob: await permitted.bus(WHO.bob),
    }
  })
  afterAll(() => permitted?.[Symbol.asyncDispose]())

  it('carries a pass from the request to the heard return', async () => {
    const { alice, audit, dispatcher } = bus
    const { subjects } = alice
    const heard = new Promise<ReceivedReturn>((resolve) => void alice.subscribeReturns('alice', key.id.slice(0, 8), resolve))
    await audit.subscribeTerminations('audit', () => {})
    await alice.onDecided('alice', () => {})
    await using admission = await dispatcher.consume('dispatcher', async (request) => {
      if (request.subject !== subjects.request('audit', 'alice')) return { ok: true }
      const outcome = await dispatcher.publish({
        subject: subjects.work(key, 'high'),
        data: body,
        guard: { subject: subjects.journal(key), sequence: 0 },
      })
      return outcome.kind === 'stored' ? { ok: true } : { fatal: JSON.stringify(outcome) }
    })
    expect(await alice.publish({ subject: subjects.request('audit', 'alice'), data: body })).toMatchObject({ kind: 'stored' })
    const work = await within(
      new Promise<Delivery>((resolve) => void audit.work('audit', 'high').pull({ batch: 1, expires_ms: 5_000 }, resolve)),
      'the work arrives',
    )
    work.working()
    const back = { subject: subjects.return(key, 'audit'), data: body, guard: { subject: subjects.journal(key), sequence: work.sequence } }
    expect(await audit.publish(back)).toMatchObject({ kind: 'stored' })
    work.ack()
    expect((await within(heard, 'the return is heard')).key).toEqual(key)
    expect((await alice.journal.glimpse(key)).map(({ kind }) => kind)).toEqual(['work', 'return'])
    expect((await audit.journal.glimpse(key)).map(({ kind }) => kind)).toEqual(['work', 'return'])
    expect((await dispatcher.journal.read(key)).map(({ kind }) => kind)).toEqual(['work', 'return'])
    await until(async () => (await dispatcher.workload('audit')).every(({ running }) => running === 0), {
      what: 'the work is acknowledged',
    })
    expect(await audit.work('audit', 'high').created()).toBeTypeOf('number')
    await admission.drain()
  })

  it('asks, registers and tells the time', async () => {
    expect(await bus.alice.ask({ op: 'agents' })).toMatchObject({ asker: 'alice', question: { op: 'agents' } })
    expect(await bus.bob.ask({ op: 'agents' })).toMatchObject({ asker: 'bob' })
    expect(await bus.audit.ask({}, { service: 'register' })).toEqual({ ok: true, agent: 'audit' })
  })

  it('moves large parts through the owner’s bucket', async () => {
    const data = new Uint8Array(randomBytes(1_500_000))
    const part: Part = { name: 'file:a', size: data.length, hash: createHash('sha256').update(data).digest('hex'), data }
    const [moved] = await bus.alice.parts.upload('alice', [part])
    expect(moved?.data).toBeUndefined()
    for (const reader of [bus.audit, bus.auditor, bus.bob]) expect(Buffer.compare(await reader.parts.fetch(moved as Part), data)).toBe(0)
    await bus.auditor.parts.remove('alice', part.hash)
    await expect(bus.audit.parts.fetch(moved as Part)).rejects.toThrow(/is missing/)
  })

  it('lets a person decide, register and watch', async () => {
    const { bob } = bus
    const decision = bob.subjects.decision(key, 'apply', 'bob')
    const guard = { subject: bob.subjects.decisions(key, 'apply'), sequence: 0 }
    expect(await bob.publish({ subject: decision, data: body, guard })).toMatchObject({ kind: 'stored' })
    expect(await bob.publish({ subject: decision, data: body, guard })).toMatchObject({ kind: 'lost' })
    bob.hintDecided('alice')
    expect(await bob.publish({ subject: bob.subjects.agent('bob'), data: body })).toMatchObject({ kind: 'stored' })
    const agents = await bob.table('agents', z.object({ name: z.string() }))
    await agents.put('audit', { name: 'audit' })
    expect(await agents.get('audit')).toMatchObject({ value: { name: 'audit' } })
    const seen: string[] = []
    await using watch = await bob.follow({}, (stored) => void seen.push(stored.subject))
    await until(() => seen.includes(decision), { what: 'the person sees the decision' })
    expect((await bob.inspect()).differences).toEqual([])
    expect(watch.position).toBeGreaterThan(0)
  })

  it('lets the services follow, keep tables and objects, and audit delete message by message', async () => {
    const { dispatcher, auditor } = bus
    const agents = await dispatcher.table('agents', z.object({ name: z.string() }))
    const names: string[] = []
    await using watching = await agents.watch((name) => void names.push(name))
    await within(watching.ready, 'the watch is ready')
    await agents.put('carol', { name: 'carol' })
    await until(() => names.includes('carol'), { what: 'the dispatcher sees the new agent' })
    for (const [who, bucket] of [
      [dispatcher, 'snapshots'],
      [auditor, 'archive'],
    ] as const) {
      const store = await who.objects(bucket)
      await store.put('one', new Uint8Array(300_000))
      expect((await store.get('one'))?.length).toBe(300_000)
      expect(await store.list()).toEqual(['one'])
      await store.delete('one')
    }
    const passes = await auditor.table('passes', z.object({ status: z.string() }))
    await passes.put('2026-11.s.alice.audit.x', { status: 'returned' })
    const { last } = await auditor.bounds()
    expect(await auditor.journal.deleteMessage(last)).toBe(true)
    expect(await auditor.journal.message(last)).toBeUndefined()
  })

  it('refuses as a value what is not granted', async () => {
    const { audit, alice } = bus
    expect(await audit.publish({ subject: audit.subjects.return(key, 'passover'), data: body })).toMatchObject({
      kind: 'refused',
      reason: 'permission',
    })
    expect(await alice.publish({ subject: alice.subjects.decision(key, 'apply', 'alice'), data: body })).toMatchObject({
      kind: 'refused',
      reason: 'permission',
    })
    await expect(audit.subscribeReturns('alice', key.id.slice(0, 8), () => {})).rejects.toThrow(/permission/i)
    await expect(audit.follow({}, () => {})).rejects.toThrow()
  })

  it('had nothing refused that it asked for', () => {
    expect(permitted.reported).toEqual([])
  })
})
