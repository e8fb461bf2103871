import { PASSES_BUCKET, storedRecord } from '@passover/audit'
import type { PassRecord, PassRow } from '@passover/schemas'
import { pino } from 'pino'
import { expect, test } from 'vitest'
import { RecordStore } from '../../../services/audit/src/records/record-store.js'
import { clockOf } from '../../support/fixtures/audit.js'
import { busOn, freshKey } from '../../support/fixtures/bus.js'
import { until } from '../../support/processes/until.js'
import { type NatsFixture, type NatsNode, natsFixture } from '../../support/servers/nats.js'

// Fails where what is still on its way, and so not found, is taken for nothing that could be read, and written over.
test('of two records of a pass that are on their way while the leader is alone, the one that knows more stands', async () => {
  await using nats = await natsFixture({ nodes: 3 })
  const leader = await leaderOf(nats)
  const bus = await busOn({ ...nats, servers: [leader.url] })
  const table = await bus.table(PASSES_BUCKET, storedRecord)
  const said: string[] = []
  const standing = { wrote: () => undefined, found: () => undefined }
  const records = new RecordStore(table, standing, clockOf(bus), pino({}, { write: (line) => void said.push(line) }))
  const followers = nats.nodes.filter((node) => node !== leader)
  await Promise.all(followers.map((node) => node.pause()))
  const written = [9, 4].map((last) => records.write({ key: 'k' }, { stored: recordOf(last), row: {} as PassRow }))
  await until(() => said.length > 0, { what: 'the second one waits', deadline_ms: 10_000 }).finally(() =>
    Promise.all(followers.map((node) => node.resume())),
  )
  expect(await Promise.all(written)).toEqual([true, true])
  expect((await table.get('k'))?.value.sequences.last).toBe(9)
  await bus[Symbol.asyncDispose]()
})

function recordOf(last: number): PassRecord {
  const sequences = { requests: [1], work: 2, return: 3, fences: [], last }
  return { v: 1, key: freshKey(), status: 'returned', attempt: 1, sequences, decisions: [] }
}

interface Led {
  account_details: { stream_detail: { name: string; cluster?: { leader?: string } }[] }[]
}

/** The node that leads the bucket, once all three have it. */
async function leaderOf(nats: NatsFixture): Promise<NatsNode> {
  await using bus = await busOn(nats)
  await until(() => bus.ensureTopology({ replicas: 3 }).then(() => true), { what: 'the topology stands', deadline_ms: 60_000 })
  await nats.untilSettled()
  const answer = await fetch(new URL('/jsz?accounts=1&streams=1', nats.node.monitor))
  const streams = ((await answer.json()) as Led).account_details.flatMap(({ stream_detail }) => stream_detail)
  const name = streams.find((stream) => stream.name === `KV_${PASSES_BUCKET}`)?.cluster?.leader
  const node = nats.nodes.find((one) => one.name === name)
  if (!node) throw new Error('nobody leads the bucket')
  return node
}
