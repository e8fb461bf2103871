import { LOAD_AGENTS } from '@passover/chaos'
import { expect, test } from 'vitest'
import { until } from '../support/until.js'
import { judgedWhenQuiet, misbegun, unended, wrongRecords } from './books.js'
import { Field } from './field.js'

const passes = Number(process.env.PASSOVER_CLUSTER_PASSES ?? 600)
const seed = Number(process.env.PASSOVER_SEED ?? Date.now() % 1_000_000)
/** Until a node that was killed is back and a leader chosen: 5 s are promised after the server's return. */
const BOUND_MS = 20_000

test(`three nodes, one after the other killed under ${passes} passes (PASSOVER_SEED=${seed})`, async () => {
  await using field = await Field.start({ nodes: 3, dispatchers: 2, workers: 2, begun: true })
  const each = passes / 2
  const originators = ['alice', 'bob'].map((agent, n) =>
    field.originator(agent, { passes: each, every_ms: 60_000 / each, seed: seed * 2 + n }),
  )
  await Promise.all(originators.map((one) => one.ready()))
  for (const node of field.nats.nodes) {
    await node.kill()
    // Two of three go on without it.
    await goOn(field)
    await node.restart()
    await field.nats.untilSettled(60_000)
    await goOn(field)
  }
  await Promise.all(originators.map((one) => one.process.heard('done', 180_000)))
  const judgement = await judgedWhenQuiet(field, { bound_ms: BOUND_MS, deadline_ms: 90_000 })
  const begun = await field.begun()
  console.log(`seed ${seed}: ${begun.length} runs, ${JSON.stringify(judgement.totals)}`)

  expect((await field.bus.inspect()).stream?.replicas).toBe(3)
  expect(field.crashes).toEqual([])
  expect(judgement.problems.slice(0, 20)).toEqual([])
  expect(unended(judgement).slice(0, 20)).toEqual([])
  expect(misbegun(begun, judgement).slice(0, 20)).toEqual([])
  expect(judgement.totals.by_code.ok).toBeGreaterThan(judgement.totals.passes / 2)
  await field.untilIdle(LOAD_AGENTS, 60_000)
  expect((await wrongRecords(field.bus, judgement, 60_000)).slice(0, 20)).toEqual([])
}, 480_000)

/** Some more passes begin. */
async function goOn(field: Field): Promise<void> {
  const before = (await field.begun()).length
  await until(async () => (await field.begun()).length >= before + 20, { what: 'passes go on', deadline_ms: 60_000, every_ms: 100 })
}
