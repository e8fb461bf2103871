import { ARCHIVE_BUCKET, Manifest, type ManifestEntry, SEGMENT_SIZE, verifyChain } from '@passover/archive'
import type { Bus, ObjectStore, Table } from '@passover/bus'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { fillTo } from '../../support/assertions/stream.js'
import { checkOf, untilReady } from '../../support/attacks/broken-topology.js'
import { type AuditFixture, auditFixture, replaced } from '../../support/fixtures/audit.js'
import { until } from '../../support/processes/until.js'

const OBJECTS = `OBJ_${ARCHIVE_BUCKET}`
const SEGMENTS = 3

/** An archive that was lost in part: what it lacks is sealed again from the stream, and there is no gap (decision 55). */
describe('an archive that is sealed anew', () => {
  let fixture: AuditFixture
  let bus: Bus
  let manifest: Manifest
  let objects: ObjectStore
  let table: Table<ManifestEntry>

  beforeEach(async () => {
    fixture = await auditFixture()
    bus = fixture.bus
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
  const sealedAnew = () =>
    until(async () => (await manifest.all()).length === SEGMENTS, { what: 'all is sealed anew', deadline_ms: 60_000 })
  const loseObject = async (k: number) => objects.delete((await manifest.entry(k))?.object ?? 'none')

  it('has its gap filled by who starts next, and what stands after it stays', async () => {
    const before = await revisions()
    await table.delete(await keyOf(1))
    const next = await fixture.audit()
    await sealedAnew()
    await next.settled()
    await next.drain()
    const after = await revisions()
    expect([after[0], after[2]]).toEqual([before[0], before[2]])
    await isWhole()
  })

  it.each([
    ['an entry that cannot be read here', (key: string) => table.put(key, { v: 9 } as never)],
    [
      'a gap that the deleter has been in: what is left of it is not what it was',
      async (key: string) => {
        await table.delete(key)
        await table.put('retention.state', { v: 1, retention: { next: 2, holder: 'another', until: 0 } } as never)
      },
    ],
  ])('is not held up by %s: what comes is sealed', async (_, breaks) => {
    await breaks(await keyOf(1))
    const next = await fixture.audit()
    await fillTo(bus, (SEGMENTS + 1) * SEGMENT_SIZE)
    await until(async () => (await manifest.newest())?.k === SEGMENTS, { what: 'the next one is sealed' })
    await next.settled()
    expect((await manifest.all()).map(({ k }) => k)).toEqual([0, 2, 3])
  })

  it('forgets what has no objects and nothing else, and then it is sealed anew', async () => {
    const before = await revisions()
    await loseObject(1)
    await manifest.forgetLost(0, objects)
    expect(await revisions()).toEqual([before[0], undefined, before[2]])
    const next = await fixture.audit()
    await sealedAnew()
    await next.settled()
    const sealed = await revisions()
    await manifest.forgetLost(0, objects)
    expect(await revisions()).toEqual(sealed)
    await isWhole()
    await loseObject(2)
    await manifest.forgetLost(0, objects)
    expect(await manifest.newest()).toMatchObject({ k: 1 })
  })

  it('forgets nothing that was sealed while it looked', async () => {
    const before = await revisions()
    const { entry, revision } = (await manifest.standing(1))!
    let looks = 0
    const rewritten = async () => {
      const names = await objects.list()
      if (looks++ > 0) return names
      expect(await manifest.replace(entry, revision)).toBe(true)
      return names.filter((name) => name !== entry.object)
    }
    await manifest.forgetLost(0, replaced(objects, { list: rewritten }))
    const after = await revisions()
    expect([after[0], after[2]]).toEqual([before[0], before[2]])
    expect(after[1]).toBeGreaterThan(revision)
    expect(looks).toBe(2)
  })

  it.each([
    ['begins after what is whole', [1, 2], 2, []],
    ['begins before all of it', [0], 0, []],
    ['goes on from it', [2], 2, [0, 1]],
  ] as const)('where the stream %s', async (_, without, first, left) => {
    for (const k of without) await loseObject(k)
    await manifest.forgetLost(first, objects)
    expect((await manifest.all()).map(({ k }) => k)).toEqual(left)
    expect((await manifest.newest())?.k).toBe(left.at(-1))
  })

  it.each([OBJECTS, `KV_${ARCHIVE_BUCKET}`])('is whole after two audits lost %s and began anew, each when it saw it', async (bucket) => {
    const audits = [await fixture.audit({ stores_ms: 200 }), await fixture.audit({ stores_ms: 700 })]
    for (const audit of audits) await audit.settled()
    await fixture.deleteStream(bucket)
    const began = () => audits.every((audit) => checkOf(audit, 'reading').did?.what.includes('restarted from the beginning'))
    await until(began, { what: 'both begin anew', deadline_ms: 60_000 })
    await untilReady(audits)
    for (const audit of audits) await audit.settled()
    await sealedAnew()
    for (const audit of audits) await audit.drain()
    await isWhole()
  })
})
