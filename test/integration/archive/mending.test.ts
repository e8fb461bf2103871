import { ARCHIVE_BUCKET, Manifest, SEGMENT_SIZE } from '@passover/archive'
import { IndexesLost, rebuildRecords } from '@passover/audit'
import type { Bus, ObjectStore } from '@passover/bus'
import { verifyLive } from '@passover/cli'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { fillTo } from '../../support/assertions/stream.js'
import { Story } from '../../support/builders/story.js'
import { type AuditFixture, auditFixture } from '../../support/fixtures/audit.js'
import { until } from '../../support/processes/until.js'

const RULES = { id_window_ms: 3_600_000 }
const DAY_MS = 86_400_000

/** What an archive says that somebody could write to: what can be mended, and what cannot be told so that it is believed (decision 87). */
describe('an archive that somebody wrote to', () => {
  let fixture: AuditFixture
  let bus: Bus
  let objects: ObjectStore
  let manifest: Manifest
  beforeAll(async () => {
    fixture = await auditFixture()
    bus = fixture.bus
    await fixture.register('alice', 'audit')
    const audit = await fixture.audit()
    for (let n = 0; n < 5; n++) await new Story(bus, `mended-id-${n}`, { session_id: `session ${n % 2}` }).whole()
    await fillTo(bus, 2 * SEGMENT_SIZE)
    await audit.settled()
    const told = () => bus.journal.newest(bus.subjects.all('custody'))
    await until(async () => (await told()) !== undefined, { what: 'removals are told from here on' })
    await audit.drain()
    manifest = await Manifest.open(bus)
    objects = await bus.objects(ARCHIVE_BUCKET)
  })
  afterAll(() => fixture[Symbol.asyncDispose]())

  const segment = async () => {
    const entry = await manifest.entry(0)
    if (!entry) throw new Error('segment 0 is not sealed')
    return entry
  }
  /** What is wrong but for the digests of requests, which stories make up. */
  const faults = async () => (await verifyLive(bus, RULES)).shown.filter(({ rule }) => rule !== 'digest')
  const rebuild = () => rebuildRecords(bus, { source: 'archive', rules: RULES })

  it('has a lost or damaged index made anew from its segment, to the byte; verify names it, and says how', async () => {
    const { index } = await segment()
    const sealed = (await objects.get(index)) as Uint8Array
    const damaged = Buffer.from(sealed)
    damaged[100] = (damaged[100] ?? 0) ^ 1
    for (const bytes of [undefined, damaged, Buffer.from('nonsense')]) {
      if (bytes) await objects.put(index, bytes)
      else await objects.delete(index)
      const what = expect.stringMatching(/^index .*, but its entries are intact: `passover audit rebuild` rebuilds it from them$/)
      expect(await faults()).toEqual([{ segment: 0, rule: 'chain', what }])
      expect(await rebuild()).toMatchObject({ indexes: [0], passes: 5, unchanged: 5, removed: 0 })
      expect(Buffer.from((await objects.get(index)) ?? []).equals(sealed)).toBe(true)
      expect(await faults()).toEqual([])
    }
    expect((await rebuild()).indexes).toEqual([])
  })

  it('names a new index in the manifest where the very one that was sealed cannot be made', async () => {
    const standing = await manifest.standing(0)
    if (!standing) throw new Error('segment 0 is not sealed')
    await objects.delete(standing.entry.index)
    await manifest.replace({ ...standing.entry, index_sha256: 'a'.repeat(64) }, standing.revision)
    expect((await rebuild()).indexes).toEqual([0])
    const { index, index_sha256 } = await segment()
    expect(index).not.toBe(standing.entry.index)
    expect(index_sha256).toBe(standing.entry.index_sha256)
    expect(await faults()).toEqual([])
    const names = (await objects.list()).filter((name) => name.startsWith('0000000000'))
    expect(names.sort()).toEqual([standing.entry.object, index].sort())
  })

  it('keeps its records where segment and index are both damaged, and says so', async () => {
    const { index, object } = await segment()
    const [frames, rows] = [(await objects.get(object)) as Uint8Array, (await objects.get(index)) as Uint8Array]
    await objects.put(object, frames.subarray(0, frames.length - 10))
    await objects.delete(index)
    const before = await fixture.recordBytes()
    await expect(rebuild()).rejects.toThrow(IndexesLost)
    await expect(rebuild()).rejects.toThrow(/cannot be rebuilt: of segment 0 \(object .* differs from the sealed one/)
    expect(await fixture.recordBytes()).toEqual(before)
    await objects.put(object, frames)
    await objects.put(index, rows)
  })

  it('is not believed that a fresh segment was old enough to be removed, whatever its entry says', async () => {
    const standing = await manifest.standing(0)
    if (!standing) throw new Error('segment 0 is not sealed')
    const { entry } = standing
    let { revision } = standing
    const forge = async (more: Partial<typeof entry>) => {
      revision = (await manifest.replace({ ...entry, ...more }, revision)) ? ((await manifest.standing(0))?.revision ?? 0) : 0
      return (await verifyLive(bus, RULES)).shown.filter(({ rule }) => rule === 'retention').map(({ what }) => what)
    }
    const removed = { why: 'retention' as const, retention_days: 30 }
    const untold = 'was removed, but no event records it'
    const now = bus.now()
    // In time to come; with days that no policy said; with messages as old as need be.
    expect(await forge({ removed: { ...removed, at: now + 31 * DAY_MS } })).toEqual([
      untold,
      expect.stringMatching(/^records its removal on .*, but that record was stored earlier/),
      expect.stringMatching(/^was removed when its newest message was .* hours old: the defaults/),
    ])
    expect(await forge({ removed: { ...removed, at: now, retention_days: 1e-9 } })).toEqual([
      untold,
      expect.stringMatching(/hours old: the defaults/),
    ])
    // In the stream stands what it stood for: a forger would have to take that out, too.
    const aged = { first_time: now - 40 * DAY_MS, last_time: now - 39 * DAY_MS, removed: { ...removed, at: now } }
    expect(await forge(aged)).toEqual([untold])
    expect((await faults())[0]?.what).toMatch(/^was removed although \d+ of its messages are still in the stream, the first at 1$/)
    await manifest.replace(entry, revision)
    expect(await faults()).toEqual([])
  })

  it('is not taken for one that begins later where its first entries were taken out', async () => {
    const entry = await segment()
    const table = await bus.table(ARCHIVE_BUCKET, z.any())
    await table.delete('segment.0000000000')
    expect(await faults()).toEqual([
      {
        segment: 1,
        rule: 'chain',
        what: 'is the first entry in the archive, but the stream begins at 1: the entries between were removed from the archive',
      },
      { segment: 0, rule: 'retention', what: 'is missing before segment 1, the first in the archive: no event records its removal' },
    ])
    await table.put('segment.0000000000', entry)
    expect(await faults()).toEqual([])
  })
})
