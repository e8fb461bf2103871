import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ARCHIVE_BUCKET, folderArchive, Manifest, SEGMENT_SIZE } from '@passover/archive'
import type { AuditRunning } from '@passover/audit'
import { type Bus, encode, PolicyStore, type StoredMessage } from '@passover/bus'
import { verifyArchive, verifyLive } from '@passover/cli'
import type { Fact } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { fillTo } from '../../support/assertions/stream.js'
import { Story } from '../../support/builders/story.js'
import { type AuditFixture, auditFixture, replaced } from '../../support/fixtures/audit.js'
import { until } from '../../support/processes/until.js'

const WINDOW_MS = 1_000
const HOUR_MS = 3_600_000
const PATIENT = { deadline_ms: 60_000 }

/** A long `verify` of an installation at work: what is sealed, deleted and removed meanwhile is nobody's fault. */
describe('verify while the audit seals, deletes and removes', () => {
  let fixture: AuditFixture
  let bus: Bus
  let audit: AuditRunning
  beforeAll(async () => {
    fixture = await auditFixture()
    bus = fixture.bus
    await fixture.register('alice', 'audit')
    audit = await fixture.audit({ id_window_ms: WINDOW_MS })
  })
  afterAll(() => fixture[Symbol.asyncDispose]())

  const says = async (body: object) => {
    const outcome = await bus.publish({ subject: bus.subjects.custody('maria'), data: encode({ v: 1, ...body }) })
    return outcome.kind === 'stored' ? outcome.sequence : 0
  }
  const verified = async (through = bus, save?: string) => {
    const { shown, counts, remarks } = await verifyLive(through, { id_window_ms: WINDOW_MS, save })
    // A story's digest is none.
    return { faults: shown.filter(({ rule }) => rule !== 'digest'), remarks, passes: counts.passes }
  }

  it('what leaves the stream behind the archive before it is read is read from the archive, and what ends later is not missing', async () => {
    for (const n of [1, 2, 3]) await new Story(bus, `read-too-late-0${n}`).whole()
    const open = new Story(bus, 'ends-meanwhile-01')
    await open.request()
    await open.work()
    let read = 0
    const meanwhile = async () => {
      await open.returns()
      await fillTo(bus, SEGMENT_SIZE)
      await until(() => audit.stats().deleted_to >= 1, { what: 'segment 0 is done with', ...PATIENT })
    }
    const through = replaced(bus, {
      now: () => bus.now() + (read > 0 ? HOUR_MS : 0),
      follow(options: Parameters<Bus['follow']>[0], onMessage: Parameters<Bus['follow']>[1]) {
        if (options.filters) return bus.follow(options, onMessage)
        return bus.follow(options, async (stored: StoredMessage, fact: Fact) => {
          // The server sends what it had when it was asked; it is asked for a part of it at a time.
          if (read++ === 1) await meanwhile()
          if (read <= 1 || (await bus.journal.message(stored.sequence))) return onMessage(stored, fact)
        })
      },
    })
    expect(await verified(through)).toEqual({ faults: [], remarks: 0, passes: 4 })
    expect(read).toBeGreaterThan(1)
    expect(await verified()).toEqual({ faults: [], remarks: 0, passes: 4 })
  }, 120_000)

  it('segments that retention removes between one page and the next are told by events behind what is read', async () => {
    for (const k of [1, 2]) {
      await new Story(bus, `goes-meanwhile-0${k}`).whole()
      await fillTo(bus, (k + 1) * SEGMENT_SIZE)
    }
    await until(() => audit.stats().deleted_to >= 3, { what: 'segments 0 to 2 are done with', ...PATIENT })
    const manifest = await Manifest.open(bus)
    const first = await manifest.entry(1)
    const objects = await bus.objects(ARCHIVE_BUCKET)
    let asked = 0
    // Until then all of them are held.
    const hold = await says({ kind: 'hold', scope: { session: 'session-1' }, reason: 'dispute' })
    const store = await PolicyStore.open(await fixture.connect('maria'))
    await store.publish({ document: { audit: { retention_days: 10 / 86_400_000 } }, base: 0 })
    const meanwhile = async () => {
      await says({ kind: 'release', hold })
      await until(async () => (await objects.list()).every((name) => name.endsWith('.kept')), {
        what: 'all of them are removed',
        ...PATIENT,
      })
    }
    const through = replaced(bus, {
      async objects(bucket: string) {
        if (bucket !== ARCHIVE_BUCKET) return bus.objects(bucket)
        const get = async (name: string) => {
          if (name === first?.object && asked++ === 0) await meanwhile()
          return objects.get(name)
        }
        return replaced(objects, { get })
      },
    })
    const folder = await mkdtemp(join(tmpdir(), 'passover-saved-'))
    expect(await verified(through, folder)).toEqual({ faults: [], remarks: 0, passes: 4 })
    // What was saved meanwhile ends before the events that tell of it.
    const { shown, remarked } = await verifyArchive(folderArchive(folder), { id_window_ms: WINDOW_MS })
    await rm(folder, { recursive: true })
    expect(shown.filter(({ rule }) => rule !== 'digest')).toEqual([])
    expect(remarked.map(({ segment }) => segment)).toEqual([1, 2])
    expect(asked).toBeGreaterThan(0)
    expect(await verified()).toEqual({ faults: [], remarks: 0, passes: 0 })
  }, 120_000)
})
