import type { PassKey } from '@passover/schemas'
import { expect, test } from 'vitest'
import { CONTEXT, sequenceOf, World } from '../../support/dispatcher/dispatcher.js'
import { until } from '../../support/processes/until.js'

const LIMIT = 8_000_000
const RUNNING = 8
const FILLER = { ...CONTEXT, files: [{ path: 'filler', content: 'x'.repeat(60_000) }] }

test('a stream that is nearly full takes no requests, returns of running passes still fit, and below the low mark requests are taken again', async () => {
  await using world = await World.start({ dispatchers: [{ water_ms: 50 }], max_bytes: 2_000_000 })
  await world.agent('audit')
  const running = await world.ask({ timeout_ms: 60_000 })
  const journal = await world.state(running, 'open')
  const passes = []
  for (;;) {
    const { key, ...message } = world.request({ work_context: FILLER, timeout_ms: 60_000 })
    const outcome = await world.bus.publish(message)
    if (outcome.kind !== 'stored') {
      expect(outcome).toMatchObject({ kind: 'refused' })
      break
    }
    passes.push(key)
    await until(async () => (await world.journal(key)).state !== 'none', { what: 'it is answered' })
  }
  expect(passes.length).toBeGreaterThan(5)
  await until(async () => (await world.bus.usage()).requests === 'closed', { what: 'requests are closed' })
  sequenceOf(await world.step('return', running, { attempt: 1, guard: journal.last }))
  for (const key of passes) {
    for (const { sequence } of await world.bus.journal.read(key)) await world.bus.journal.deleteMessage(sequence)
  }
  await until(async () => (await world.bus.usage()).requests === 'open', { what: 'requests are open' })
  await world.state(await world.ask(), 'open')
})

// Fails where `takes` of services/dispatcher/src/limits/storage-backpressure.ts is always true: the work that the backlog asks for then takes the room up.
test('what waits before the mark when it is reached is refused with E014 and retry-after, and returns of running passes fit', async () => {
  await using world = await World.start({ dispatchers: [{}], max_bytes: LIMIT })
  await world.agent('audit')
  const running = await Promise.all(Array.from({ length: RUNNING }, () => world.ask({ timeout_ms: 120_000 })))
  const guards = await Promise.all(running.map(async (key) => (await world.state(key, 'open')).last))
  for (const one of world.dispatchers.splice(0)) await one.drain(2_000)
  const waiting: PassKey[] = []
  while ((await world.bus.usage()).bytes < 0.8 * LIMIT) waiting.push(await world.ask({ work_context: FILLER, timeout_ms: 120_000 }))

  await Promise.all([world.dispatcher(), world.dispatcher()])
  await until(async () => (await Promise.all(waiting.map((key) => world.journal(key)))).every(({ state }) => state !== 'none'), {
    what: 'each is answered',
  })
  expect((await world.bus.usage()).bytes).toBeLessThan(0.95 * LIMIT)
  const states = await Promise.all(waiting.map(async (key) => (await world.journal(key)).state))
  expect(states).toContain('open')
  const [refused] = waiting.filter((_, n) => states[n] === 'done')
  expect((await world.end(refused as PassKey)).error).toMatchObject({ code: 'E014', details: { retry_after_ms: expect.any(Number) } })
  for (const [n, key] of running.entries())
    sequenceOf(await world.step('return', key, { attempt: 1, guard: guards[n] ?? 0, bytes: 40_000 }))
})

test('a request that fits while its work does not, as others filled the stream up, is refused with E014 and retry-after', async () => {
  await using world = await World.start({ dispatchers: [{ water_ms: 600_000 }], max_bytes: 200_000 })
  await world.agent('audit')
  // Nobody looks at the stream before this is admitted.
  const events = { subject: world.bus.subjects.event(await world.ask(), 'late', 'audit'), data: new Uint8Array(90_000) }
  sequenceOf(await world.bus.publish(events))
  expect((await world.end(await world.ask({ work_context: FILLER }))).error).toMatchObject({
    code: 'E014',
    details: { retry_after_ms: expect.any(Number) },
  })
})
