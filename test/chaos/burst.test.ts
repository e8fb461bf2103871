import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { BUILDER, checkStream } from '@passover/chaos'
import { expect, test } from 'vitest'
import { until } from '../support/processes/until.js'
import { unended } from './books.js'
import { Field } from './field.js'

const passes = Number(process.env.PASSOVER_BURST ?? 100_000)

/** Nothing may time out: the last of the burst waits for all before it. */
const TIMEOUT_MS = 900_000
const PADDING = 1_000

/**
 * What is kept of an open or unanswered pass takes some 1.2 KB of heap at the timekeeper and less at the audit, so 100,000 of them fit this
 * limit twice; their requests, decoded, would not fit it at all. It also makes the peaks those of what is kept, not of garbage.
 */
const HEAP_MIB = 256
/** Beside its heap a process has some 100 MiB of code and young objects, and 100 MiB of buffers on their way; not the 150 MiB of all requests. */
const ALLOWED_MIB = HEAP_MIB + 250
/** A worker and the publisher keep nothing of what is over. */
const ALLOWED_STATELESS_MIB = 300

test(`a burst of ${passes} requests through one dispatcher and four workers`, async () => {
  await using field = await Field.start({ dispatchers: 1, workers: 4, agents: [BUILDER], concurrency: 64, heap_mib: HEAP_MIB })
  const started = performance.now()
  const since = () => ((performance.now() - started) / 1_000).toFixed(1)
  const options = { agent: 'alice', to: BUILDER, passes, timeout_ms: TIMEOUT_MS, padding: PADDING }
  const publisher = field.player('publisher', 'burst', options)
  const { ms } = await publisher.process.heard('published', 180_000)
  console.log(`${passes} requests stored in ${ms} ms (${Math.round((passes / Number(ms)) * 1_000)}/s)`)
  await untilDispatched(field)
  await field.untilIdle([BUILDER], 420_000)
  const seconds = since()
  await untilRecorded(field)
  const recorded = since()
  const judgement = await checkStream(field.nats.servers)
  const rate = Math.round(passes / Number(seconds))
  console.log(
    `ended after ${seconds} s (${rate}/s), recorded after ${recorded} s, checked after ${since()} s: ${JSON.stringify(judgement.totals)}`,
  )
  console.log(`peaks MiB ${JSON.stringify(field.peaks())}`)

  expect(field.crashes).toEqual([])
  expect(judgement.problems.slice(0, 20)).toEqual([])
  expect(unended(judgement).slice(0, 20)).toEqual([])
  expect(judgement.totals.requests).toBeGreaterThanOrEqual(passes)
  expect(judgement.totals).toMatchObject({ passes, ended: passes, open: 0, by_code: { ok: passes } })
  for (const [name, peak] of Object.entries(field.peaks())) {
    const allowed = /worker|publisher/.test(name) ? ALLOWED_STATELESS_MIB : ALLOWED_MIB
    expect(peak, `resident memory of ${name}, MiB`).toBeLessThan(allowed)
  }
}, 900_000)

/** Every request was taken and acknowledged. */
async function untilDispatched(field: Field): Promise<void> {
  const nc = await connect({ servers: field.nats.servers })
  try {
    const manager = await jetstreamManager(nc)
    await until(
      async () => {
        const { num_pending, num_ack_pending } = await manager.consumers.info('PASSOVER', 'dispatcher')
        return num_pending + num_ack_pending === 0
      },
      { what: 'every request is dispatched', deadline_ms: 420_000, every_ms: 500 },
    )
  } finally {
    await nc.close()
  }
}

/** The audit has written a record of each. It yields to all others (nice), so only a standstill is a failure, not slowness. */
async function untilRecorded(field: Field): Promise<void> {
  for (let before = -1; ; ) {
    const recorded = async () => (await field.bus.inspect()).buckets.find(({ name }) => name === 'passes')?.messages ?? 0
    const more = async () => field.crashes.length > 0 || (await recorded()) > before
    await until(more, { what: `more than ${before} of ${passes} passes are recorded`, deadline_ms: 60_000, every_ms: 500 })
    before = await recorded()
    if (before >= passes || field.crashes.length > 0) return
  }
}
