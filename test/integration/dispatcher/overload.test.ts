import { PassOverError } from '@passover/core'
import { expect, test } from 'vitest'
import { checkOf } from '../../support/attacks/broken-topology.js'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { CONTEXT, sequenceOf } from '../../support/dispatcher/dispatcher.js'
import { until } from '../../support/processes/until.js'

const FILLER = { ...CONTEXT, files: [{ path: 'filler', content: 'x'.repeat(60_000) }] }
const WATER = { water_ms: 100, stores_ms: 60_000 }

test('above the mark an agent hears E014 at once, with when to try again; whichever dispatcher closed, any opens, also one that starts later', async () => {
  await using made = await AgentWorld.start({ dispatchers: [WATER, WATER], max_bytes: 3_000_000 })
  const { world } = made
  await world.agent('audit')
  const alice = await made.agent('alice')
  const ask = () => alice.passOver({ subagent: 'audit', reason: 'r', work_context: { objective: 'o' }, return_required: false }).stored
  await ask()
  const running = await world.ask({ timeout_ms: 120_000 })
  const journal = await world.state(running, 'open')
  for (let n = 0; (await world.bus.usage()).requests === 'open'; n++) {
    const { key, ...message } = world.request({ work_context: FILLER, timeout_ms: 120_000 })
    if ((await world.bus.publish(message)).kind !== 'stored') break
    await until(async () => (await world.journal(key)).state !== 'none', { what: 'it is answered', deadline_ms: 30_000 })
    expect(n).toBeLessThan(100)
  }
  await until(async () => (await world.bus.usage()).requests === 'closed', { what: 'requests are closed', deadline_ms: 30_000 })
  await until(() => world.dispatchers.every((one) => checkOf(one, 'room').state === 'recovering'), { what: 'both say so' })
  expect(world.dispatchers.every((one) => one.health().ready)).toBe(true)

  const refused = await ask().catch((error: unknown) => error)
  expect(refused).toBeInstanceOf(PassOverError)
  expect(refused).toMatchObject({ code: 'E014', context: { retry_after_ms: expect.any(Number) } })

  // Both die between closing and opening: nobody has to remember anything.
  for (const one of world.dispatchers.splice(0)) await one.drain(0)
  sequenceOf(await world.step('return', running, { attempt: 1, guard: journal.last }))
  const { last } = await world.bus.bounds()
  for (let sequence = 1; sequence <= last; sequence++) await world.bus.journal.deleteMessage(sequence)
  expect((await world.bus.usage()).requests).toBe('closed')
  const later = await world.dispatcher(WATER)
  await until(async () => (await world.bus.usage()).requests === 'open', { what: 'requests are open', deadline_ms: 30_000 })
  await ask()
  await until(() => checkOf(later, 'room').state === 'ok', { what: 'it says so' })
})
