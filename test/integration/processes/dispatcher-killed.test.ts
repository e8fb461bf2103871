import type { FaultPoint } from '@passover/dispatcher'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Installation, type OriginatorProcess, runsOf } from '../../support/dispatcher/installation.js'
import type { TestProcess } from '../../support/processes/processes.js'
import { within } from '../../support/processes/until.js'

/**
 * Whole passes through a dispatcher that ends itself with SIGKILL at a fault point, and through its successor. That each point leaves
 * the journal as it should be is shown in killed.test.ts; here what caller and worker see of it.
 */

let here: Installation
let worker: TestProcess
let alice: OriginatorProcess
beforeAll(async () => {
  here = await Installation.start({ dispatchers: 0, audit: false })
  await here.register('audit')
  worker = await here.worker('audit', 'only')
  alice = await here.originator()
})
afterAll(async () => {
  await here?.[Symbol.asyncDispose]()
})

interface Row {
  point: FaultPoint
  reason: string
  held?: boolean
  timeout_ms?: number
  /** What the caller gets. */
  gets: object
}

const returned = { output: { by: 'only', attempt: 1 } }
const rows: Row[] = [
  { point: 'admission:before-publish', reason: 'echo', gets: returned },
  { point: 'admission:after-publish', reason: 'echo', gets: returned },
  { point: 'admission:before-ack', reason: 'echo', gets: returned },
  { point: 'decision:before-publish', reason: 'echo', held: true, gets: returned },
  { point: 'decision:after-publish', reason: 'echo', held: true, gets: returned },
  { point: 'decision:before-ack', reason: 'echo', held: true, gets: returned },
  { point: 'ending:before-publish', reason: 'sleep 60000', timeout_ms: 6_000, gets: { code: 'E010' } },
  { point: 'ending:after-publish', reason: 'sleep 60000', timeout_ms: 6_000, gets: { code: 'E010' } },
]

describe('a dispatcher process killed with SIGKILL between two of its steps, and another one after it', () => {
  test.each(rows)('$point: one terminal return, the handler begun once', async ({ point, reason, held, timeout_ms, gets }) => {
    const { world } = here
    const doomed = await here.dispatcher(point)
    const pass = alice.pass('audit', reason, {
      ...(held && { override: { hold_before_dispatch: true } }),
      ...(timeout_ms !== undefined && { timeout_ms }),
    })
    const key = await pass.key()
    if (held) {
      const journal = await world.state(key, 'held', 60_000)
      await world.decide(key, { digest: (journal.state === 'held' && journal.held.digest) || '' })
    }
    expect(await within(doomed.exited, 'it ends itself there', 60_000)).toMatchObject({ signal: 'SIGKILL' })
    await using _successor = await here.dispatcher()
    expect(await pass.outcome()).toMatchObject(gets)
    await world.untilAcknowledged()
    expect(runsOf(key.id, worker)).toEqual([1])
    const { passes, problems } = await here.judge()
    expect(passes.get(`alice/audit/${key.id}`)).toMatchObject({ held: held ? 1 : 0, works: 1, returns: 1 })
    // Where nobody keeps time, nobody ends a pass in time: that is the one thing that a test with a pause between two dispatchers may show.
    expect(problems.filter((one) => !/past its deadline/.test(one))).toEqual([])
  })
})
