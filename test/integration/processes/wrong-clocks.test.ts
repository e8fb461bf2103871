import type { PassKey } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { CLOCK_MS } from '../../support/dispatcher/dispatcher.js'
import { Installation, LEASE_MS, type OriginatorProcess, runsOf, wrongClock } from '../../support/dispatcher/installation.js'
import type { TestProcess } from '../../support/processes/processes.js'

const FIVE_MINUTES = 300_000
/** Others use this machine too; a clock that counted would be wrong by minutes. */
const BOUND_MS = 20_000
const APPROVAL_MS = 2_000

let here: Installation
const started: TestProcess[] = []
let originators: OriginatorProcess[]

beforeAll(async () => {
  here = await Installation.start({ dispatchers: 0, audit: false, defaults: { approval_expires_ms: APPROVAL_MS } })
  // One of each ahead, one behind: whatever happens happens across clocks that are ten minutes apart.
  started.push(...(await Promise.all([FIVE_MINUTES, -FIVE_MINUTES].map((ms) => here.dispatcher(undefined, wrongClock(ms))))))
  await here.audit(wrongClock(FIVE_MINUTES))
  originators = await Promise.all([
    here.originator('ahead', wrongClock(FIVE_MINUTES)),
    here.originator('behind', wrongClock(-FIVE_MINUTES)),
  ])
  started.push(...originators.map(({ process }) => process))
})
afterAll(async () => {
  await here?.[Symbol.asyncDispose]()
})

async function workers(agent: string): Promise<[TestProcess, TestProcess]> {
  const first = await here.worker(agent, 'first', wrongClock(FIVE_MINUTES))
  started.push(first)
  const second = await here.worker(agent, 'second', wrongClock(-FIVE_MINUTES))
  started.push(second)
  return [first, second]
}

/** How long after its time a pass ended, both by the server's clock. */
async function lateness(key: PassKey, due_after: (of: 'held' | 'work') => number): Promise<number> {
  const { journal } = await here.world.end(key, 60_000)
  if (journal.state !== 'done') throw new Error('not done')
  const begun = journal.work ?? journal.held
  return journal.return.time - ((begun?.time ?? 0) + due_after(journal.work ? 'work' : 'held'))
}

describe('hosts whose clocks are five minutes ahead or behind', () => {
  test('are what these processes run on', () => {
    const shifts = started.map((one) => Math.round(Number(one.said('clock')[0]?.shift) / FIVE_MINUTES))
    expect(shifts).toEqual([1, -1, 1, -1])
  })

  test('work comes back, whoever asks and whoever works', async () => {
    const agent = 'plain'
    const both = await workers(agent)
    const asked = originators.flatMap((one) => Array.from({ length: 8 }, () => one.pass(agent, 'echo')))
    for (const one of asked) expect((await one.outcome()).output).toMatchObject({ attempt: 1 })
    for (const one of asked) expect(runsOf((await one.key()).id, ...both)).toEqual([1])
  })

  test('a deadline is the server’s: no pass ends before it, none long after', async () => {
    const agent = 'slow'
    await workers(agent)
    for (const one of originators) {
      const asked = one.pass(agent, 'stubborn', { timeout_ms: 5_000 })
      expect(await asked.outcome()).toMatchObject({ code: 'E010', context: { timeout_ms: 5_000 } })
      const late = await lateness(await asked.key(), () => 5_000)
      expect(late).toBeGreaterThanOrEqual(-CLOCK_MS)
      expect(late).toBeLessThan(BOUND_MS)
    }
  })

  test('an approval expires by the server’s clock', async () => {
    const agent = 'vault'
    await here.register(agent)
    const asked = originators.map((one) => one.pass(agent, 'echo', { override: { hold_before_dispatch: true } }))
    for (const one of asked) {
      expect(await one.outcome()).toMatchObject({ code: 'E013', context: { approval: 'expired' } })
      const late = await lateness(await one.key(), () => APPROVAL_MS)
      expect(late).toBeGreaterThanOrEqual(-CLOCK_MS)
      expect(late).toBeLessThan(BOUND_MS)
    }
  })

  test('a worker that dies is followed by one whose clock is ten minutes off: attempt 2, within the lease bound', async () => {
    const agent = 'dying'
    const first = await here.worker(agent, 'first', wrongClock(FIVE_MINUTES))
    const asked = originators[0]?.pass(agent, 'wait')
    await first.heard('run')
    const second = await here.worker(agent, 'second', wrongClock(-FIVE_MINUTES))
    const began = performance.now()
    await first.kill()
    expect(await asked?.outcome()).toMatchObject({ output: { by: 'second', attempt: 2 } })
    expect(performance.now() - began).toBeLessThan(LEASE_MS * 3 + BOUND_MS)
    expect(runsOf(String((await asked?.key())?.id), first, second)).toEqual([1, 2])
  })

  test('a child’s deadline is bounded by its parent’s, across clocks', async () => {
    await Promise.all([here.worker('upper', 'upper', wrongClock(FIVE_MINUTES)), here.worker('lower', 'lower', wrongClock(-FIVE_MINUTES))])
    const asked = originators[1]?.pass('upper', 'pass lower echo', { timeout_ms: 60_000 })
    expect((await asked?.outcome())?.output).toMatchObject({ depth: 1 })
    const ending = originators[0]?.pass('upper', 'pass lower stubborn', { timeout_ms: 6_000 })
    expect(await ending?.outcome()).toMatchObject({ code: 'E010' })
    const root = await ending?.key()
    if (!root) throw new Error('no key')
    expect(await lateness(root, () => 6_000)).toBeLessThan(BOUND_MS)
  })

  test('and the independent checker finds nothing wrong in the stream', async () => {
    expect((await here.judge()).problems).toEqual([])
  })
})
