import { type Bus, encode } from '@passover/bus'
import { HEADER, type PassKey, sha256 } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { sequenceOf } from '../../support/dispatcher/dispatcher.js'
import { staysTrue, until } from '../../support/processes/until.js'

let world: AgentWorld
beforeAll(async () => {
  world = await AgentWorld.start()
})
afterAll(async () => {
  await world?.[Symbol.asyncDispose]()
})

const work_context = { objective: 'judge it' }

/** Waits for the stored return and gives the digest that a person is shown. */
async function digestOfReturn(bus: Bus, key: PassKey): Promise<string> {
  const stored = await until(() => bus.journal.last(bus.subjects.return(key, key.subagent)), { what: 'the return is stored' })
  return sha256(stored.data)
}

async function decide(bus: Bus, key: PassKey, how: { verdict: 'approve' | 'deny'; digest: string; person: string }): Promise<void> {
  const { verdict, digest, person } = how
  const headers = { [HEADER.verdict]: verdict, [HEADER.digest]: digest }
  const data = encode({ v: 1, verdict, digest, reason: 'because' })
  sequenceOf(await bus.publish({ subject: bus.subjects.decision(key, 'return', person), headers, data }))
  bus.hintDecided(key.originator)
}

describe('an output that a person must release', () => {
  it('is delivered when approved, and E013 when denied; a decision about another digest counts for nothing', async () => {
    const alice = await world.agent('alice')
    const judge = await world.agent('judge')
    const { bus } = world.world
    await using _worker = await judge.onPass(() => ({ status: 'completed', summary: { decision: 'rejected', findings: ['bad'] } }))
    const ask = () => alice.passOver({ subagent: 'judge', reason: 'x', work_context })
    const [first, second] = [ask(), ask()]
    const keys = [first, second].map(({ id }) => ({ originator: 'alice', subagent: 'judge', id }))
    const [one, two] = keys as [PassKey, PassKey]
    let settled = false
    void first.then(() => {
      settled = true
    })
    const digest = await digestOfReturn(bus, one)
    await decide(bus, one, { verdict: 'approve', digest: sha256('something else'), person: 'pat' })
    await staysTrue(() => !settled, { what: 'it is held back', for_ms: 500 })
    expect(await first.status()).toBe('awaiting_release')
    await decide(bus, one, { verdict: 'approve', digest, person: 'maria' })
    expect(await first).toMatchObject({ status: 'completed', summary: { decision: 'rejected' } })
    await decide(bus, two, { verdict: 'deny', digest: await digestOfReturn(bus, two), person: 'maria' })
    await expect(second).rejects.toMatchObject({ code: 'E013', context: { approval: 'denied', person: 'maria' } })
  })

  it('is delivered at once when the request overrides auto_return, and the policy lets it', async () => {
    const alice = await world.agent('alice')
    const part = await world.agent('part')
    await using _worker = await part.onPass(() => ({ status: 'partial', output: 'half' }))
    const output = await alice.passOver({ subagent: 'part', reason: 'x', work_context, override: { auto_return: true } })
    expect(output).toMatchObject({ status: 'partial', output: 'half' })
  })
})
