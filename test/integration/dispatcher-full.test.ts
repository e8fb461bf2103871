import { expect, test } from 'vitest'
import { CONTEXT, sequenceOf, World } from '../support/dispatch.js'
import { until } from '../support/until.js'

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

test('a request that fits while its work does not is refused with E014 and retry-after', async () => {
  await using world = await World.start({ dispatchers: [], max_bytes: 200_000 })
  await world.agent('audit')
  const first = await world.ask({ work_context: FILLER })
  const second = await world.ask({ work_context: { ...FILLER, files: [{ path: 'filler', content: 'x'.repeat(90_000) }] } })
  await world.dispatcher({ water_ms: 60_000 })
  const refused = await until(
    async () => {
      for (const key of [first, second]) if ((await world.journal(key)).state === 'done') return key
      return undefined
    },
    { what: 'one is refused' },
  )
  expect((await world.end(refused)).error).toMatchObject({ code: 'E014', details: { retry_after_ms: expect.any(Number) } })
})
