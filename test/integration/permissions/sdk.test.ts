import { randomBytes, randomUUID } from 'node:crypto'
import { startAudit } from '@passover/audit'
import { encode, type Principal } from '@passover/bus'
import { startDispatcher } from '@passover/dispatcher'
import { agentRecord, HEADER, presenceRecord, sha256 } from '@passover/schemas'
import type { Agent } from '@passover/sdk'
import { createAgent } from '@passover/sdk/internal'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { registerAgent } from '../../support/builders/register.js'
import { clockOf, SILENT } from '../../support/dispatcher/dispatcher.js'
import { until } from '../../support/processes/until.js'
import { PERMITTED_MODES } from '../../support/servers/isolated.js'
import type { PermittedFixture } from '../../support/servers/permitted.js'

/** Everything that an agent does, on a server that enforces what it may. */
const NAMES = ['alice', 'scout', 'judge'] as const
type Name = (typeof NAMES)[number]
const PRINCIPALS: Record<Name, Principal> = {
  alice: { role: 'agent', name: 'alice', originates: true, subagent: false },
  scout: { role: 'agent', name: 'scout', originates: true, subagent: true },
  judge: { role: 'agent', name: 'judge', originates: false, subagent: true },
}
const maria: Principal = { role: 'person', name: 'maria' }

describe.each(PERMITTED_MODES)('with permissions enforced, $mode', ({ start }) => {
  let fixture: PermittedFixture
  const agents = {} as Record<Name, Agent>
  const opened: AsyncDisposable[] = []

  beforeAll(async () => {
    fixture = await start([...Object.values(PRINCIPALS), maria, { role: 'dispatcher' }, { role: 'audit' }])
    const [dispatcherBus, auditBus, person] = [
      await fixture.bus({ role: 'dispatcher' }),
      await fixture.bus({ role: 'audit' }),
      await fixture.bus(maria),
    ]
    const random = { bytes: (n: number) => randomBytes(n) }
    await dispatcherBus.ensureTopology()
    const dispatcher = await startDispatcher(
      { bus: dispatcherBus, clock: clockOf(dispatcherBus), random, log: SILENT },
      { registration: 'closed' },
    )
    const audit = await startAudit({ bus: auditBus, clock: clockOf(auditBus), random, log: SILENT }, {})
    for (const name of NAMES) {
      const roles = { originates: name === 'alice' ? ('always' as const) : ('within_a_pass' as const), subagent: name !== 'alice' }
      await registerAgent(person, { name, roles, registered_by: 'maria', updated_at: person.now() })
    }
    for (const name of NAMES) {
      const bus = await fixture.bus(PRINCIPALS[name])
      agents[name] = createAgent({ bus, clock: clockOf(bus), random }, { directory: '/p' })
      opened.push(agents[name])
    }
    opened.push({ [Symbol.asyncDispose]: () => dispatcher.drain(1_000) }, audit)
  })
  afterAll(async () => {
    for (const one of opened) await one[Symbol.asyncDispose]()
    await fixture?.[Symbol.asyncDispose]()
  })

  const work_context = { objective: 'do it' }

  it('passes over, passes on, returns, and answers for given ids', async () => {
    await using _scout = await agents.scout.onPass(async (pass) => {
      pass.progress('asking the judge', 0.5)
      const child = await pass.passOver({ subagent: 'judge', reason: 'child', work_context })
      return `scout heard: ${child.output}`
    })
    await using _judge = await agents.judge.onPass((pass) => `depth ${pass.chain_depth}`)
    const id = randomUUID()
    const ask = () => agents.alice.passOver({ subagent: 'scout', reason: 'x', work_context, id })
    expect((await ask()).output).toBe('scout heard: depth 2')
    expect((await ask()).output).toBe('scout heard: depth 2')
    expect(['returned', 'processed']).toContain(await agents.alice.handle(id, 'scout').status())
  })

  it('hears what returned while it was away, where a person lets returns wait for it', async () => {
    const process = async () => {
      const bus = await fixture.bus(PRINCIPALS.alice)
      const random = { bytes: (n: number) => randomBytes(n) }
      return { bus, agent: createAgent({ bus, clock: clockOf(bus), random }, { directory: '/p', durableReturns: true }) }
    }
    const before = await process()
    await expect(before.agent.onDurableReturn(() => undefined)).rejects.toMatchObject({ code: 'E013' })
    const person = await fixture.bus(maria)
    const registry = await person.table('agents', agentRecord)
    const entry = await registry.get('alice')
    await registerAgent(person, { ...entry!.value, durable_returns: { from: (await person.bounds()).last + 1 } })
    await until(async () => ((await before.bus.ask({ durable_returns: true }, { service: 'register' })) as { ok?: boolean })?.ok, {
      what: 'returns wait for alice',
      deadline_ms: 30_000,
    })
    let returns: () => void = () => undefined
    const runs = new Promise<void>((resolve) => (returns = resolve))
    let begun = false
    await using _scout = await agents.scout.onPass(async () => {
      begun = true
      await runs
      return 'meanwhile'
    })
    const pass = before.agent.passOver({ subagent: 'scout', reason: 'x', work_context })
    await until(() => begun, { what: 'it is worked on', deadline_ms: 30_000 })
    await before.bus[Symbol.asyncDispose]()
    returns()
    const back = await process()
    const told: unknown[] = []
    await back.agent.onDurableReturn(({ pass: { id }, output }) => void told.push([id, output?.output]))
    await until(() => told.length > 0, { what: 'it is told', deadline_ms: 30_000 })
    expect(told).toEqual([[pass.id, 'meanwhile']])
    await until(async () => (await back.agent.handle(pass.id, 'scout').status()) === 'processed', {
      what: 'it is processed',
      deadline_ms: 30_000,
    })
    await back.agent[Symbol.asyncDispose]()
    expect(fixture.reported.filter((error) => String(error).includes('returns_alice'))).toEqual([])
  })

  it('carries large files and artifacts by reference', async () => {
    const content = randomBytes(600_000).toString('base64')
    await using _judge = await agents.judge.onPass((pass) => ({
      artifacts: [{ type: 'message', role: 'assistant', visibility: 'user_visible', content: pass.context.files[0]?.content ?? '' }],
    }))
    const output = await agents.alice.passOver({
      subagent: 'judge',
      reason: 'x',
      work_context: { ...work_context, files: [{ path: 'big', content }] },
    })
    expect(output.artifacts[0]).toMatchObject({ content })
  })

  it('cancels, and a person releases', async () => {
    await using _judge = await agents.judge.onPass(async (pass) => {
      if (pass.reason === 'wait') await new Promise((stop) => pass.signal.addEventListener('abort', stop))
      return { summary: { decision: 'rejected' } }
    })
    const first = agents.alice.passOver({ subagent: 'judge', reason: 'wait', work_context })
    await first.stored
    await first.cancel()
    await expect(first).rejects.toMatchObject({ code: 'E043' })
    const second = agents.alice.passOver({ subagent: 'judge', reason: 'x', work_context })
    await until(async () => (await second.status()) === 'awaiting_release', { what: 'it awaits release' })
    const person = await fixture.bus(maria)
    const key = { originator: 'alice', subagent: 'judge', id: second.id }
    const returned = await person.journal.last(person.subjects.return(key, 'judge'))
    const digest = sha256(returned?.data ?? new Uint8Array())
    const headers = { [HEADER.verdict]: 'approve', [HEADER.digest]: digest }
    await person.publish({
      subject: person.subjects.decision(key, 'return', 'maria'),
      headers,
      data: encode({ v: 1, verdict: 'approve', digest }),
    })
    person.hintDecided('alice')
    expect(await second).toMatchObject({ summary: { decision: 'rejected' } })
  })

  it('a person sees who is up; a budget is kept across the tree', async () => {
    await using _scout = await agents.scout.onPass(async (pass) => {
      const ask = () => pass.passOver({ subagent: 'judge', reason: 'child', work_context })
      const ended = await Promise.allSettled([ask(), ask(), ask()])
      return ended.map((one) => (one.status === 'fulfilled' ? 'done' : (one.reason as { code?: string }).code)).join(' ')
    })
    await using _judge = await agents.judge.onPass(() => 'done')
    const person = await fixture.bus(maria)
    const presence = await person.table('presence', presenceRecord)
    const up = async () => {
      const names = new Set<string>()
      for await (const { value } of presence.entries()) names.add(value.agent)
      return names
    }
    await until(async () => (await up()).has('judge') && (await up()).has('scout'), { what: 'both are up' })
    const output = await agents.alice.passOver({ subagent: 'scout', reason: 'x', work_context, budget: { passes: 2 } })
    expect(String(output.output).split(' ').sort()).toEqual(['E014', 'done', 'done'])
  })

  it('was refused nothing on the way', () => {
    expect(fixture.reported).toEqual([])
  })
})
