import { type Bus, encode } from '@passover/bus'
import { type AnsweredPass, HEADER, type PassKey, sha256 } from '@passover/schemas'
import type { Agent, PassOverOptions } from '@passover/sdk'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { sequenceOf } from '../../support/dispatcher/dispatcher.js'
import { staysTrue, until } from '../../support/processes/until.js'

/** The conditions under which a return is delivered by itself, each by itself, on a real server. */
let world: AgentWorld
let alice: Agent
const ERROR = { type: 'finding', severity: 'error', category: 'x', message: 'bad' } as const
const WARNING = { ...ERROR, severity: 'warning' } as const

const OUTPUTS = {
  plain: () => ({ artifacts: [WARNING] }),
  critical: () => ({ artifacts: [ERROR] }),
  rejected: () => ({ summary: { decision: 'rejected' as const } }),
  partial: () => ({ status: 'partial' as const, output: 'half' }),
  slow: () => new Promise<string>(() => undefined),
}

beforeAll(async () => {
  const document = {
    pairs: {
      'alice->reviewed': { auto_review: true },
      'alice->trusted': { auto_return: true },
      'alice->brief': { approval_expires_ms: 1_500 },
      'alice->named': { approvers: ['maria'] },
    },
  }
  world = await AgentWorld.start({ dispatchers: [{ policy: { version: 1, document } }] } as never)
  alice = await world.agent('alice')
  for (const name of ['judge', 'reviewed', 'trusted', 'brief', 'named']) {
    const worker = await world.agent(name)
    await worker.onPass(({ objective }) => OUTPUTS[objective as keyof typeof OUTPUTS]())
  }
})
afterAll(async () => {
  await world?.[Symbol.asyncDispose]()
})

const ask = (subagent: string, objective: keyof typeof OUTPUTS, more: Partial<PassOverOptions> = {}, of = alice) =>
  of.passOver({ subagent, reason: 'x', work_context: { objective }, ...more })
const keyOf = (id: string, subagent: string): PassKey => ({ originator: 'alice', subagent, id })

async function decide(bus: Bus, key: PassKey, verdict: 'approve' | 'deny', person = 'maria'): Promise<number> {
  const stored = await until(() => bus.journal.last(bus.subjects.return(key, key.subagent)), { what: 'the return is stored' })
  const digest = sha256(stored.data)
  const headers = { [HEADER.verdict]: verdict, [HEADER.digest]: digest }
  const data = encode({ v: 1, verdict, digest, reason: 'because' })
  const sequence = sequenceOf(await bus.publish({ subject: bus.subjects.decision(key, 'return', person), headers, data }))
  bus.hintDecided(key.originator)
  return sequence
}

/** Waits until the audit says so. */
const awaits = (of: { status(): Promise<string> }) =>
  until(async () => (await of.status()) === 'awaiting_release', { what: 'it awaits release' })

describe('a return is delivered by itself', () => {
  it('1: when the work is completed without blockers', async () => {
    expect(await ask('judge', 'plain')).toMatchObject({ status: 'completed' })
    for (const objective of ['critical', 'rejected', 'partial'] as const) await awaits(ask('judge', objective))
  })

  it('2: when auto-review is on and nothing critical was found', async () => {
    expect(await ask('reviewed', 'rejected')).toMatchObject({ summary: { decision: 'rejected' } })
    expect(await ask('reviewed', 'partial')).toMatchObject({ status: 'partial' })
    await awaits(ask('reviewed', 'critical'))
  })

  it('3: when its time is over, as E010', async () => {
    await expect(ask('judge', 'slow', { timeout_ms: 500 })).rejects.toMatchObject({ code: 'E010' })
  })

  it('4: when a person approves, the handle resolves; when one denies, it rejects with person and reason', async () => {
    const { bus } = world.world
    const [yes, no] = [ask('judge', 'critical'), ask('judge', 'critical')]
    await Promise.all([awaits(yes), awaits(no)])
    await decide(bus, keyOf(yes.id, 'judge'), 'approve')
    await decide(bus, keyOf(no.id, 'judge'), 'deny')
    expect(await yes).toMatchObject({ artifacts: [ERROR] })
    const why = { code: 'E013', message: 'maria did not release the output: because', context: { approval: 'denied', person: 'maria' } }
    await expect(no).rejects.toMatchObject(why)
  })

  it('5: when auto_return is set for the pair', async () => {
    expect(await ask('trusted', 'critical')).toMatchObject({ artifacts: [ERROR] })
    expect(await ask('trusted', 'partial')).toMatchObject({ status: 'partial' })
  })
})

describe('a return that waits', () => {
  it('expires to E013; a decision after that counts for nothing', async () => {
    const { bus } = world.world
    const handle = ask('brief', 'critical')
    await expect(handle).rejects.toMatchObject({ code: 'E013', context: { approval: 'expired' } })
    // The stream says so, too: list, show and the record agree with what its originator got.
    await until(async () => (await handle.status()) === 'expired', { what: 'it is recorded as expired' })
    const { passes } = (await bus.ask({ op: 'pass', id: handle.id })) as { passes: AnsweredPass[] }
    expect(passes[0]).toMatchObject({
      status: 'expired',
      row: { status: 'expired', code: 'E013' },
      record: { status: 'expired', error: { code: 'E013', details: { approval: 'expired' } } },
    })
    const listed = (await bus.ask({ op: 'list', status: 'expired' })) as { passes: { id: string }[] }
    expect(listed.passes.map(({ id }) => id)).toEqual([handle.id])
    await decide(bus, keyOf(handle.id, 'brief'), 'approve')
    await expect(alice.handle(handle.id, 'brief')).rejects.toMatchObject({ code: 'E013', context: { approval: 'expired' } })
  })

  it('is not released by who is no approver', async () => {
    const { bus } = world.world
    const handle = ask('named', 'critical')
    await awaits(handle)
    let settled = false
    void handle.then(() => {
      settled = true
    })
    await decide(bus, keyOf(handle.id, 'named'), 'approve', 'eve')
    await staysTrue(() => !settled, { what: "eve's approval does not count", for_ms: 500 })
    await decide(bus, keyOf(handle.id, 'named'), 'approve', 'maria')
    expect(await handle).toMatchObject({ artifacts: [ERROR] })
  })

  it('is got by who asks again with its id, after the originator was gone', async () => {
    const { bus } = world.world
    const before = await world.agent('alice')
    const id = 'asked-again-after-a-restart'
    const first = ask('judge', 'critical', { id }, before)
    first.catch(() => undefined)
    await awaits(first)
    await world.die(before)
    const after = await world.agent('alice')
    const second = ask('judge', 'critical', { id }, after)
    await awaits(second)
    await decide(bus, keyOf(id, 'judge'), 'approve')
    expect(await second).toMatchObject({ artifacts: [ERROR] })
  })
})
