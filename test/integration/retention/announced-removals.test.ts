import { ARCHIVE_BUCKET, Manifest, SEGMENT_SIZE } from '@passover/archive'
import { type Bus, decode, PolicyStore } from '@passover/bus'
import { verifyLive } from '@passover/cli'
import { type CustodyBody, custodyBody } from '@passover/schemas'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { fillTo, storedNow } from '../../support/assertions/stream.js'
import { Story } from '../../support/builders/story.js'
import { type AuditFixture, auditFixture, replaced } from '../../support/fixtures/audit.js'
import { until } from '../../support/processes/until.js'

const WINDOW_MS = 1_000
/** 10 ms. */
const RETENTION_DAYS = 10 / 86_400_000
const PATIENT = { deadline_ms: 60_000 }

/** What retention takes out of the archive is told in the stream before (decision 87). */
describe('removals are told', () => {
  let fixture: AuditFixture
  let bus: Bus
  beforeEach(async () => {
    fixture = await auditFixture()
    bus = fixture.bus
    await fixture.register('alice', 'audit')
  })
  afterEach(() => fixture[Symbol.asyncDispose]())

  const keepsNothing = async () => {
    const store = await PolicyStore.open(await fixture.connect('maria'))
    expect(await store.publish({ document: { audit: { retention_days: RETENTION_DAYS } }, base: 0 })).toMatchObject({ kind: 'published' })
  }
  const said = async () => {
    const found: CustodyBody[] = []
    await using reader = await bus.follow({ filters: [bus.subjects.all('custody')] }, ({ data }) => {
      const body = decode(data)
      found.push(custodyBody.parse(body.ok && body.value))
    })
    await reader.caughtUp
    return found
  }
  const runs = async () =>
    (await said()).flatMap((body) => (body.kind === 'removed' ? body.segments.map(({ from, to }) => [from, to]) : []))
  const removed = async () => (await (await Manifest.open(bus)).all()).filter((entry) => entry.removed).map(({ k }) => k)
  const isSealed = async (k: number) => {
    const manifest = await Manifest.open(bus)
    await until(async () => (await manifest.entry(k)) !== undefined, { what: `segment ${k} is sealed`, ...PATIENT })
  }
  /** A story's digest is none. */
  const verified = async () => {
    const { shown, remarks, removed: gone } = await verifyLive(bus, { id_window_ms: WINDOW_MS })
    return { faults: shown.filter(({ rule }) => rule !== 'digest').map(({ segment, what }) => [segment, what]), remarks, gone }
  }
  /** By hand, as who writes the archive could. */
  const mark = async (k: number) => {
    const manifest = await Manifest.open(bus)
    const standing = await manifest.standing(k)
    if (!standing) throw new Error(`segment ${k} is not sealed`)
    const gone = { why: 'retention' as const, at: bus.now(), retention_days: RETENTION_DAYS }
    expect(await manifest.replace({ ...standing.entry, removed: gone }, standing.revision)).toBe(true)
  }

  it('an audit that dies between the event and the removal: the next ones finish it, and tell nothing twice', async () => {
    let dies = true
    const through = (own: Bus) =>
      replaced(own, {
        async table(...args: Parameters<Bus['table']>) {
          const table = await own.table(...args)
          if (args[0] !== ARCHIVE_BUCKET) return table
          const update = (key: string, ...more: unknown[]) => {
            if (dies && key.startsWith('segment.')) throw new Error('it died')
            return (table.update as (...all: unknown[]) => unknown).call(table, key, ...more)
          }
          return replaced(table, { update })
        },
      })
    const settings = { id_window_ms: WINDOW_MS }
    const dying = await fixture.audit(settings, through)
    await new Story(bus, 'told-and-gone-01').whole()
    await keepsNothing()
    await fillTo(bus, SEGMENT_SIZE)
    await until(async () => (await runs()).length > 0, { what: 'its removal is told', ...PATIENT })
    expect(await removed()).toEqual([])
    // What is told and still stands is no fault.
    expect(await verified()).toEqual({ faults: [], remarks: 0, gone: undefined })
    await dying[Symbol.asyncDispose]()
    dies = false
    const both = await Promise.all([fixture.audit(settings), fixture.audit(settings)])
    await until(async () => (await removed()).length === 1, { what: 'segment 0 is removed', ...PATIENT })
    expect(await runs()).toEqual([[0, 0]])
    expect(await verified()).toEqual({ faults: [], remarks: 0, gone: { segments: 1, up_to: expect.any(Number) } })
    expect(await said()).toMatchObject([
      { kind: 'removals', untold: [] },
      { kind: 'removed', policy: 1, retention_days: RETENTION_DAYS },
    ])
    for (const audit of both) await audit[Symbol.asyncDispose]()

    // With old times, and though the policy keeps nothing: no event tells of it.
    await fixture.audit({ ...settings, deletes: false })
    await fillTo(bus, 2 * SEGMENT_SIZE)
    await isSealed(1)
    await mark(1)
    expect((await verified()).faults).toContainEqual([1, 'was removed, but no event records it'])
  }, 180_000)

  it('what an older audit removed is a remark; the first that tells of removals says so once, and from then on it is none', async () => {
    await fixture.audit({ id_window_ms: WINDOW_MS, deletes: false })
    await fillTo(bus, SEGMENT_SIZE)
    await isSealed(0)
    await keepsNothing()
    const own = (await storedNow(bus)).filter(({ sequence }) => sequence < SEGMENT_SIZE)
    await Promise.all(own.map(({ sequence }) => bus.journal.deleteMessage(sequence)))
    // Registrations went with the rest: the registry is what they tell.
    await fixture.register('alice', 'audit')
    await mark(0)
    const gone = { segments: 1, up_to: expect.any(Number), untold: 1 }
    expect(await verified()).toEqual({ faults: [], remarks: 1, gone })
    await fixture.audit({ id_window_ms: WINDOW_MS })
    await until(async () => (await said()).length > 0, { what: 'removals are told', ...PATIENT })
    expect(await said()).toMatchObject([{ kind: 'removals', untold: [{ from: 0, to: 0 }] }])
    expect(await verified()).toEqual({ faults: [], remarks: 0, gone })
  }, 180_000)
})
