import { ARCHIVE_BUCKET, Manifest, SEGMENT_SIZE, verifyChain } from '@passover/archive'
import { PASSES_BUCKET, rebuildRecords } from '@passover/audit'
import { type Bus, decode, type FollowOptions } from '@passover/bus'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Story } from '../../support/builders/story.js'
import { type AuditFixture, auditFixture, dyingAt, replaced } from '../../support/fixtures/audit.js'
import { until } from '../../support/processes/until.js'

/** A process that ends between two of its steps: what it had begun is done by the next, once. */
describe('audit: crashes between two steps', () => {
  let fixture: AuditFixture
  beforeEach(async () => {
    fixture = await auditFixture()
  })
  afterEach(() => fixture[Symbol.asyncDispose]())

  const entries = async () => (await Manifest.open(fixture.bus)).all()
  const ids = async () => [...(await fixture.records()).values()].map(({ key }) => key.id).sort()

  it('a segment is sealed while records of its passes are not yet written: the next process writes them', async () => {
    const { bus } = fixture
    const dying = await fixture.audit(
      { open_ms: 3_600_000, request_ms: 3_600_000 },
      dyingAt(PASSES_BUCKET, 'send', (key) => key.includes('lost-record')),
    )
    await new Story(bus, 'kept-record').whole()
    await new Story(bus, 'lost-record').whole()
    const refused = new Story(bus, 'refused-later')
    await refused.request()
    const open = new Story(bus, 'ended-later')
    await open.request()
    await open.work()
    await fill(bus, SEGMENT_SIZE)
    await until(async () => (await entries()).length === 1, { what: 'sealed' })
    expect((await entries())[0]?.resume).toBeLessThan(10)
    await dying.drain(0)
    expect(await ids()).toEqual(['kept-record'])
    const next = await fixture.audit()
    await refused.ends({ code: 'E004', message: 'disabled' })
    await open.returns()
    await next.settled()
    expect(await ids()).toEqual(['ended-later', 'kept-record', 'lost-record', 'refused-later'])
    const records = [...(await fixture.records()).values()]
    expect(records.find(({ key }) => key.id === 'refused-later')).toMatchObject({ status: 'refused', session_id: 'session-1' })
  })

  it('it ends between storing a segment and claiming it: sealed once, and what was stored in vain is swept', async () => {
    const { bus } = fixture
    const objects = await bus.objects(ARCHIVE_BUCKET)
    await fill(bus, SEGMENT_SIZE)
    const dying = await fixture.audit(
      {},
      dyingAt(ARCHIVE_BUCKET, 'create', () => true),
    )
    await until(async () => (await objects.list()).length === 2, { what: 'stored' })
    await dying.drain(0)
    expect(await entries()).toEqual([])
    const next = await fixture.audit()
    await next.settled()
    await next.drain()
    expect((await objects.list()).length).toBe(4)
    await fixture.audit()
    const [entry] = await entries()
    expect((await objects.list()).sort()).toEqual([entry?.object, entry?.index].sort())
    expect(await verifyChain(await Manifest.open(bus), objects)).toMatchObject({ ok: true, segments: 1 })
  })

  it('it ends between claiming a segment and saying so: the next goes on after it', async () => {
    const { bus } = fixture
    await fill(bus, 2 * SEGMENT_SIZE)
    const dying = await fixture.audit(
      {},
      dyingAt(ARCHIVE_BUCKET, 'put', (key) => key === 'head'),
    )
    await until(async () => (await entries()).length === 1, { what: 'claimed' })
    await dying.drain(0)
    const next = await fixture.audit()
    await next.settled()
    expect((await entries()).map(({ k }) => k)).toEqual([0, 1])
    expect(await verifyChain(await Manifest.open(bus), await bus.objects(ARCHIVE_BUCKET))).toMatchObject({ ok: true, segments: 2 })
  })

  // Fails with catchUp giving `to: 0`: the reader stands at the records that cannot be written.
  it('the archive does not wait for the projection: what is full at the start is sealed, however little of it is projected', async () => {
    const { bus } = fixture
    const passes = Array.from({ length: 600 }, (_, n) => new Story(bus, `not-projected-${n}`))
    for (let at = 0; at < passes.length; at += 50) await Promise.all(passes.slice(at, at + 50).map((pass) => pass.whole()))
    await fill(bus, 2 * SEGMENT_SIZE)
    const stuck = await fixture.audit(
      {},
      dyingAt(PASSES_BUCKET, 'send', () => true),
    )
    await until(async () => (await entries()).length === 2, { what: 'sealed', deadline_ms: 30_000 })
    const resumes = (await entries()).map(({ resume }) => resume)
    expect(Math.max(...resumes)).toBeLessThan(2_000)
    await stuck.drain(0)
    const next = await fixture.audit()
    await next.settled()
    expect((await ids()).length).toBe(passes.length)
    expect((await entries()).map(({ k, count }) => [k, count])).toEqual([
      [0, SEGMENT_SIZE - 1],
      [1, SEGMENT_SIZE],
    ])
    expect(await verifyChain(await Manifest.open(bus), await bus.objects(ARCHIVE_BUCKET))).toMatchObject({ ok: true, segments: 2 })
  })

  it('a rebuild that breaks off is begun again', async () => {
    const { bus } = fixture
    const first = await fixture.audit()
    const passes = Array.from({ length: 5 }, (_, n) => new Story(bus, `rebuilt-${n}-x`))
    for (const pass of passes) await pass.whole()
    await fill(bus, SEGMENT_SIZE)
    await first.settled()
    await first.drain()
    await fixture.deleteRecords()
    const dying = await fixture.audit(
      {},
      dyingAt(PASSES_BUCKET, 'send', (key) => !key.includes('rebuilt-3-x')),
    )
    await until(async () => (await ids()).length === 1, { what: 'one is rebuilt' })
    await dying.drain(0)
    const next = await fixture.audit()
    await next.settled()
    expect(await ids()).toEqual(passes.map(({ key }) => key.id))
    await until(async () => (await (await Manifest.open(bus)).rebuilding()) === undefined, { what: 'the end of the rebuild is noted' })
  })

  it('a pass that begins after a restart has in its record what was stored of it before, and a rebuild changes nothing', async () => {
    const { bus } = fixture
    const first = await fixture.audit({ deletes: false })
    const [early, decided] = ['applied-early', 'decided-early'].map((id) => new Story(bus, id)) as [Story, Story]
    await new Story(bus, 'whole-before').whole()
    await early.applied('maria')
    await decided.decides('dispatch', 'maria', 'approve')
    await fill(bus, SEGMENT_SIZE)
    await until(async () => (await entries()).length === 1, { what: 'sealed' })
    await first[Symbol.asyncDispose]()
    const reads: (number | undefined)[] = []
    const second = await fixture.audit({ deletes: false }, (own) =>
      replaced(own, {
        follow: (options: FollowOptions, ...more: [never]) => {
          if (options.in_gulps) reads.push(options.from)
          return own.follow(options, ...more)
        },
      }),
    )
    // It reads none of that again.
    expect(reads[0]).toBeGreaterThan(decided.sequences[0] as number)
    for (const story of [early, decided]) await story.whole()
    await second.settled()
    const records = [...(await fixture.records()).values()]
    expect(records.find(({ key }) => key.id === early.key.id)).toMatchObject({ application: { by: 'maria' } })
    expect(records.find(({ key }) => key.id === decided.key.id)?.decisions).toHaveLength(1)
    const rebuilt = await rebuildRecords(bus, { source: 'stream', rules: { id_window_ms: 3_600_000, names: 'unverified' } })
    expect(rebuilt).toMatchObject({ passes: 3, rewritten: 0, removed: 0 })
  })

  it('two replicas that see the same violation, and one that starts later, record it once', async () => {
    const { bus } = fixture
    const replicas = [await fixture.audit(), await fixture.audit()]
    const pass = await new Story(bus, 'doubly-returned').whole()
    const second = [await pass.returns({}, { guarded: false }), await pass.fence(2, false), await pass.returns({}, { guarded: false })]
    for (const replica of replicas) await replica.settled()
    const later = await fixture.audit()
    await later.settled()
    const violations = (await bus.journal.history(pass.key)).filter(({ subject }) => subject.includes('.violation.'))
    const named = violations.map(({ data }) => {
      const decoded = decode(data)
      return decoded.ok ? (decoded.value as { sequence: number }).sequence : undefined
    })
    expect(named).toEqual(second)
  })

  it('the server restarts while it reads: nothing is lost, and it goes on by itself', async () => {
    const { bus, nats } = fixture
    const audit = await fixture.audit()
    await new Story(bus, 'before-restart').whole()
    await nats.node.restart()
    await until(() => bus.connected, { what: 'connected again' })
    await until(async () => await new Story(bus, `after-restart-${Date.now()}`).whole(), { what: 'stored again' })
    await until(async () => (await ids()).length >= 2, { what: 'projected' })
    await until(() => audit.settled().then(() => true), { what: 'settled' })
    expect(await ids()).toEqual([expect.stringMatching(/^after-restart/), 'before-restart'])
  })
})

/** So many small messages, no passes. */
async function fill(bus: Bus, upTo: number): Promise<void> {
  while ((await bus.bounds()).last < upTo) {
    await Promise.all(
      Array.from({ length: 256 }, () => bus.publish({ subject: bus.subjects.acknowledged('alice'), data: new Uint8Array(100) })),
    )
  }
}
