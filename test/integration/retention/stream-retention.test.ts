import { ARCHIVE_BUCKET, Manifest, SEGMENT_SIZE, verifyChain } from '@passover/archive'
import type { AuditRunning, AuditSettings } from '@passover/audit'
import { type Bus, encode } from '@passover/bus'
import { passAnswer, sha256 } from '@passover/schemas'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { fillTo, storedNow } from '../../support/assertions/stream.js'
import { registerAgent } from '../../support/builders/register.js'
import { Story, type StoryOptions } from '../../support/builders/story.js'
import { type AuditFixture, auditFixture } from '../../support/fixtures/audit.js'
import { until } from '../../support/processes/until.js'

const WINDOW_MS = 1_000
/** Once the first segment is sealed the audit says that removals are told from then on (decision 87). */
const REMOVALS = 'custody.passover'

/** Retention: exactly what is archived, closed, delivered and old leaves the stream, while traffic goes on (docs/architecture/audit-archive.md#deletion-from-the-stream). */
/** Registrations stay in the stream: the registry is what they tell. */
const isRegistration = (subject: string) => subject.startsWith('agent.')

describe('audit: retention', () => {
  let fixture: AuditFixture
  let bus: Bus
  let named = 0
  beforeEach(async () => {
    fixture = await auditFixture()
    bus = fixture.bus
    await fixture.register('alice', 'audit')
  })
  afterEach(() => fixture[Symbol.asyncDispose]())

  const story = (id: string, options: StoryOptions = {}) => new Story(bus, `${id}-${String(named++).padStart(4, '0')}`, options)
  const start = (settings: AuditSettings = {}) => fixture.audit({ id_window_ms: WINDOW_MS, ...settings })
  const left = async (...passes: Story[]) => {
    const texts = new Set(passes.flatMap(({ sequences }) => sequences))
    return (await storedNow(bus)).filter(({ sequence }) => texts.has(sequence)).map(({ sequence }) => sequence)
  }
  const doneTo = (audit: AuditRunning, k: number) =>
    until(() => audit.stats().deleted_to >= k, { what: `segments before ${k} are done with` })

  // Fails with deletion-eligibility.ts: 'later' for an open journal made 'go'; unsettledSince or deliveryDeadline giving undefined; awaiting_release left out.
  it('what is closed goes; what is open, held, awaits release, is dead or undelivered stays, and is in nobody’s way', async () => {
    await fixture.register('idle')
    const away = { name: 'away', roles: { originates: 'always' as const, subagent: false }, durable_returns: { from: 1 } }
    await registerAgent(bus, { ...away, registered_by: 'maria', updated_at: 1 })
    const audit = await start()
    const closed = ['plain', 'refused', 'attempts', 'applied'].map((id) => story(id))
    const [plain, refused, attempts, applied] = closed as [Story, Story, Story, Story]
    await plain.whole()
    await refused.request()
    await refused.ends({ code: 'E004', message: 'disabled' })
    await attempts.request()
    await attempts.work()
    await attempts.event('progress', 'audit', { attempt: 1 })
    await attempts.fence(2)
    await attempts.returns({}, { attempt: 2 })
    await attempts.returns({}, { attempt: 2, guarded: false })
    await applied.whole()
    await applied.applied()
    const [open, held, asked, dead] = ['stays-open', 'held', 'asked', 'dead'].map((id) => story(id)) as [Story, Story, Story, Story]
    await open.request()
    await open.work()
    await held.request()
    await held.held(600_000)
    await asked.request()
    const waits = story('awaits-release', { policy: { auto_return: false } })
    await waits.whole({ status: 'partial' })
    await dead.request()
    await dead.work()
    await dead.event('dead_letter', 'passover', { what: 'work', dead_sequence: 1, error: { code: 'E011', message: 'lost' } })
    await dead.ends({ code: 'E011', message: 'lost' })
    const undelivered = story('undelivered', { originator: 'away' })
    await undelivered.whole()
    const delivered = story('delivered', { originator: 'away' })
    await delivered.whole()
    await bus.publish({ subject: bus.subjects.acknowledged('away'), data: encode({ v: 1, returns: [delivered.sequences[2]] }) })
    await fillTo(bus, SEGMENT_SIZE)
    await doneTo(audit, 1)
    expect(await left(...closed, delivered)).toEqual([])
    const staying = [open, held, asked, waits, dead, undelivered]
    expect(await left(...staying)).toEqual(staying.flatMap(({ sequences }) => sequences).sort((a, b) => a - b))
    // All else of that segment is gone.
    const rest = (await storedNow(bus)).filter(({ sequence, subject }) => sequence < SEGMENT_SIZE && !isRegistration(subject))
    expect(rest.length).toBe(staying.flatMap(({ sequences }) => sequences).length)

    // What they waited for comes by, and with its segment they go.
    await open.returns()
    await held.ends({ code: 'E013', message: 'not approved' })
    await asked.ends({ code: 'E005', message: 'expired' })
    const returned = await bus.journal.message(waits.sequences[2] ?? 0)
    await waits.decides('return', 'maria', 'approve', sha256(returned?.data ?? new Uint8Array()))
    await dead.event('settled', 'maria', { action: 'drop' })
    await bus.publish({ subject: bus.subjects.acknowledged('away'), data: encode({ v: 1, returns: [undelivered.sequences[2]] }) })
    await fillTo(bus, 2 * SEGMENT_SIZE)
    await doneTo(audit, 2)
    const names = async () => (await Promise.all(staying.map(async (one) => ((await left(one)).length > 0 ? one.key.id : [])))).flat()
    await until(async () => (await names()).length === 0, { what: 'they are gone', deadline_ms: 30_000 })
    await until(() => audit.stats().undeleted === 0, { what: 'nothing is left behind' })
    const told = passAnswer.parse(await bus.ask({ op: 'pass', ...attempts.key, history: true }))
    expect(told.ok && told.passes[0]?.record?.status).toBe('returned')
    // Its six messages, and the violation that the audit recorded.
    expect(told.ok && told.passes[0]?.history?.length).toBe(7)
    expect(await verifyChain(await Manifest.open(bus), await bus.objects(ARCHIVE_BUCKET))).toMatchObject({ ok: true, segments: 2 })
  })

  it('a request in a later segment keeps its pass, which goes with that segment; an event keeps only itself', async () => {
    // Filling the segment must not take two windows.
    const audit = await start({ id_window_ms: 2 * WINDOW_MS })
    const [asked, cancelled, fromShell] = ['asked-again', 'cancelled', 'from-a-shell'].map((id) => story(id)) as [Story, Story, Story]
    for (const pass of [asked, cancelled, fromShell]) await pass.whole()
    await fillTo(bus, SEGMENT_SIZE)
    await asked.request()
    const cancel = await cancelled.event('cancel', 'alice', {})
    const { originator, subagent, id } = fromShell.key
    const data = new TextEncoder().encode(JSON.stringify({ id, reason: 'x', work_context: { objective: 'y' } }))
    await bus.publish({ subject: bus.subjects.request(subagent, originator), data })
    const { last } = await bus.bounds()
    await doneTo(audit, 1)
    expect(await left(asked, cancelled, fromShell)).toEqual([...asked.sequences, cancel, ...fromShell.sequences].sort((a, b) => a - b))
    await fillTo(bus, 2 * SEGMENT_SIZE)
    await doneTo(audit, 2)
    expect(await left(asked, cancelled, fromShell)).toEqual([])
    expect(
      (await storedNow(bus)).filter(({ sequence, subject }) => sequence <= last && subject !== REMOVALS && !isRegistration(subject)),
    ).toEqual([])
  })

  it('what was stored after a pass had gone goes too: a second answer, a late event, what is malformed, what is no message of ours', async () => {
    const audit = await start()
    const pass = await story('long-gone').whole()
    await fillTo(bus, SEGMENT_SIZE)
    await doneTo(audit, 1)
    expect(await left(pass)).toEqual([])
    const again = new Story(bus, pass.key.id)
    await again.request()
    await again.ends({ code: 'E005', message: 'expired' })
    await again.applied()
    // A request that its refusal names `bad-…`, and one whose id is another's.
    for (const data of ['{', JSON.stringify({ id: pass.key.id, reason: 'other' })]) {
      const outcome = await bus.publish({ subject: bus.subjects.request('audit', 'alice'), data: new TextEncoder().encode(data) })
      const sequence = outcome.kind === 'stored' ? outcome.sequence : 0
      const key = { ...pass.key, id: bus.subjects.badId(sequence) }
      const headers = { 'Passover-Request': String(sequence), 'Passover-Code': 'E005', 'Passover-Attempt': '0' }
      const error = encode({ v: 1, error: { code: 'E005', message: 'malformed' } })
      await bus.publish({
        subject: bus.subjects.return(key, 'passover'),
        headers,
        data: error,
        guard: { subject: bus.subjects.journal(key), sequence: 0 },
      })
    }
    for (const subject of [
      'return.alice.audit.x.audit',
      'event.alice.audit.none-such-1.progress.audit',
      '$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.PASSOVER.x',
    ])
      expect(await bus.publish({ subject, data: new TextEncoder().encode('{}') })).toMatchObject({ kind: 'stored' })
    const policy = await bus.publish({ subject: bus.subjects.policy('maria'), data: new Uint8Array(3) })
    await fillTo(bus, 2 * SEGMENT_SIZE)
    await doneTo(audit, 2)
    const rest = (await storedNow(bus)).filter(
      ({ sequence, subject }) => sequence < 2 * SEGMENT_SIZE && subject !== REMOVALS && !isRegistration(subject),
    )
    expect(rest).toEqual([{ sequence: policy.kind === 'stored' ? policy.sequence : 0, subject: 'policy.maria' }])
  })
})
