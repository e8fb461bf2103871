import { ARCHIVE_BUCKET, Manifest, type ManifestEntry, SEGMENT_SIZE, verifyChain } from '@passover/archive'
import type { ObjectStore, Table } from '@passover/bus'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { type AuditFixture, auditFixture, replaced } from '../support/auditing.js'
import { checkOf, untilReady } from '../support/breaking.js'
import { fillTo } from '../support/stream.js'
import { until } from '../support/until.js'

const OBJECTS = `OBJ_${ARCHIVE_BUCKET}`
const SEGMENTS = 3

/** An archive that was lost in part: what it has no longer is sealed anew from the stream, and there is no gap (I3, decision 124). */
describe('an archive that is sealed anew', () => {
  let fixture: AuditFixture
  let manifest: Manifest
  let objects: ObjectStore
  let table: Table<ManifestEntry>

  beforeEach(async () => {
    fixture = await auditFixture()
    const { bus } = fixture
    manifest = await Manifest.open(bus)
    objects = await bus.objects(ARCHIVE_BUCKET)
    table = (await bus.table(ARCHIVE_BUCKET, z.any())) as Table<ManifestEntry>
    await fillTo(bus, SEGMENTS * SEGMENT_SIZE)
    const first = await fixture.audit()
    await until(async () => (await manifest.all()).length === SEGMENTS, { what: 'all is sealed' })
    await first.drain()
  })
  afterEach(() => fixture[Symbol.asyncDispose]())

  const keyOf = async (wanted: number) => {
    for await (const { key, value } of table.entries('segment.>')) if (value.k === wanted) return key
    throw new Error(`no segment ${wanted}`)
  }
  const revisions = async () => {
    const found = await Promise.all([0, 1, 2].map((k) => manifest.standing(k)))
    return found.map((one) => one?.revision)
  }
  const isWhole = async () => {
    expect((await manifest.all()).map(({ k }) => k)).toEqual([0, 1, 2])
    expect(await verifyChain(manifest, objects)).toMatchObject({ ok: true, segments: SEGMENTS })
  }

  it('has its gap filled by who starts next, and what stands after it stays', async () => {
    const before = await revisions()
    await table.delete(await keyOf(1))
    const next = await fixture.audit()
    await until(async () => await manifest.entry(1), { what: 'it is sealed' })
    await next.settled()
    await next.drain()
    const after = await revisions()
    expect([after[0], after[2]]).toEqual([before[0], before[2]])
    await isWhole()
  })

  it('forgets what has no objects, and keeps what another audit has sealed by then', async () => {
    const before = await revisions()
    const lost = (await manifest.entry(1))!
    await objects.delete(lost.object)
    await manifest.keepWhole(0, objects)
    expect(await revisions()).toEqual([before[0], undefined, undefined])
    expect(await manifest.newest()).toMatchObject({ k: 0 })
    const next = await fixture.audit()
    await next.settled()
    await until(async () => (await manifest.all()).length === SEGMENTS, { what: 'they are sealed anew' })
    const sealed = await revisions()
    await manifest.keepWhole(0, objects)
    expect(await revisions()).toEqual(sealed)
    await isWhole()
  })

  it('forgets nothing that was sealed while it looked', async () => {
    const entry = (await manifest.standing(2))!
    const rewritten = async () => {
      expect(await manifest.replace(entry.entry, entry.revision)).toBe(true)
      return (await objects.list()).filter((name) => name !== entry.entry.object)
    }
    await manifest.keepWhole(0, replaced(objects, { list: rewritten }))
    expect((await manifest.all()).map(({ k }) => k)).toEqual([0, 1, 2])
  })

  it('keeps nothing where the stream begins after what is whole', async () => {
    const lost = (await manifest.entry(1))!
    await objects.delete(lost.index)
    await manifest.keepWhole(2, objects)
    expect(await manifest.all()).toEqual([])
    expect(await manifest.newest()).toBeUndefined()
  })

  it.each([OBJECTS, `KV_${ARCHIVE_BUCKET}`])('is whole after two audits lost %s and began anew, each when it saw it', async (bucket) => {
    const audits = [await fixture.audit({ stores_ms: 200 }), await fixture.audit({ stores_ms: 700 })]
    for (const audit of audits) await audit.settled()
    await fixture.deleteStream(bucket)
    const began = () => audits.every((audit) => checkOf(audit, 'reading').did?.what.includes('began anew'))
    await until(began, { what: 'both begin anew', deadline_ms: 60_000 })
    await untilReady(audits)
    for (const audit of audits) await audit.settled()
    await until(async () => (await manifest.all()).length === SEGMENTS, { what: 'all is sealed anew', deadline_ms: 60_000 })
    for (const audit of audits) await audit.drain()
    await isWhole()
  })
})
