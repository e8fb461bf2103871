import { encode } from '@passover/bus'
import { HEADER, inboxAnswer, type PassKey, passAnswer, sha256 } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { sequenceOf } from '../support/dispatch.js'
import { Installation, runsOf } from '../support/installation.js'
import { until } from '../support/until.js'

/** Approvals outlive everything (issue 12, 5): what waits is in the stream, and so is who said yes to it. */
let here: Installation
beforeAll(async () => {
  here = await Installation.start({ dispatchers: 0, audit: false })
  await here.register('audit')
})
afterAll(async () => {
  await here?.[Symbol.asyncDispose]()
})

async function inboxIds(): Promise<string[]> {
  const answer = inboxAnswer.safeParse(await here.world.bus.ask({ op: 'inbox' }, { timeout_ms: 3_000 }))
  return answer.success && answer.data.ok ? answer.data.items.map(({ item, id }) => `${item} ${id}`).sort() : []
}

async function release(key: PassKey): Promise<void> {
  const { bus } = here.world
  const stored = await bus.journal.last(bus.subjects.return(key, key.subagent))
  const digest = sha256(stored!.data)
  const headers = { [HEADER.verdict]: 'approve', [HEADER.digest]: digest }
  const data = encode({ v: 1, verdict: 'approve', digest })
  sequenceOf(await bus.publish({ subject: bus.subjects.decision(key, 'return', 'maria'), headers, data }))
}

describe('after kill -9 of every process and of the server', () => {
  test('what waited still waits, is approved once, runs once, and is given to who asks again', async () => {
    const { world } = here
    const before = [await here.dispatcher(), await here.audit(), await here.worker('audit', 'first')]
    const alice = await here.originator()
    const held = await alice.pass('audit', 'echo', { override: { hold_before_dispatch: true } }).key()
    const partly = await alice.pass('audit', 'partly').key()
    await world.state(held, 'held')
    await world.state(partly, 'done')
    const waiting = [`dispatch ${held.id}`, `return ${partly.id}`]
    await until(async () => (await inboxIds()).length === 2, { what: 'both wait', deadline_ms: 60_000 })

    await Promise.all([...before, alice.process].map((one) => one.kill()))
    await world.nats.node.kill()
    await world.nats.node.restart()
    await here.dispatcher()
    await here.audit()
    const second = await here.worker('audit', 'second')
    await until(async () => (await inboxIds()).join() === waiting.join(), { what: 'both wait again', deadline_ms: 60_000 })

    const again = await here.originator()
    const asked = [again.handle(held.id, 'audit'), again.handle(partly.id, 'audit')]
    const journal = await world.state(held, 'held')
    await world.decide(held, { digest: (journal.state === 'held' && journal.held.digest) || '', person: 'maria' })
    await release(partly)
    expect(await asked[0]!.outcome()).toMatchObject({ output: { by: 'second', attempt: 1 } })
    expect(await asked[1]!.outcome()).toMatchObject({ output: { by: 'first', attempt: 1 } })
    expect([runsOf(held.id, second), runsOf(partly.id, second)]).toEqual([[1], []])
    const told = passAnswer.parse(await world.bus.ask({ op: 'pass', id: held.id, originator: 'alice', subagent: 'audit' }))
    expect(told.ok && told.passes[0]?.decisions).toMatchObject([{ item: 'dispatch', person: 'maria', verdict: 'approve' }])
    await until(async () => (await inboxIds()).length === 0, { what: 'nothing waits any more', deadline_ms: 60_000 })
  })
})
