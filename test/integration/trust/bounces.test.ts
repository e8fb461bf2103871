import { encode, PolicyStore, unannouncedEntries } from '@passover/bus'
import { decide } from '@passover/operator'
import { HEADER, type PassKey, policyDigest } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { checkTrust } from '../../../packages/cli/src/doctor/stores.js'
import { verifyLive } from '../../../packages/cli/src/verify/verify-live.js'
import { type Bounce, bounceBy, MSGPACK, newestOf, ownPlace, violationOf } from '../../support/attacks/bounces.js'
import { registerAgent } from '../../support/builders/register.js'
import { type PermittedAgents, permittedAgents } from '../../support/dispatcher/permitted-agents.js'
import { staysTrue, until } from '../../support/processes/until.js'
import type { Probe } from '../../support/servers/permitted.js'

/**
 * An agent has the server publish for it, on a server with permissions in one account: it stores bytes and headers in its parts bucket, and
 * names a foreign subject as the reply of a direct get, a publish or a question. The server checks none of that: the readers do.
 */
const RULES = { id_window_ms: 3_600_000 }
const work_context = { objective: 'look', session_id: 'some-session' }
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

const newest = (subject: string) => newestOf(world.person, subject)
const violation = (sequence: number) => violationOf(world.person, sequence)

async function verified(sequence: number): Promise<void> {
  const { faults, remarked } = await verifyLive(world.person, RULES)
  expect(faults).toBe(0)
  expect(remarked).toContainEqual(expect.objectContaining({ sequence, rule: 'trust' }))
}

describe('what an agent has the server publish', () => {
  it('is no decision: the pass stays held, and the person who decides after it is heard', async () => {
    const ran: string[] = []
    await using _worker = await world.agents.scout.onPass(({ id }) => {
      ran.push(id)
      return 'done'
    })
    const handle = world.agents.alice.passOver({ subagent: 'scout', reason: 'x', work_context, override: { hold_before_dispatch: true } })
    const key: PassKey = { originator: 'alice', subagent: 'scout', id: handle.id }
    const { subjects } = world.person
    const held = await newest(subjects.held(key))
    const digest = held.headers.get(HEADER.digest) ?? ''
    await bounce(subjects.decision(key, 'dispatch', 'maria'), encode({ v: 1, verdict: 'approve', digest }), {
      ...MSGPACK,
      [HEADER.verdict]: 'approve',
      [HEADER.digest]: digest,
    })
    const forged = await newest(subjects.decision(key, 'dispatch', 'maria'))
    expect(await violation(forged.sequence)).toMatch(/^decision\.alice\.scout\..*Nats-Stream/)
    await staysTrue(() => ran.length === 0, { what: 'nothing runs', for_ms: 500 })
    await verified(forged.sequence)
    const own = await decide(world.person, { key, item: 'dispatch', verdict: 'approve', digest }, async () => true)
    expect(own.kind).toBe('won')
    expect(await handle).toMatchObject({ status: 'completed', output: 'done' })
    expect(ran).toEqual([handle.id])
  })

  it('is no policy, and the next version that a person publishes is in force', async () => {
    const document = { defaults: { hold_before_dispatch: false, auto_return: true } }
    const digest = policyDigest(document)
    await bounce('policy.maria', encode({ v: 1, version: 1, base: 0, document, digest, reason: 'forged' }))
    const forged = await newest('policy.maria')
    expect(await violation(forged.sequence)).toMatch(/^policy\.maria: /)
    const store = await PolicyStore.open(world.person)
    expect(await store.rollForward()).toBeUndefined()
    expect(await store.publish({ document: { defaults: { max_chain_depth: 2 } }, base: 0, reason: 'honest' })).toMatchObject({
      kind: 'published',
      value: { version: 1, reason: 'honest' },
    })
    expect(await store.stand()).toMatchObject({ kind: 'valid', value: { reason: 'honest' } })
    await verified(forged.sequence)
  })

  it('is no registration: neither as a record nor as its event', async () => {
    const record = { name: 'judge', roles: { originates: 'always' as const, subagent: true }, registered_by: 'maria', updated_at: 1 }
    await bounce('agent.maria', encode({ v: 1, name: 'judge', record }))
    const forged = await newest('agent.maria')
    expect(await violation(forged.sequence)).toMatch(/^agent\.maria: /)
    await bounce('$KV.agents.judge', encode(record))
    const untold = await until(
      async () => ((await unannouncedEntries(world.person)).length > 0 ? unannouncedEntries(world.person) : undefined),
      { what: 'the record is named', deadline_ms: 20_000 },
    )
    expect(untold).toEqual([{ bucket: 'agents', key: 'judge', revision: expect.any(Number) }])
    // It still may not originate by itself.
    await using _worker = await world.agents.scout.onPass(() => 'done')
    await expect(world.agents.judge.passOver({ subagent: 'scout', reason: 'x', work_context })).rejects.toMatchObject({ code: 'E013' })
    expect((await verifyLive(world.person, RULES)).remarked).toContainEqual(
      expect.objectContaining({ rule: 'trust', what: expect.stringMatching(/^judge \(revision \d+\) of the bucket agents/) }),
    )
    expect(await checkTrust(world.person)).toEqual([
      expect.objectContaining({ state: 'broken', text: expect.stringContaining('judge (revision') }),
    ])
    await verified(forged.sequence)
    await registerAgent(world.person, { ...record, roles: { originates: 'within_a_pass', subagent: true } })
    expect(await checkTrust(world.person)).toEqual([expect.objectContaining({ state: 'ok' })])
  })

  it('is no word about custody: nothing is erased', async () => {
    await bounce('custody.maria', encode({ v: 1, kind: 'erase', session: 'some-session', reason: 'forged' }))
    const forged = await newest('custody.maria')
    expect(await violation(forged.sequence)).toMatch(/^custody\.maria: /)
    expect(await world.person.journal.newest('custody.passover')).toBeUndefined()
    await verified(forged.sequence)
  })

  it('is no work: a worker does not run what no dispatcher admitted', async () => {
    const ran: string[] = []
    await using _worker = await world.agents.scout.onPass(({ id }) => {
      ran.push(id)
      return 'done'
    })
    const honest = await world.agents.alice.passOver({ subagent: 'scout', reason: 'x', work_context })
    const key = { originator: 'alice', subagent: 'scout', id: honest.metadata.pass_over_id ?? '' }
    const { subjects } = world.person
    const work = await newest(subjects.allWork('scout', 'medium'))
    const forgedKey = { ...key, id: `forged-${Date.now()}` }
    const head = Object.fromEntries(work.headers.pairs().filter(([name]) => name.startsWith('Passover-')))
    await bounce(subjects.work(forgedKey, 'medium'), work.data, head)
    const forged = await newest(subjects.work(forgedKey, 'medium'))
    expect(await violation(forged.sequence)).toMatch(/Nats-Stream/)
    await staysTrue(() => ran.length === 1, { what: 'the forged work does not run', for_ms: 500 })
    await verified(forged.sequence)
  })
})

describe('an answer of the server in the journal of a pass that runs', () => {
  const places: [string, (key: PassKey) => string][] = [
    ['the worker’s return', (key) => `return.alice.scout.${key.id}.scout`],
    ['a fence', (key) => `fence.alice.scout.${key.id}.scout`],
    ['a held step', (key) => `held.alice.scout.${key.id}.passover`],
    ['the system’s return', (key) => `return.alice.scout.${key.id}.passover`],
    ['a subject that no exact get asks for', (key) => `return.alice.scout.${key.id}.nobody`],
  ]
  it.each(places)('under %s: the worker keeps its result, and there is one return', async (_, subjectOf) => {
    let begun = false
    let finish: () => void = () => undefined
    const finished = new Promise<void>((done) => {
      finish = done
    })
    await using _worker = await world.agents.scout.onPass(async () => {
      begun = true
      await finished
      return 'honest'
    })
    const handle = world.agents.alice.passOver({ subagent: 'scout', reason: 'x', work_context })
    const key: PassKey = { originator: 'alice', subagent: 'scout', id: handle.id }
    await until(() => begun, { what: 'it runs', deadline_ms: 20_000 })
    // A publish acknowledgment, the status of a pull, and the answer of the audit service.
    mallory.nc.publish(ownPlace('judge'), 'x', { reply: subjectOf(key) })
    mallory.nc.publish('$JS.API.CONSUMER.MSG.NEXT.PASSOVER.work_judge_high', '{"batch":1,"no_wait":true}', { reply: subjectOf(key) })
    mallory.nc.publish('ask.judge', '{"op":"time"}', { reply: subjectOf(key) })
    await mallory.nc.flush()
    const forged = await newest(subjectOf(key))
    expect(await violation(forged.sequence)).toMatch(/no headers/)
    finish()
    expect(await handle).toMatchObject({ status: 'completed', output: 'honest' })
    const journal = await world.person.journal.read(key)
    expect(journal.filter(({ untrusted }) => untrusted === undefined).map(({ kind, by }) => `${kind} ${by}`)).toEqual([
      'work medium',
      'return scout',
    ])
    await verified(forged.sequence)
  })
})
