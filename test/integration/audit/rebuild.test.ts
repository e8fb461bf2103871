import { type AuditRunning, deletePass, PASSES_BUCKET, type Rebuilt, rebuildRecords, storedRecord } from '@passover/audit'
import { encode, PolicyStore } from '@passover/bus'
import { HEADER } from '@passover/schemas'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { fillLastSegment } from '../../support/assertions/stream.js'
import { Story, type StoryOptions } from '../../support/builders/story.js'
import { publishUpon } from '../../support/dispatcher/policies.js'
import { type AuditFixture, auditFixture, replaced } from '../../support/fixtures/audit.js'

const RULES = { id_window_ms: 3_600_000, names: 'unverified' as const }

/** `passover audit rebuild`: the bucket as the stored messages say, byte for byte. */
describe('audit: rebuilding the records', () => {
  let fixture: AuditFixture
  let audit: AuditRunning
  let count = 0
  beforeEach(async () => {
    count = 0
    fixture = await auditFixture()
    await fixture.register('audit', 'alice', 'scout')
    audit = await fixture.audit({ open_ms: 200, request_ms: 400 })
  })
  afterEach(() => fixture[Symbol.asyncDispose]())

  const story = (options?: StoryOptions) => new Story(fixture.bus, `built-id-${String(++count).padStart(5, '0')}`, options)
  const rebuild = (source: 'archive' | 'stream' = 'archive'): Promise<Rebuilt> => rebuildRecords(fixture.bus, { source, rules: RULES })

  /** Passes of every kind that the audit makes records of in different ways. */
  async function everyKind(): Promise<Story[]> {
    const plain = await story({ session_id: 'session 1' }).whole()
    const refused = story({ session_id: 's-2' })
    await refused.request()
    await refused.ends({ code: 'E004', message: 'disabled' })
    const held = story({ policy: { approvers: ['maria'] } })
    await held.request()
    await held.held()
    await held.decides('dispatch', 'peter', 'approve')
    await held.decides('dispatch', 'maria', 'approve')
    await held.work()
    await held.fence(2)
    await held.returns({}, { attempt: 2 })
    await held.applied('maria')
    const wrong = story()
    await wrong.request()
    await wrong.work()
    await wrong.returns({ status: 'odd' })
    const twice = await story().whole()
    await twice.returns({ status: 'failed' }, { guarded: false })
    await audit.settled()
    await audit.settled()
    return [plain, refused, held, wrong, twice]
  }

  /** Fills the last segment, so that what was stored before is in a sealed one. */
  async function seal(): Promise<void> {
    await fillLastSegment(fixture.bus)
    await audit.settled()
  }

  it.each(['archive', 'stream'] as const)(
    'tampered, deleted and invented records are mended from the %s, the others not touched',
    async (source) => {
      const stories = await everyKind()
      const before = await fixture.recordBytes()
      expect(before.size).toBe(stories.length)
      expect(await rebuild(source)).toMatchObject({ passes: 5, unchanged: 5, rewritten: 0, removed: 0 })
      const table = await fixture.bus.table(PASSES_BUCKET, z.any())
      const [first, second, third] = [...before.keys()].map((subject) => subject.replace(`$KV.${PASSES_BUCKET}.`, ''))
      const records = await fixture.bus.table(PASSES_BUCKET, storedRecord)
      const record = (await records.get(first ?? ''))?.value
      await table.put(first ?? '', { ...record, reason: 'something else' })
      // As if it knew more than everything.
      await table.put(second ?? '', {
        ...(await records.get(second ?? ''))?.value,
        sequences: { requests: [], fences: [], last: 1_000_000 },
      })
      await table.delete(third ?? '')
      await table.put('2026-11.-.alice.audit.invented-id', {
        ...record,
        key: { originator: 'alice', subagent: 'audit', id: 'invented-id' },
      })
      await table.put('2026-11.-.alice.audit.no-record-at-all', 'nonsense')
      expect(await rebuild(source)).toMatchObject({ passes: 5, unchanged: 2, rewritten: 3, removed: 2, kept: 0 })
      const after = await fixture.recordBytes()
      expect(new Map([...after].sort())).toEqual(new Map([...before].sort()))
    },
  )

  it.each(['archive', 'stream'] as const)(
    'writes no record of an id whose request was refused as malformed, and deletes one that was written, from the %s',
    async (source) => {
      const { bus } = fixture
      const refused = story({ session_id: 's1' })
      const sequence = await refused.request()
      const key = { ...refused.key, id: bus.subjects.badId(sequence) }
      const outcome = await bus.publish({
        subject: bus.subjects.return(key, 'passover'),
        headers: { [HEADER.request]: String(sequence), [HEADER.code]: 'E005', [HEADER.attempt]: '0' },
        data: encode({ v: 1, error: { code: 'E005', message: 'malformed' } }),
        guard: { subject: bus.subjects.journal(key), sequence: 0 },
      })
      expect(outcome.kind).toBe('stored')
      await audit.settled()
      if (source === 'archive') await seal()
      const before = await fixture.recordBytes()
      expect([...before.keys()]).toEqual([expect.stringContaining(key.id)])
      // Later than the time for which a rebuild leaves open passes to the audit.
      const later = replaced(bus, { now: () => Date.now() + 60_000 })
      const again = () => rebuildRecords(later, { source, rules: RULES })
      expect(await again()).toMatchObject({ passes: 1, unchanged: 1, rewritten: 0, removed: 0 })

      const table = await bus.table(PASSES_BUCKET, storedRecord)
      for await (const { key: own, value } of table.entries())
        await table.put(own.replace(key.id, refused.key.id), { ...value, key: refused.key } as never)
      expect(await again()).toMatchObject({ passes: 1, rewritten: 0, removed: 1 })
      expect(await fixture.recordBytes()).toEqual(before)
    },
  )

  it('from the archive also where the stream no longer holds the messages', async () => {
    const stories = await everyKind()
    await seal()
    const before = await fixture.recordBytes()
    await audit.drain()
    for (const { key } of stories) await deletePass(fixture.bus, key, { rules: RULES })
    expect((await fixture.bus.journal.history(stories[0]?.key ?? stories[1]!.key)).length).toBe(0)
    await fixture.deleteRecords()
    expect((await fixture.recordBytes()).size).toBe(0)
    expect(await rebuild('stream')).toMatchObject({ rewritten: 0 })
    expect(await rebuild('archive')).toMatchObject({ passes: stories.length, rewritten: stories.length })
    expect(new Map([...(await fixture.recordBytes())].sort())).toEqual(new Map([...before].sort()))
  })

  it('while passes go on: what is written meanwhile stays, and in the end all is as a rebuild would make it', async () => {
    let going = true
    const all: Story[] = []
    // New passes, and ever something more of those whose records are taken out and made anew just now.
    const traffic = (async () => {
      for (let turn = 0; going; turn++) {
        const some = Array.from({ length: 8 }, () => story({ session_id: `s-${count % 3}` }))
        await Promise.all(some.map((one) => one.whole()))
        all.push(...some)
        const older = all.slice(-24).filter((_, at) => at % 3 === turn % 3)
        await Promise.all(older.map((one) => (turn % 2 ? one.applied('maria') : one.event('late', 'audit', { attempt: 1, output: {} }))))
      }
    })()
    const touched = new Set<string>()
    const table = await fixture.bus.table(PASSES_BUCKET, storedRecord)
    for (let round = 0; round < 5; round++) {
      await audit.settled()
      const keys: string[] = []
      for await (const { key } of table.newest(20)) keys.push(key)
      for (const key of keys) touched.add(key.split('.').at(-1) ?? '')
      await Promise.all(keys.slice(0, 10).map((key) => table.delete(key)))
      await rebuild()
    }
    going = false
    await traffic
    await audit.settled()
    await rebuild()
    const before = await fixture.recordBytes()
    expect(before.size).toBe(count)
    // It was so: of passes that were made anew more was stored than their three messages.
    const records = [...(await fixture.records()).values()].filter(({ key }) => touched.has(key.id))
    expect(records.filter(({ sequences }) => (sequences.late?.length ?? 0) > 0).length).toBeGreaterThan(5)
    expect(await rebuild('stream')).toMatchObject({ passes: count, unchanged: count, rewritten: 0, removed: 0 })
    expect(await fixture.recordBytes()).toEqual(before)
  })

  it('makes no record of a pass that was to get none: by the policy of its time, or as the audit was told', async () => {
    const { bus } = fixture
    const maria = await fixture.connect('maria')
    const says = async (log_all_passes: boolean) => publishUpon(await PolicyStore.open(maria), { document: { audit: { log_all_passes } } })
    const [loud, quiet, again] = [story(), story(), story()]
    await loud.whole()
    await says(false)
    await quiet.whole()
    await says(true)
    await again.whole()
    await audit.settled()
    await audit.drain()
    await fixture.deleteRecords()
    const idsNow = async () => [...(await fixture.records()).values()].map(({ key }) => key.id).sort()
    expect(await rebuildRecords(bus, { source: 'stream', rules: RULES, log_all_passes: false })).toMatchObject({
      rewritten: 0,
      unlogged: 3,
    })
    expect(await idsNow()).toEqual([])
    for (const source of ['stream', 'archive'] as const)
      expect(await rebuild(source)).toMatchObject({ rewritten: source === 'stream' ? 2 : 0, unlogged: 1, removed: 0 })
    expect(await idsNow()).toEqual([loud.key.id, again.key.id].sort())
  })
})
