import { Manifest, SEGMENT_SIZE } from '@passover/archive'
import { PASSES_BUCKET, recordFilter, storedRecord } from '@passover/audit'
import { PolicyStore } from '@passover/bus'
import { verifyLive } from '@passover/cli'
import { expect, it } from 'vitest'
import { fillTo } from '../../support/assertions/stream.js'
import { Story } from '../../support/builders/story.js'
import { auditFixture } from '../../support/fixtures/audit.js'
import { Erasable, storedAnywhere } from '../../support/fixtures/erasure.js'
import { until } from '../../support/processes/until.js'

const WINDOW_MS = 1_000
const DAY_MS = 86_400_000

// Each of the three fails where an id is taken for its newest pass, or what its index names for all that there is of it.
it('an id that was used again: who erases, or holds, the one session finds its pass, and takes nothing of the other', async () => {
  await using fixture = await auditFixture()
  const { bus } = fixture
  const to = new Erasable(bus)
  await fixture.register('alice', 'audit')
  const audit = await fixture.audit({ id_window_ms: WINDOW_MS })
  const use = (id: string, session_id: string) => new Story(bus, id, { session_id, reason: session_id })
  const erased = async (session: string) => to.ended(await to.says({ kind: 'erase', session, reason: 'r' }))

  await use('asked-again', 'asks').whole()
  const refused = use('held-older', 'kept')
  await refused.request()
  await refused.ends({ code: 'E004', message: 'no' })
  // Twice in one segment, as where a hand took the first away; nothing but its messages knows the second.
  const first = await use('twice-here', 'first').whole()
  for (const sequence of first.sequences) await bus.journal.deleteMessage(sequence)
  const second = await use('twice-here', 'second').whole()
  await fillTo(bus, SEGMENT_SIZE)
  await until(() => audit.stats().deleted_to >= 1, { what: 'all of it has left the stream', deadline_ms: 60_000 })

  const asks = use('asked-again', 'asks')
  await asks.request()
  await use('held-older', 'other').whole()
  await audit.settled()
  const hold = await to.says({ kind: 'hold', scope: { session: 'kept' }, reason: 'dispute' })

  // What nobody answered yet is no part of the pass that ended.
  expect(await erased('asks')).toMatchObject({
    state: 'refused',
    why: expect.stringContaining('asked-again: it has not been processed yet'),
  })
  await asks.ends({ code: 'E005', message: 'expired' })
  await audit.settled()
  expect(await erased('asks')).toMatchObject({ state: 'done', entries: 3 + 2 })

  const records = await bus.table(PASSES_BUCKET, storedRecord)
  for await (const { key } of records.entries(recordFilter(second.key))) await records.erase(key)
  expect((await to.custody('second')).preview).toMatchObject({ passes: 1, entries: 3 })
  expect(await erased('second')).toMatchObject({ state: 'done', entries: 3 })
  expect((await to.custody('first')).preview).toMatchObject({ passes: 1, entries: 3 })
  const places = await storedAnywhere(fixture, 'second')
  expect(places.filter((place) => place.startsWith('OBJ_archive'))).toEqual([])

  const store = await PolicyStore.open(await fixture.connect('maria'))
  await store.publish({ document: { audit: { retention_days: 1_000 / DAY_MS } }, base: 0 })
  await fillTo(bus, 2 * SEGMENT_SIZE)
  const removed = async () => (await (await Manifest.open(bus)).all()).flatMap(({ k, removed }) => (removed ? [k] : []))
  await until(async () => (await removed()).includes(1), { what: 'the younger segment is removed', deadline_ms: 60_000 })
  expect(await removed()).toEqual([1])
  await to.says({ kind: 'release', hold })
  await until(async () => (await removed()).length === 2, { what: 'it is released, and gone', deadline_ms: 60_000 })
  const { shown } = await verifyLive(bus, { id_window_ms: WINDOW_MS })
  expect(shown.filter(({ rule }) => rule !== 'digest')).toEqual([])
}, 180_000)
