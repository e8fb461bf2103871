import { connect } from '@nats-io/transport-node'
import { type Bus, encode, type ReceivedReturn } from '@passover/bus'
import { HEADER, type PassKey } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { busOn, freshKey } from '../../support/fixtures/bus.js'
import { until } from '../../support/processes/until.js'
import { type NatsFixture, natsFixture } from '../../support/servers/nats.js'

describe.each([undefined, 'space.one'])('hearing returns (prefix %s)', (prefix) => {
  let nats: NatsFixture
  let bus: Bus
  beforeAll(async () => {
    nats = await natsFixture()
    bus = await busOn(nats, prefix ? { prefix } : {})
    await bus.ensureTopology()
  })
  afterAll(async () => {
    await bus[Symbol.asyncDispose]()
    await nats[Symbol.asyncDispose]()
  })

  test('only what the stream stored, only to its instance, id or worker', async () => {
    const s = bus.subjects
    const key = freshKey()
    const given = freshKey({ id: 'my-own-id' })
    const bad = freshKey({ id: s.badId(7) })
    const heard: Record<string, ReceivedReturn[]> = { instance: [], id: [], bad: [], other: [], endings: [] }
    const into = (name: string) => (one: ReceivedReturn) => void heard[name]?.push(one)
    await using _a = await bus.subscribeReturns('alice', '0abcdefg', into('instance'))
    await using _b = await bus.subscribeReturns('alice', 'my-own-id', into('id'))
    await using _c = await bus.subscribeReturns('alice', bad.id, into('bad'))
    await using _d = await bus.subscribeReturns('bob', '0abcdefg', into('other'))
    await using _e = await bus.subscribeTerminations('audit', into('endings'))
    const guard = { subject: s.journal(key), sequence: 0 }
    const headers = { [HEADER.attempt]: '1' }
    expect(await bus.publish({ subject: s.return(key, 'audit'), data: encode('first'), guard, headers })).toMatchObject({ kind: 'stored' })
    expect(await bus.publish({ subject: s.return(key, 'audit'), data: encode('refused'), guard })).toMatchObject({ kind: 'lost' })
    await bus.publish({ subject: s.return(given, 'passover'), headers: { [HEADER.code]: 'E010' } })
    await bus.publish({ subject: s.return(bad, 'passover'), headers: { [HEADER.code]: 'E005' } })
    await until(() => heard.bad?.length, { what: 'the last return is heard' })
    expect(heard.instance?.map((one) => one.key)).toEqual([key])
    const stored = (await bus.journal.read(key))[0]
    expect(heard.instance?.[0]).toMatchObject({
      by: 'audit',
      stored: { subject: s.return(key, 'audit'), sequence: stored?.sequence, time: stored?.time },
    })
    expect([...(heard.instance?.[0]?.stored.data ?? [])]).toEqual([...encode('first')])
    expect(heard.id?.map((one) => one.key)).toEqual([given])
    expect(heard.bad?.map((one) => one.key)).toEqual([bad])
    expect(heard.other).toEqual([])
    expect(heard.endings?.map((one) => one.key)).toEqual([given, bad])
  })

  test('a stored message that mallory has the server send there is suspect, and so is a bare publish', async () => {
    const s = bus.subjects
    const bobs = freshKey({ originator: 'bob' })
    const own = freshKey({ originator: 'mallory', subagent: 'mallory' })
    const heard: ReceivedReturn[] = []
    const suspects: PassKey[] = []
    await using _hearing = await bus.subscribeReturns('bob', '0abcdefg', (one) => heard.push(one), {
      onSuspect: (key) => suspects.push(key),
    })
    await bus.publish({
      subject: s.return(own, 'mallory'),
      headers: { 'Nats-Stream': s.stream, 'Nats-Subject': s.return(bobs, 'audit'), 'Nats-Sequence': '1' },
    })
    const mallory = await connect({ servers: nats.servers })
    mallory.publish(`$JS.API.DIRECT.GET.${s.stream}.${s.return(own, 'mallory')}`, '', { reply: s.returned(bobs, 'audit') })
    mallory.publish(s.returned(bobs, 'audit'), 'bare')
    await mallory.flush()
    await until(() => suspects.length === 2, { what: 'both are suspect' })
    expect(suspects).toEqual([bobs, bobs])
    expect(heard).toEqual([])
    await mallory.close()
  })
})
