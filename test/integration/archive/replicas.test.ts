import { Manifest, SEGMENT_SIZE } from '@passover/archive'
import { type Bus, PolicyStore } from '@passover/bus'
import { verifyLive } from '@passover/cli'
import { listAnswer, statsAnswer } from '@passover/schemas'
import { expect, it } from 'vitest'
import { fillTo } from '../../support/assertions/stream.js'
import { Story } from '../../support/builders/story.js'
import { auditFixture, replaced } from '../../support/fixtures/audit.js'
import { Erasable } from '../../support/fixtures/erasure.js'
import { until } from '../../support/processes/until.js'

const WINDOW_MS = 1_000
const DAY_MS = 86_400_000

/** An audit whose writes to the manifest are always lost: another audit deletes and removes. */
const losing = (own: Bus) =>
  replaced(own, {
    async table(...args: Parameters<Bus['table']>) {
      const table = await own.table(...args)
      return args[0] === 'archive' ? replaced(table, { update: async () => undefined }) : table
    },
  })

// Fails where an audit learns only of what it erases itself: an erased record leaves no revision in the bucket.
it('after an erasure and after retention, an audit that did neither tells what the records say', async () => {
  await using fixture = await auditFixture()
  const { bus } = fixture
  const to = new Erasable(bus)
  await fixture.register('alice', 'audit')
  const removing = await fixture.audit({ id_window_ms: WINDOW_MS, answers: false })
  const use = (id: string, session_id: string) => new Story(bus, id, { session_id }).whole()
  const told = async (session_id: string) => {
    const stats = statsAnswer.parse(await bus.ask({ op: 'stats', session_id }))
    const list = listAnswer.parse(await bus.ask({ op: 'list', session_id }))
    return [stats.ok && stats.passes, list.ok && list.passes.map(({ id }) => id)]
  }
  const isTold = async (session_id: string, ids: string[]) => {
    const expected = JSON.stringify([ids.length, ids])
    const is = async () => JSON.stringify(await told(session_id)) === expected
    await until(is, { what: `${session_id} has ${ids.join(', ') || 'no pass'}`, deadline_ms: 20_000 })
  }
  const index = async () => (await verifyLive(bus, { id_window_ms: WINDOW_MS })).shown.filter(({ rule }) => rule === 'index')

  await use('used-again', 'older')
  await use('used-once', 'other')
  await fillTo(bus, SEGMENT_SIZE)
  await until(() => removing.stats().deleted_to >= 1, { what: 'all of it has left the stream', deadline_ms: 60_000 })
  await use('used-again', 'newer')
  const hearing = await fixture.audit({ id_window_ms: WINDOW_MS, deletes: false })
  await isTold('newer', ['used-again'])
  const erase = await to.says({ kind: 'erase', session: 'newer', reason: 'r' })
  expect(await to.ended(erase)).toMatchObject({ state: 'done', passes: 1 })
  await isTold('newer', [])
  await isTold('older', ['used-again'])
  expect(await index()).toEqual([])
  await hearing[Symbol.asyncDispose]()

  await fixture.audit({ id_window_ms: WINDOW_MS }, losing)
  await isTold('other', ['used-once'])
  const store = await PolicyStore.open(await fixture.connect('maria'))
  await store.publish({ document: { audit: { retention_days: 1_000 / DAY_MS } }, base: 0 })
  const removed = async () => (await (await Manifest.open(bus)).all()).some((entry) => entry.removed)
  await until(removed, { what: 'the segment is removed', deadline_ms: 60_000 })
  await isTold('other', [])
  await isTold('older', [])
  expect(await index()).toEqual([])
}, 180_000)
