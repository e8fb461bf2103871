import { readFile, writeFile } from 'node:fs/promises'
import { encode, openBus } from '@passover/bus'
import { HEADER, inboxAnswer, type PassKey, passAnswer, sha256, type WorkOutput } from '@passover/schemas'
import { createAgent } from '@passover/sdk/internal'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { clockOf, random, sequenceOf } from '../../support/dispatcher/dispatcher.js'
import { Installation, runsOf } from '../../support/dispatcher/installation.js'
import { change, decideApply, Place } from '../../support/fixtures/apply.js'
import { until } from '../../support/processes/until.js'

/** Approvals outlive everything: what waits is in the stream, and so is who said yes to it. */
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

/** Maria says yes to the change that the pass proposes. */
function approveChange({ originator, subagent, id }: PassKey): Promise<void> {
  const output = { work_id: id, subagent_id: subagent, originating_agent_id: originator, artifacts: [change('a', 'old', 'new')] }
  return decideApply(here.world.bus, output as unknown as WorkOutput)
}

/** Its originator, begun anew, applies what was approved of it. */
async function applied(id: string, directory: string) {
  const bus = await openBus({ servers: here.world.nats.servers, identity: 'alice' })
  await using alice = createAgent({ bus, clock: clockOf(bus), random }, { directory })
  return await alice.apply(id)
}

describe('after kill -9 of every process and of the server', () => {
  test('what waited still waits, is approved once, runs once, and is given to who asks again; what was approved is applied once', async () => {
    const { world } = here
    await using place = await Place.make()
    await writeFile(place.in('a'), 'old')
    const before = [await here.dispatcher(), await here.audit(), await here.worker('audit', 'first')]
    const alice = await here.originator()
    const held = await alice.pass('audit', 'echo', { override: { hold_before_dispatch: true } }).key()
    const partly = await alice.pass('audit', 'partly').key()
    const proposed = await alice.pass('audit', 'propose').key()
    await world.state(held, 'held')
    await world.state(partly, 'done')
    await world.state(proposed, 'done')
    await approveChange(proposed)
    const waiting = [`dispatch ${held.id}`, `return ${partly.id}`]
    await until(async () => (await inboxIds()).length === 2, { what: 'both wait', deadline_ms: 60_000 })

    await Promise.all([...before, alice.process].map((one) => one.kill()))
    await world.nats.node.kill()
    await world.nats.node.restart()
    await here.dispatcher()
    await here.audit()
    const second = await here.worker('audit', 'second')
    await until(async () => (await inboxIds()).join() === waiting.join(), { what: 'both wait again', deadline_ms: 60_000 })

    const { directory } = place
    expect(await applied(proposed.id, directory)).toMatchObject({ applied: ['a'], conflicts: [], applied_by: 'maria', recorded: true })
    expect(await applied(proposed.id, directory)).toMatchObject({ applied: [], already: ['a'] })
    expect(await readFile(place.in('a'), 'utf8')).toBe('new')

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
