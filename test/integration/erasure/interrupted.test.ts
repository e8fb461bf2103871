import { ARCHIVE_BUCKET, SEGMENT_SIZE } from '@passover/archive'
import { partToken } from '@passover/bus'
import type { Part } from '@passover/schemas'
import { expect, it } from 'vitest'
import { fillTo } from '../../support/assertions/stream.js'
import { byHand } from '../../support/attacks/broken-topology.js'
import { rawMessages } from '../../support/builders/raw-archive.js'
import { auditFixture, replaced } from '../../support/fixtures/audit.js'
import { Erasable, MARKER, storedAnywhere, storedFiles, storeOf } from '../../support/fixtures/erasure.js'
import { until } from '../../support/processes/until.js'

const SETTINGS = { id_window_ms: 1_000, compression: 'none' as const }
const GIVEN_UP_MS = 600_000
const SECRET = Buffer.from(MARKER.repeat(30_000))

// Fails where only what an object names, or a list shows, is looked at: what a crash left beside it stays for good.
it('what a crash left of deletions and writings goes with the session that is in it', async () => {
  await using fixture = await auditFixture()
  const { bus, nats } = fixture
  const to = new Erasable(bus)
  await fixture.register('alice', 'audit')
  await bus.ensureAgent('alice', { subagent: false, max_attempts: 3, lease_ms: 5_000 })
  const first = await fixture.audit({ ...SETTINGS, deletes: false })
  await to.fill('gone')
  await fillTo(bus, SEGMENT_SIZE)
  await first.settled()
  await first[Symbol.asyncDispose]()

  const objects = await bus.objects(ARCHIVE_BUCKET)
  const places = () => rawMessages(nats.url, `OBJ_${ARCHIVE_BUCKET}`)
  // It died after it said that an object is deleted, before it purged what that was made of.
  await objects.put('0000000000.lost.frames', SECRET)
  const named = (await places()).find(({ data }) => Buffer.from(data).includes('lost.frames'))
  const meta = { ...JSON.parse(Buffer.from(named?.data ?? []).toString()), deleted: true, size: 0, chunks: 0, digest: '' }
  await bus.publish({ subject: named?.subject ?? '', data: Buffer.from(JSON.stringify(meta)), headers: { 'Nats-Rollup': 'sub' } })
  // It died while it wrote one.
  const dying = await fixture.connect('passover')
  const endless = new ReadableStream<Uint8Array>({ start: (controller) => controller.enqueue(SECRET) })
  const before = (await places()).length
  void (await dying.objects(ARCHIVE_BUCKET)).put('0000000000.half.frames', endless).catch(() => undefined)
  await until(async () => (await places()).length > before, { what: 'a piece of it is stored' })
  await dying[Symbol.asyncDispose]()
  // It died between the two purges of a part.
  const part = to.alone[0] as Part
  const purge = { filter: `$O.parts.alice.M.${partToken(part.hash)}` }
  await byHand(nats.servers, ({ streams }) => streams.purge('OBJ_parts_alice', purge))

  const erase = await to.says({ kind: 'erase', session: 'gone', reason: 'asked for' })
  const second = await fixture.audit(SETTINGS)
  // What was begun a moment ago may become an object yet.
  const trouble = () => JSON.stringify(second.health()).includes('is being written')
  await until(trouble, { what: 'it waits for what is being written', deadline_ms: 30_000 })
  expect((await to.custody()).erasures[0]).toMatchObject({ state: 'pending' })
  const marked = (await places()).filter(({ data }) => Buffer.from(data).includes(MARKER))
  expect(marked.length).toBe(1)
  await second[Symbol.asyncDispose]()
  await fixture.audit(SETTINGS, (own) => replaced(own, { now: () => own.now() + GIVEN_UP_MS }))
  expect(await to.ended(erase)).toMatchObject({ state: 'done', passes: 3, entries: 9 })
  expect(await storedAnywhere(fixture, MARKER)).toEqual([])
  const chunks = (await places()).filter(({ subject }) => subject.startsWith(`$O.${ARCHIVE_BUCKET}.C.`))
  const { length } = await objects.list()
  expect([new Set(chunks.map(({ subject }) => subject)).size, length]).toEqual([2, 2])
  const parts = (await rawMessages(nats.url, 'OBJ_parts_alice')).filter(({ subject }) => subject.includes(partToken(part.hash)))
  expect(parts).toEqual([])
  const store = await storeOf(nats)
  await nats.node.stop()
  expect(await storedFiles(store, MARKER)).toEqual([])
  await nats.node.restart()
}, 120_000)
