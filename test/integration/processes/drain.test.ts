import { presenceRecord } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Installation, type OriginatorProcess, runsOf } from '../../support/dispatcher/installation.js'
import { until } from '../../support/processes/until.js'

const BOUND_MS = 60_000
/** A drain that waits for its handlers as good as for ever. */
const PATIENT = { DRAIN_MS: '3600000' }

let here: Installation
let alice: OriginatorProcess
beforeAll(async () => {
  here = await Installation.start({ audit: false })
  alice = await here.originator()
})
afterAll(async () => {
  await here?.[Symbol.asyncDispose]()
})

async function isPresent(agent: string): Promise<boolean> {
  const table = await here.world.bus.table('presence', presenceRecord)
  for await (const _ of table.entries(`${agent}.*`)) return true
  return false
}

describe.concurrent("drainOnSignals in an agent's process", () => {
  test.each(['SIGTERM', 'SIGINT'] as const)('a main of three lines ends in good order on %s', async (signal) => {
    const agent = `plain${signal.toLowerCase()}`
    const plain = await here.plainAgent(agent)
    expect(await alice.pass(agent, 'first').outcome()).toMatchObject({ output: { by: 'plain', attempt: 1 } })
    plain.signal(signal)
    expect(await plain.exited).toEqual({ code: 0, signal: null })
    expect(plain.stderr).not.toContain('not drained')
  })

  test('what it works on goes on, and what comes then goes to another', async () => {
    const first = await here.worker('leaving', 'first', PATIENT)
    const begun = alice.pass('leaving', 'wait')
    await first.heard('run')
    await until(() => isPresent('leaving'), { what: 'it is present', deadline_ms: BOUND_MS })
    first.signal('SIGTERM')
    await until(async () => !(await isPresent('leaving')), { what: 'it is present no more', deadline_ms: BOUND_MS })
    const later = alice.pass('leaving', 'echo')
    const { id } = await later.key()
    const second = await here.worker('leaving', 'second')
    expect(await later.outcome()).toMatchObject({ output: { by: 'second' } })
    expect(runsOf(id, first)).toEqual([])
    first.tell({ do: 'release' })
    expect(await begun.outcome()).toMatchObject({ output: { by: 'first', attempt: 1 } })
    expect(await first.exited).toEqual({ code: 0, signal: null })
    expect(second.running).toBe(true)
  })

  test('a second signal ends it at once; its pass is another attempt elsewhere', async () => {
    const first = await here.worker('hasty', 'first', PATIENT)
    const pass = alice.pass('hasty', 'wait')
    await first.heard('run')
    const hit = () => {
      first.signal('SIGTERM')
      return !first.running
    }
    await until(hit, { what: 'a later signal ends it', deadline_ms: BOUND_MS, every_ms: 150 })
    expect(await first.exited).toEqual({ code: null, signal: 'SIGTERM' })
    await here.worker('hasty', 'second')
    expect(await pass.outcome()).toMatchObject({ output: { by: 'second', attempt: 2 } })
  })
})
