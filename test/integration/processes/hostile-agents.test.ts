import { connect, type NatsConnection } from '@nats-io/transport-node'
import { encode } from '@passover/bus'
import { HEADER, type PassKey } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { minimalOutput } from '../../support/builders/examples.js'
import { sequenceOf } from '../../support/dispatcher/dispatcher.js'
import { Installation, type OriginatorProcess, runsOf } from '../../support/dispatcher/installation.js'
import { staysTrue, until } from '../../support/processes/until.js'

/** What a dishonest agent may try against others who are processes of their own; no permissions are enforced here. */

let here: Installation
let bob: OriginatorProcess
let nc: NatsConnection
beforeAll(async () => {
  here = await Installation.start()
  bob = await here.originator('bob')
  nc = await connect({ servers: here.world.nats.servers, name: 'mallory' })
})
afterAll(async () => {
  await nc?.close()
  await here?.[Symbol.asyncDispose]()
})

const violations = async (key: PassKey) =>
  (await here.world.bus.journal.history(key)).filter(({ subject }) => subject.split('.')[4] === 'violation')

/** A whole, acceptable output, as the named worker would give it. */
const outputOf = (key: PassKey, by: string) => ({
  ...minimalOutput,
  work_id: key.id,
  originating_agent_id: key.originator,
  subagent_id: key.subagent,
  return_to: key.originator,
  output: JSON.stringify({ by, attempt: 1 }),
})

function forgedReturn(key: PassKey, by: string, more: { headers?: Record<string, string>; guard?: number } = {}) {
  const { subjects } = here.world.bus
  return here.world.bus.publish({
    subject: subjects.return(key, key.subagent),
    headers: { [HEADER.attempt]: '1', [HEADER.nonce]: 'forged', ...more.headers },
    data: encode({ v: 1, output: outputOf(key, by) }),
    ...(more.guard !== undefined && { guard: { subject: subjects.journal(key), sequence: more.guard } }),
  })
}

describe.concurrent('a dishonest worker', () => {
  test('an unguarded second return and a fence after the return: every reader keeps the first, and both are recorded as violations', async () => {
    const worker = await here.worker('forger', 'honest')
    const pass = bob.pass('forger', 'echo')
    expect(await pass.outcome()).toMatchObject({ output: { by: 'honest', attempt: 1 } })
    const key = await pass.key()
    sequenceOf(await forgedReturn(key, 'forged'))
    sequenceOf(await here.world.step('fence', key, { attempt: 2 }))
    // A reader that was there, and one that comes only now: to its exact gets the second return hides the first.
    expect(await bob.handle(key.id, 'forger').outcome()).toMatchObject({ output: { by: 'honest', attempt: 1 } })
    const other = await here.originator('bob')
    expect(await other.handle(key.id, 'forger').outcome()).toMatchObject({ output: { by: 'honest', attempt: 1 } })
    await until(async () => (await violations(key)).length === 2, { what: 'both are recorded', deadline_ms: 20_000 })
    expect((await here.judge()).passes.get(`bob/forger/${key.id}`)).toMatchObject({ returns: 1, ended: { attempt: 1 } })
    expect(runsOf(key.id, worker)).toEqual([1])
  })

  test('forged headers of the server in its return: no reader believes it, and the one after it counts', async () => {
    await here.register('numberer')
    const pass = bob.pass('numberer', 'x')
    const key = await pass.key()
    const journal = await here.world.state(key, 'open')
    const heard: number[] = []
    await using _hearing = await here.world.bus.subscribeReturns('bob', key.id, ({ stored }) => heard.push(stored.sequence))
    const forged = { 'Nats-Sequence': '1', 'Nats-Subject': 'return.bob.other.someone-else.other', 'Nats-Stream': 'OTHER' }
    const forgery = sequenceOf(await forgedReturn(key, 'forged', { headers: forged, guard: journal.last }))
    await until(async () => (await violations(key)).length === 1, { what: 'the forgery is recorded', deadline_ms: 20_000 })
    const sequence = sequenceOf(await forgedReturn(key, 'numberer', { guard: forgery }))
    expect(await pass.outcome()).toMatchObject({ output: { by: 'numberer' } })
    await until(() => heard.length > 0, { what: 'it was heard' })
    expect(heard).toEqual([sequence])
  })
})

describe.concurrent('mallory makes the server itself send', () => {
  /** Reads a stored message by direct get, with somebody else's subject as the reply. */
  async function sendFrom(stored: string, to: string): Promise<void> {
    let arrived = 0
    const arrive = () => {
      arrived += 1
    }
    const subscription = nc.subscribe(to, { callback: arrive })
    nc.publish(`$JS.API.DIRECT.GET.PASSOVER.${stored}`, new Uint8Array(), { reply: to })
    await until(() => arrived > 0, { what: `the server sends ${stored} to ${to}` })
    subscription.unsubscribe()
  }

  test('a return of her own to Bob`s returned subject: he drops it, and goes on waiting for his', async () => {
    const worker = await here.worker('victim', 'victim')
    const mallory = await here.originator('mallory')
    await here.worker('accomplice', 'accomplice')
    const own = mallory.pass('accomplice', 'echo')
    expect(await own.outcome()).toMatchObject({ output: { by: 'accomplice' } })
    const pass = bob.pass('victim', 'wait')
    await worker.heard('run')
    const [key, hers] = [await pass.key(), await own.key()]
    const { subjects } = here.world.bus
    await sendFrom(subjects.return(hers, 'accomplice'), subjects.returned(key, 'victim'))
    await staysTrue(() => !pass.settled(), { what: 'bob waits', for_ms: 1_500 })
    worker.tell({ do: 'release' })
    expect(await pass.outcome()).toMatchObject({ output: { by: 'victim', attempt: 1 } })
  })

  test('a refusal of her own as if the system had ended Bob`s pass: its worker is not aborted, nor does Bob believe it', async () => {
    const worker = await here.worker('target', 'target')
    const mallory = await here.originator('mallory')
    const id = here.world.id()
    expect(await mallory.pass('nobody', 'x', { id }).outcome()).toMatchObject({ code: 'E001' })
    const pass = bob.pass('target', 'wait')
    await worker.heard('run')
    const key = await pass.key()
    const { subjects } = here.world.bus
    const hers = { originator: 'mallory', subagent: 'nobody', id }
    await sendFrom(subjects.return(hers, 'passover'), subjects.returned(key, 'passover'))
    await staysTrue(() => !pass.settled() && worker.said('aborted').length === 0, { what: 'both go on', for_ms: 1_500 })
    worker.tell({ do: 'release' })
    expect(await pass.outcome()).toMatchObject({ output: { by: 'target', attempt: 1 } })
    expect(worker.said('aborted')).toEqual([])
  })
})

test('after all of this the independent checker finds nothing wrong in the stream', async () => {
  const { problems, ignored } = await here.judge()
  expect(problems).toEqual([])
  expect(ignored).toHaveLength(3)
})
