import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { folderArchive } from '@passover/archive'
import { encode, verifiedAgents } from '@passover/bus'
import { verifyArchive } from '@passover/cli'
import { passError } from '@passover/core'
import { startNotifier } from '@passover/notifier'
import { dropDeadLetter, findDeadLetter, listDeadLetters, readPresence } from '@passover/operator'
import { agentRecord, budgetLedger, HEADER, type PassKey, presenceRecord, sha256 } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { verdictText } from '../../../packages/cli/src/verify/run.js'
import { verifyLive } from '../../../packages/cli/src/verify/verify-live.js'
import { Receiver } from '../../support/assertions/http-receiver.js'
import { type Bounce, bounceBy, MSGPACK, newestOf, ownPlace, violationOf } from '../../support/attacks/bounces.js'
import { registerAgent } from '../../support/builders/register.js'
import { clockOf, SILENT } from '../../support/dispatcher/dispatcher.js'
import { type PermittedAgents, permittedAgents } from '../../support/dispatcher/permitted-agents.js'
import { until } from '../../support/processes/until.js'
import type { Probe } from '../../support/servers/permitted.js'

/** What an agent has the server write into buckets, about dead letters and for the notifier, on a server with permissions in one account. */
const RULES = { id_window_ms: 3_600_000 }
const work_context = { objective: 'look' }
let world: PermittedAgents<'alice' | 'scout' | 'judge'>
let mallory: Probe
let bounce: Bounce

beforeAll(async () => {
  world = await permittedAgents({ names: ['alice', 'scout', 'judge'], person: 'custodian' })
  mallory = await world.probe('judge')
  bounce = bounceBy('judge', mallory)
})
afterAll(async () => {
  await mallory[Symbol.asyncDispose]()
  await world[Symbol.asyncDispose]()
})

/** Has the server store a publish acknowledgment, which has no headers. */
async function acknowledge(to: string): Promise<void> {
  mallory.nc.publish(ownPlace('judge'), 'x', { reply: to })
  await mallory.nc.flush()
}

describe('what an agent has the server write', () => {
  it.each(['an empty ledger', 'a publish acknowledgment', 'a rollup of all ledgers'])(
    'over a budget, as %s: grants nothing more to its tree',
    async (what) => {
      await using dispatcher = await world.fixture.bus({ role: 'dispatcher' })
      const ledgers = await dispatcher.table('budgets', budgetLedger)
      await using _scout = await world.agents.scout.onPass(async (pass) => {
        const ask = () => pass.passOver({ subagent: 'judge', reason: 'child', work_context })
        await ask()
        const key = `alice.scout.${pass.id}`
        if (what === 'an empty ledger') await bounce(`$KV.budgets.${key}`, encode({ v: 1, accounts: {}, charges: {} }))
        else if (what === 'a publish acknowledgment') await acknowledge(`$KV.budgets.${key}`)
        else await bounce('$KV.budgets.a.b.rollup', new Uint8Array(1), { 'Nats-Rollup': 'all' })
        const written = what === 'a rollup of all ledgers' ? 'a.b.after' : key
        if (written !== key) await bounce(`$KV.budgets.${written}`, new Uint8Array(1))
        await until(async () => (await ledgers.bytesOf(written))?.bounced, { what: 'the ledger is overwritten', deadline_ms: 20_000 })
        const [again] = await Promise.allSettled([ask()])
        return again.status === 'fulfilled' ? 'done' : String((again.reason as { code?: string }).code)
      })
      await using _judge = await world.agents.judge.onPass(() => 'done')
      const output = await world.agents.alice.passOver({ subagent: 'scout', reason: 'x', work_context, budget: { passes: 1 } })
      expect(output.output).toBe('E014')
    },
  )

  it('as a presence: counts as no worker', async () => {
    const record = { agent: 'scout', instance: 'forged', host: 'h', pid: 1, concurrency: 9, running: 0, started_at: 1 }
    await bounce('$KV.presence.scout.forged', encode({ ...record, seen_at: world.person.now() }))
    const table = await world.person.table('presence', presenceRecord)
    await until(async () => (await table.bounced()).some(({ key }) => key.startsWith('scout.')), {
      what: 'the presence is stored',
      deadline_ms: 20_000,
    })
    expect((await readPresence(world.person, 'scout')).get('scout')?.places ?? 0).toBeLessThan(9)
  })

  it('as an earlier record of an agent, with the wider rights that it had: is not believed, nor is a publish acknowledgment', async () => {
    const record = { name: 'judge', registered_by: 'maria', updated_at: 1 }
    const wide = { ...record, roles: { originates: 'always' as const, subagent: true } }
    const narrow = { ...record, roles: { originates: 'within_a_pass' as const, subagent: true } }
    await registerAgent(world.person, wide)
    await registerAgent(world.person, narrow)
    const table = await world.person.table('agents', agentRecord)
    await bounce('$KV.agents.judge', encode(wide))
    await until(async () => (await table.bytesOf('judge'))?.bounced, { what: 'the record is stored', deadline_ms: 20_000 })
    expect(await table.get('judge')).toBeUndefined()
    const ask = () => world.agents.judge.passOver({ subagent: 'scout', reason: 'x', work_context })
    await expect(ask()).rejects.toMatchObject({ code: 'E013' })
    const revision = (await table.bytesOf('judge'))?.revision ?? 0
    await acknowledge('$KV.agents.judge')
    await until(async () => ((await table.bytesOf('judge'))?.revision ?? 0) > revision, {
      what: 'the answer is stored',
      deadline_ms: 20_000,
    })
    expect(await table.bounced()).toEqual([{ key: 'judge', revision: expect.any(Number) }])
    await expect(ask()).rejects.toMatchObject({ code: 'E013' })
    // Nor is a record that its writer told no event of.
    await table.put('ghost', { ...narrow, name: 'ghost' })
    expect([...(await verifiedAgents(world.person)).keys()].sort()).toEqual(['alice', 'scout'])
    await table.delete('ghost')
    await registerAgent(world.person, narrow)
  })

  it('about a dead letter: settles nothing, and the person who settles it after that is heard', async () => {
    await using _worker = await world.agents.scout.onPass(() => 'done')
    const handle = world.agents.alice.passOver({ subagent: 'scout', reason: 'x', work_context })
    await handle
    const key: PassKey = { originator: 'alice', subagent: 'scout', id: handle.id }
    await using dispatcher = await world.fixture.bus({ role: 'dispatcher' })
    const { subjects } = world.person
    const work = await newestOf(world.person, subjects.work(key, 'medium'))
    const buried = await dispatcher.publish({
      subject: subjects.event(key, 'dead_letter', 'passover'),
      headers: { [HEADER.id]: key.id, ...MSGPACK },
      data: encode({ v: 1, sequence: work.sequence, error: passError('E040', 'not taken') }),
    })
    expect(buried.kind).toBe('stored')
    await bounce(subjects.event(key, 'settled', 'maria'), encode({ v: 1, action: 'drop', reason: 'forged' }))
    const forged = await newestOf(world.person, subjects.event(key, 'settled', 'maria'))
    expect(await violationOf(world.person, forged.sequence)).toMatch(/^event\.alice\.scout\..*settled\.maria.*Nats-Stream/)
    const letter = async () => (await listDeadLetters(world.person, {})).letters.find(({ id }) => id === key.id)
    expect(await letter()).toMatchObject({ state: 'open' })
    const detail = await findDeadLetter(world.person, { id: key.id, from: 'alice', to: 'scout' })
    expect(await dropDeadLetter(world.person, detail, 'honest')).toMatchObject({ exit: 0, document: { dropped: true } })
    const dropped = async () => ((await letter())?.state === 'dropped' ? letter() : undefined)
    await until(dropped, { what: 'the letter is dropped', deadline_ms: 20_000 })
  })

  it('in the journal of a pass: is no reason for the notifier to notify', async () => {
    await using receiver = await Receiver.start()
    const bus = await world.fixture.bus({ role: 'notifier' })
    await using _notifier = await startNotifier(
      { bus, clock: clockOf(bus), log: SILENT },
      { url: receiver.url, secret: 'a secret of this test' },
    )
    let finish: () => void = () => undefined
    const finished = new Promise<void>((done) => {
      finish = done
    })
    const running = new Set<string>()
    await using _worker = await world.agents.scout.onPass(async ({ id }) => {
      running.add(id)
      await finished
      return { status: 'partial' as const, output: 'half' }
    })
    const { subjects } = world.person
    const ask = () => {
      const handle = world.agents.alice.passOver({ subagent: 'scout', reason: 'x', work_context })
      handle.catch(() => undefined)
      return { originator: 'alice', subagent: 'scout', id: handle.id } satisfies PassKey
    }
    const key = ask()
    await until(() => running.has(key.id), { what: 'it runs', deadline_ms: 20_000 })
    const head = { ...MSGPACK, [HEADER.attempt]: '1', [HEADER.id]: key.id }
    await bounce(subjects.return(key, 'scout'), encode({ v: 1, output: 'forged' }), head)
    await bounce(subjects.held(key), encode({ v: 1, digest: 'forged' }), head)
    const bounced = [await newestOf(world.person, subjects.return(key, 'scout')), await newestOf(world.person, subjects.held(key))]
    finish()
    const honest = await newestOf(world.person, subjects.return(key, 'scout'), bounced[0]?.sequence)
    const due = await receiver.got(key.id, 2)
    const digest = sha256(honest.data)
    await bounce(subjects.decision(key, 'return', 'maria'), encode({ v: 1, verdict: 'approve', digest }), {
      ...MSGPACK,
      [HEADER.verdict]: 'approve',
      [HEADER.digest]: digest,
    })
    await newestOf(world.person, subjects.decision(key, 'return', 'maria'))
    // All of it was delivered once a notice of a later pass came.
    await receiver.got(ask().id, 2)
    expect(
      receiver
        .of(key.id)
        .map(({ notice }) => notice.event)
        .sort(),
    ).toEqual(['approval', 'return'])
    expect(due.map(({ notice }) => notice.sequence)).toEqual([honest.sequence, honest.sequence])
  })

  it('is named by `verify` with its subject and sequence, live and from a saved archive, before anything else it says', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'bounced-'))
    try {
      await acknowledge('custody.maria')
      const { sequence } = await newestOf(world.person, 'custody.maria')
      const live = await verifyLive(world.person, { ...RULES, save: folder })
      const saved = await verifyArchive(folderArchive(folder), RULES)
      for (const verdict of [live, saved]) {
        expect(verdict.faults).toBe(0)
        const trusted = verdict.remarked.filter(({ rule }) => rule === 'trust')
        // The settlement, the return, the held step and the decision of the tests before.
        expect(trusted.map(({ what }) => what.split('.')[0])).toEqual(
          expect.arrayContaining(['event', 'return', 'held', 'decision', 'custody']),
        )
        expect(trusted).toContainEqual(expect.objectContaining({ sequence, what: expect.stringMatching(/^custody\.maria\b/) }))
        expect(verdictText(verdict).split('\n')[0]).toMatch(/^! \d+ messages not trusted, /)
      }
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  })
})
