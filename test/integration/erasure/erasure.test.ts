import { ARCHIVE_BUCKET, Manifest, SEGMENT_SIZE, verifyChain } from '@passover/archive'
import type { AuditSettings } from '@passover/audit'
import { type Bus, CONTENT_TYPE, encode } from '@passover/bus'
import { verifyLive } from '@passover/cli'
import { HEADER, type Part, passAnswer } from '@passover/schemas'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { fillLastSegment, fillTo } from '../../support/assertions/stream.js'
import { Story, type StoryOptions } from '../../support/builders/story.js'
import { type AuditFixture, auditFixture, replaced } from '../../support/fixtures/audit.js'
import { Erasable, MARKER, storedAnywhere, storedFiles, storeOf, told } from '../../support/fixtures/erasure.js'
import { until } from '../../support/processes/until.js'

const WINDOW_MS = 1_000

/** Erasure of a session (decision 100). */
describe('audit: erasure', () => {
  let fixture: AuditFixture
  let bus: Bus
  let to: Erasable
  beforeEach(async () => {
    fixture = await auditFixture()
    bus = fixture.bus
    to = new Erasable(bus)
    await fixture.register('alice', 'audit')
    await bus.ensureAgent('alice', { subagent: false, max_attempts: 3, lease_ms: 5_000 })
  })
  afterEach(() => fixture[Symbol.asyncDispose]())

  const start = (settings: AuditSettings = {}) => fixture.audit({ id_window_ms: WINDOW_MS, compression: 'none', ...settings })

  /** Messages of mallory, within its rights, that name large parts of others: an event, a return and a request. */
  const mentions = async (parts: Part[]): Promise<void> => {
    const ghost = () =>
      new Story(bus, `ghost-pass-${ghosts++}`, { originator: 'mallory', subagent: 'mallory', session_id: 'others', parts })
    await ghost().event('cancel', 'mallory', { parts })
    const headers = { [HEADER.contentType]: CONTENT_TYPE.msgpack }
    await bus.publish({ subject: bus.subjects.return(ghost().key, 'mallory'), headers, data: encode({ v: 1, parts }) })
    const refused = ghost()
    await refused.request()
    await refused.ends({ code: 'E005', message: 'not its own part' })
  }
  let ghosts = 0

  it('leaves nothing of what was said, anywhere on the server; tombstones stand for it, and nothing else is harmed', async () => {
    // What the audit deletes in its turn, it does not overwrite.
    const audit = await start({ deletes: false })
    const replica = await start({ deletes: false })
    const early = await to.fill('gone')
    // Others that know its hash name its large part, before and after the segment ends. Neither keeps it.
    await mentions(to.alone)
    // Its record may be written twice, and what it said first lies on disk until the server compacts (decision 100).
    const held = to.story('gone')
    await held.request()
    await held.held()
    const waits = async () => (await storedAnywhere(fixture, held.key.id)).some((place) => place.startsWith('KV_inbox '))
    await until(waits, { what: 'it waits for a person, and the inbox says so' })
    await held.ends({ code: 'E013', message: 'denied' })
    const shared = await to.large(`${MARKER} shared`, 'nothing secret')
    const other = await to.story('stays', { parts: shared }).whole()
    await fillTo(bus, SEGMENT_SIZE)
    // One more, in the segment that is open.
    const young = await to.secret('gone')
    const after = await to.story('stays').whole()
    await mentions(to.alone)
    await audit.settled()
    const { preview } = await to.custody('gone')
    // Of what is not sealed yet no segment is there to be written anew.
    expect(preview).toEqual({ originators: ['alice'], passes: 5, open: [], held: [], segments: 1, entries: 3 + 2 + 4 + 3 + 3, parts: 2 })
    const before = await fixture.recordBytes()
    expect((await storedAnywhere(fixture, MARKER)).length).toBeGreaterThan(5)
    expect((await told(bus, { session_id: 'gone', text: MARKER })).length).toBeGreaterThan(5)

    const erase = await to.says({ kind: 'erase', session: 'gone', reason: 'asked for' })
    for (const one of [audit, replica]) await one[Symbol.asyncDispose]()
    const erasing = await start()
    expect(await to.ended(erase)).toMatchObject({ state: 'done', passes: 5, entries: 15, parts: 1, by: 'maria' })
    expect(await storedAnywhere(fixture, MARKER)).toEqual([])
    expect(await told(bus, { session_id: 'gone', text: MARKER })).toEqual([])
    expect(passAnswer.parse(await bus.ask({ op: 'pass', ...young.key }))).toMatchObject({
      ok: false,
      error: { code: 'E041', message: expect.stringContaining('was erased on') },
    })
    expect((await to.custody('gone')).preview).toMatchObject({ passes: 0 })
    // What is another's is as it was, its large part included.
    const kept = [...(await fixture.recordBytes())]
    expect(kept).toEqual([...before].filter(([key]) => kept.some(([other]) => other === key)))
    expect(kept.length).toBe(2 + 2)
    for (const part of shared) await bus.parts.fetch(part)
    for (const part of to.alone) await expect(bus.parts.fetch(part)).rejects.toThrow('is missing')
    for (const one of [other, after]) expect(passAnswer.parse(await bus.ask({ op: 'pass', ...one.key })).ok).toBe(true)
    const verdict = await verifyLive(bus, { id_window_ms: WINDOW_MS })
    // A story's digest is none.
    expect(verdict.shown.filter(({ rule }) => rule !== 'digest')).toEqual([])
    expect(verdict.counts.erased).toBe(15)

    // Whoever seals what was open puts the digests in the place of what is gone.
    await erasing[Symbol.asyncDispose]()
    // One that is too large to be buffered is read anew.
    const again = await start({ buffer_bytes: 1 })
    await fillTo(bus, 2 * SEGMENT_SIZE)
    await again.settled()
    expect(await verifyChain(await Manifest.open(bus), await bus.objects(ARCHIVE_BUCKET))).toMatchObject({ ok: true, segments: 2 })
    expect((await verifyLive(bus, { id_window_ms: WINDOW_MS })).counts.erased).toBe(15)
    // Nor are the ids: a tombstone has their hashes alone. What the deleter had noted of passes that had to wait is another matter.
    const ids = [...early, young].map(({ key }) => key.id)
    expect((await storedAnywhere(fixture, ...ids)).filter((place) => !place.includes('KV_archive'))).toEqual([])
    // What the server had not written yet it writes when it ends.
    const store = await storeOf(fixture.nats)
    await fixture.nats.node.stop()
    expect(await storedFiles(store, MARKER)).toEqual([])
    // Fails where each of two audits writes what waits: the first of the two lies in the inbox's files.
    expect((await storedFiles(store, held.key.id)).filter((place) => place.includes('KV_inbox'))).toEqual([])
    await fixture.nats.node.restart()
  }, 180_000)

  // Fails where an id is taken for one pass: the newest use says the session, and all uses go with it.
  it('takes the pass of its session where an id without a time was used again, the older or the newer one', async () => {
    const audit = await start()
    const use = async (id: string, session_id: string) => new Story(bus, id, { session_id, reason: `${MARKER} ${session_id}` }).whole()
    await use('used-again-1', 'older-1')
    await use('used-again-2', 'older-2')
    await fillTo(bus, SEGMENT_SIZE)
    const isGone = async (id: string) => (await bus.journal.read({ originator: 'alice', subagent: 'audit', id })).length === 0
    const bothGone = async () => (await isGone('used-again-1')) && (await isGone('used-again-2'))
    await until(bothGone, { what: 'both have left the stream', deadline_ms: 60_000 })
    const newer = [await use('used-again-1', 'newer-1'), await use('used-again-2', 'newer-2')]
    await audit.settled()
    // Of a session that nobody erases now.
    await to.says({ kind: 'hold', scope: { session: 'older-2' }, reason: 'dispute' })
    for (const session of ['older-1', 'newer-2']) {
      expect((await to.custody(session)).preview).toMatchObject({ passes: 1, entries: 3, held: [] })
      const erase = await to.says({ kind: 'erase', session, reason: 'r' })
      expect(await to.ended(erase)).toMatchObject({ state: 'done', passes: 1, entries: 3 })
    }
    for (const session of ['older-1', 'newer-2']) expect(await told(bus, { session_id: session, text: session })).toEqual([])
    // What the deleter took out of the stream before may lie in the server's files for a while.
    const places = await storedAnywhere(fixture, `${MARKER} older-1`, `${MARKER} newer-2`)
    expect(places.filter((place) => place.includes(' '))).toEqual([])
    for (const session of ['newer-1', 'older-2']) expect((await to.custody(session)).preview).toMatchObject({ passes: 1, entries: 3 })
    for (const { key } of newer) expect(passAnswer.parse(await bus.ask({ op: 'pass', ...key })).ok).toBe(true)
    expect(passAnswer.parse(await bus.ask({ op: 'pass', ...(newer[0] as Story).key }))).toMatchObject({
      passes: [{ record: { session_id: 'newer-1' } }],
    })
    const verdict = await verifyLive(bus, { id_window_ms: WINDOW_MS })
    expect(verdict.shown.filter(({ rule }) => rule !== 'digest')).toEqual([])
  }, 120_000)

  it('takes a session together with its originator, and lets no agent postpone that', async () => {
    await fixture.register('mallory', 'scout')
    await start()
    const root = await to.secret('shared')
    const asked = await to.secret('shared')
    const below = (id: string, more: StoryOptions) =>
      new Story(bus, id, { originator: 'audit', subagent: 'scout', parent: root.key, reason: MARKER, ...more })
    // It claims another session than its root's.
    const child = await below('child-of-shared', { session_id: 'claimed', counted_session: 'shared' }).whole()
    const refused = below('refused-child', { session_id: 'shared' })
    await refused.request()
    await refused.ends({ code: 'E004', message: 'no' })
    const theirs = new Story(bus, 'of-mallory', { originator: 'mallory', session_id: 'shared' })
    await theirs.request()
    await theirs.work()
    const unnamed = await to.says({ kind: 'erase', session: 'shared', reason: 'r' })
    expect(await to.ended(unnamed)).toMatchObject({ state: 'refused', why: expect.stringContaining('alice, mallory have a session') })
    expect((await to.custody('shared')).preview).toMatchObject({ originators: ['alice', 'mallory'], passes: 0 })
    expect((await to.custody('shared', 'alice')).preview).toMatchObject({ passes: 4, open: [] })
    expect((await to.custody('shared', 'mallory')).preview).toMatchObject({ passes: 1, open: [expect.stringContaining('of-mallory')] })

    let ended = false
    // Faster than two windows pass: what the agents of the session store must not put the erasure off.
    const disturb = async () => {
      while (!ended) {
        for (const kind of ['progress', 'late', 'started'] as const) await root.event(kind, 'audit', { message: MARKER })
        await root.event('applied', 'alice', { applied: [MARKER], rejected: [] })
        await asked.request()
        await child.request()
        await refused.request()
        await to.custody()
      }
    }
    // So that it goes beyond the first segment: passes are deferred while their erasure is pending, and their ids are asked for again in a later one.
    await fillTo(bus, SEGMENT_SIZE - 100)
    const disturbed = disturb()
    const erase = await to.says({ kind: 'erase', session: 'shared', originator: 'alice', reason: 'asked for' })
    const [erasure] = await Promise.all([to.ended(erase).finally(() => (ended = true)), disturbed])
    expect(erasure).toMatchObject({ state: 'done', passes: 4, originator: 'alice' })
    const answer = passAnswer.parse(await bus.ask({ op: 'pass', ...root.key }))
    expect(answer).toMatchObject({ ok: false, error: { code: 'E041', message: expect.stringContaining('was erased on') } })
    for (const { key } of [root, asked, child, refused]) expect(await bus.journal.newest(bus.subjects.journal(key))).toBeUndefined()
    expect([...(await fixture.records()).keys()].filter((key) => key.includes('child-of-shared'))).toEqual([])
    expect(passAnswer.parse(await bus.ask({ op: 'pass', ...theirs.key })).ok).toBe(true)
    await theirs.returns()
    // What was stored after the tombstones leaves by itself; requests that came then are refused, as the dispatcher does.
    const anew = new Story(bus, asked.key.id, { session_id: 'shared' })
    await anew.request()
    await anew.ends({ code: 'E013', message: 'the policy forbids it' })
    for (const [id, session_id] of [
      ['child-of-shared', 'claimed'],
      ['refused-child', 'shared'],
    ] as const) {
      const again = below(id, { session_id })
      await again.request()
      await again.ends({ code: 'E013', message: 'its parent is not open' })
    }
    // How many messages the disturbance stored depends on the machine.
    await fillLastSegment(bus)
    const left = async () => {
      const places = (await storedAnywhere(fixture, root.key.id, asked.key.id, child.key.id, refused.key.id)).filter((place) =>
        place.startsWith('PASSOVER '),
      )
      return places.length === 0
    }
    await until(left, { what: 'nothing of the session is in the stream', deadline_ms: 60_000 })
    const verdict = await verifyLive(bus, { id_window_ms: WINDOW_MS })
    expect(verdict.shown.filter(({ rule }) => rule !== 'digest')).toEqual([])
  }, 120_000)

  // Fails where each refused pass of everybody is read whole: one agent stores thousands of them, and no erasure is ever done.
  it('reads of the refused passes of other agents at most one, in the archive or not, and finds all of its own', async () => {
    await fixture.register('mallory', 'scout')
    const read: string[] = []
    const through = (own: Bus) => {
      const history: Bus['journal']['history'] = (key, ...more) => {
        read.push(key.id)
        return own.journal.history(key, ...more)
      }
      return replaced(own, { journal: replaced(own.journal, { history }) })
    }
    const audit = await fixture.audit({ id_window_ms: WINDOW_MS }, through)
    const refuse = async (id: string, options: StoryOptions) => {
      const story = new Story(bus, id, { reason: MARKER, ...options })
      await story.request()
      await story.ends({ code: 'E004', message: 'no' })
      return story
    }
    const flood = async (from: number) => {
      for (let i = from; i < from + 20; i++)
        await refuse(`flood-${100 + i}`, { originator: 'mallory', session_id: i % 2 ? 'theirs' : 'wanted' })
      for (let i = from; i < from + 5; i++)
        await new Story(bus, `ghost-${100 + i}`, { originator: 'mallory', session_id: 'wanted' }).request()
    }
    await flood(0)
    const root = await to.secret('wanted')
    const own = [root, await refuse('own-refused', { session_id: 'wanted' })]
    await fillTo(bus, SEGMENT_SIZE)
    own.push(await refuse('own-younger', { session_id: 'wanted' }))
    own.push(await refuse('within-refused', { originator: 'audit', subagent: 'scout', session_id: 'wanted', parent: root.key }))
    // Says that it was asked for within a pass that it has no part in.
    await refuse('not-within', { originator: 'mallory', subagent: 'scout', session_id: 'wanted', parent: root.key })
    await flood(20)
    await audit.settled()
    const theirs = () => read.splice(0).filter((id) => /^(flood|ghost|not)-/.test(id))
    theirs()
    expect((await to.custody('nobody has it')).preview).toMatchObject({ originators: [], passes: 0 })
    expect(read.splice(0)).toEqual([])
    expect((await to.custody('wanted')).preview).toMatchObject({ originators: ['alice', 'mallory'], passes: 0 })
    expect(theirs()).toHaveLength(1)
    expect((await to.custody('wanted', 'alice')).preview).toMatchObject({ passes: 4, open: [], entries: 3 + 2 + 2 + 2 })
    expect(theirs()).toEqual([])
    const erase = await to.says({ kind: 'erase', session: 'wanted', originator: 'alice', reason: 'asked for' })
    expect(await to.ended(erase)).toMatchObject({ state: 'done', passes: 4, entries: 9 })
    for (const { key } of own) expect(await bus.journal.newest(bus.subjects.journal(key))).toBeUndefined()
    // An erasure that names mallory finds requests that wait, too.
    expect((await to.custody('wanted', 'mallory')).preview).toMatchObject({
      passes: 31,
      open: expect.arrayContaining([expect.stringContaining('ghost-1')]),
    })
  }, 120_000)

  it('keeps an ended pass in the stream for no event that an agent stores later', async () => {
    await start()
    const pass = await to.story('over').whole()
    await fillTo(bus, SEGMENT_SIZE)
    // In the segment that is open, which nobody seals.
    const late = await pass.event('progress', 'audit', { message: 'still here' })
    const isGone = async () => (await bus.journal.newest(bus.subjects.journal(pass.key))) === undefined
    await until(isGone, { what: 'the pass has left the stream', deadline_ms: 30_000 })
    expect(await bus.journal.message(late)).toBeDefined()
    await fillTo(bus, 2 * SEGMENT_SIZE)
    await until(async () => (await bus.journal.message(late)) === undefined, { what: 'the event has left it', deadline_ms: 30_000 })
  }, 120_000)

  it('a hold that is stored before the first tombstone is heard', async () => {
    const held = await to.story('late').whole()
    const published: string[] = []
    const through = (own: Bus) =>
      replaced(own, {
        publish: async (message: Parameters<Bus['publish']>[0]) => {
          if (message.subject === bus.subjects.custody('passover') && published.push('say') === 1) {
            await to.says({ kind: 'hold', scope: { session: 'late' }, reason: 'dispute' })
          }
          return await own.publish(message)
        },
      })
    const erase = await to.says({ kind: 'erase', session: 'late', reason: 'r' })
    await fixture.audit({ id_window_ms: WINDOW_MS }, through)
    expect(await to.ended(erase)).toMatchObject({ state: 'refused', why: expect.stringContaining('under legal hold'), entries: 0 })
    expect(await bus.journal.message(held.sequences[0] ?? 0)).toBeDefined()
  }, 120_000)

  it('is refused where a pass is open or held, and by an agent', async () => {
    await start()
    const open = to.story('busy')
    await open.request()
    await open.work()
    const held = await to.story('held').whole()
    const free = await to.story('free').whole()
    await to.says({ kind: 'hold', scope: { session: 'held' }, reason: 'dispute' })
    const busy = await to.says({ kind: 'erase', session: 'busy', reason: 'r' })
    const disputed = await to.says({ kind: 'erase', session: 'held', reason: 'r' })
    const byAgent = await to.says({ kind: 'erase', session: 'free', reason: 'r' }, 'alice')
    expect(await to.ended(busy)).toMatchObject({ state: 'refused', why: expect.stringContaining('still open') })
    expect(await to.ended(disputed)).toMatchObject({
      state: 'refused',
      why: expect.stringMatching(/^the session is under legal hold \d+$/),
    })
    expect(await to.ended(byAgent)).toMatchObject({ state: 'refused', why: 'alice is an agent' })
    for (const one of [open, held, free]) expect(passAnswer.parse(await bus.ask({ op: 'pass', ...one.key })).ok).toBe(true)
    const verdict = await verifyLive(bus, { id_window_ms: WINDOW_MS })
    expect(verdict.counts.erased).toBe(0)
  }, 120_000)
})
