import { PassOverError } from '@passover/core'
import { expect, test } from 'vitest'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { until } from '../../support/processes/until.js'

/** Less than a segment of these passes takes: nothing of it could be archived before the stream is full. */
const MAX_BYTES = 6_000_000
const AUDIT = { id_window_ms: 1_000, open: true }
/** It goes along with the request and with the work. */
const FILES = [{ path: 'filler', content: 'x'.repeat(60_000) }]

// Fails where nothing keeps requests out (the stream is full then, and returns do not fit), and where the deleter, once it is there, does not make room by
// itself: no request may come, so the segment that fills the stream would never be full.
test('while nobody deletes, the stream’s mark bounds the disk: E014 for new passes, running ones end; when the deleter has caught up passes are taken again', async () => {
  await using made = await AgentWorld.start({ dispatchers: [{ water_ms: 100 }], max_bytes: MAX_BYTES, audit: { ...AUDIT, deletes: false } })
  const { bus } = made.world
  const worker = await made.agent('audit')
  await worker.onPass(() => 'done')
  const alice = await made.agent('alice')
  const pass = () => alice.passOver({ subagent: 'audit', reason: 'review', work_context: { objective: 'look at it', files: FILES } })

  let done = 0
  let refused: unknown
  while (refused === undefined) {
    await pass().then(
      () => done++,
      (error: unknown) => (refused = error),
    )
    expect(done).toBeLessThan(60)
  }
  expect(refused).toBeInstanceOf(PassOverError)
  expect(refused).toMatchObject({ code: 'E014' })
  expect(done).toBeGreaterThan(20)
  await until(async () => (await bus.usage()).requests === 'closed', { what: 'requests are closed', deadline_ms: 30_000 })
  expect((await bus.usage()).bytes).toBeLessThan(MAX_BYTES)

  await made.audit(AUDIT)
  await until(async () => (await bus.usage()).requests === 'open', { what: 'there is room again', deadline_ms: 60_000 })
  expect((await bus.usage()).bytes).toBeLessThan(0.8 * MAX_BYTES)
  await pass()
})
