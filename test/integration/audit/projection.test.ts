import type { AuditRunning } from '@passover/audit'
import { decode, PolicyStore } from '@passover/bus'
import { violationBody } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Story, type StoryOptions } from '../../support/builders/story.js'
import { publishUpon } from '../../support/dispatcher/policies.js'
import { type AuditFixture, auditFixture } from '../../support/fixtures/audit.js'
import { until } from '../../support/processes/until.js'

/** The projection: one record a pass, whatever became of it (docs/architecture/audit-archive.md#records, P4). */
describe('audit: the record of a pass', () => {
  let fixture: AuditFixture
  let audit: AuditRunning
  let count = 0

  beforeAll(async () => {
    fixture = await auditFixture()
    await fixture.register('audit', 'alice', 'scout')
    audit = await fixture.audit({ open_ms: 300, request_ms: 600 })
  })
  afterAll(() => fixture[Symbol.asyncDispose]())

  const story = (options?: StoryOptions) => new Story(fixture.bus, `given-id-${String(++count).padStart(4, '0')}`, options)
  const recordOf = async (of: Story) => {
    await audit.settled()
    const found = [...(await fixture.records()).entries()].filter(([key]) => key.endsWith(`.${of.key.id}`))
    expect(found.length).toBeLessThanOrEqual(1)
    return found[0]?.[1]
  }
  const violationsOf = async (of: Story) =>
    (await fixture.bus.journal.history(of.key))
      .filter(({ subject }) => subject.includes('.violation.'))
      .map(({ data }) => {
        const decoded = decode(data)
        return violationBody.parse(decoded.ok ? decoded.value : undefined)
      })

  it('a completed pass', async () => {
    const pass = await story({ session_id: 'session 7' }).whole()
    const record = await recordOf(pass)
    expect(record).toMatchObject({
      status: 'returned',
      session_id: 'session 7',
      attempt: 1,
      reason: 'review_changes',
      priority: 'medium',
      key: pass.key,
      sequences: { requests: [pass.sequences[0]], work: pass.sequences[1], return: pass.sequences[2], last: pass.sequences[2] },
      entry: { status: 'completed', returned: true, applied: false, session_id: 'session 7', pass_over_id: pass.key.id },
    })
    expect(record?.error).toBeUndefined()
    expect([...(await fixture.records()).keys()].some((key) => /^\d{4}-\d\d\.x[0-9a-f]{32}\.alice\.audit\./.test(key))).toBe(true)
  })

  it('a refusal tells what was asked, though no control frame does', async () => {
    const pass = story({ session_id: 'refused-1' })
    await pass.request()
    await pass.ends({ code: 'E004', message: 'the pair is disabled' })
    expect(await recordOf(pass)).toMatchObject({
      status: 'refused',
      session_id: 'refused-1',
      error: { code: 'E004' },
      entry: { status: 'refused', reason: 'review_changes' },
      sequences: { requests: [pass.sequences[0]] },
    })
  })

  it('a time-out, a cancel, a crash', async () => {
    for (const [code, status, audited] of [
      ['E010', 'timed_out', 'timed_out'],
      ['E043', 'cancelled', 'cancelled'],
      ['E011', 'returned', 'failed'],
    ] as const) {
      const pass = story()
      await pass.request()
      await pass.work()
      await pass.ends({ code, message: 'ended' })
      expect(await recordOf(pass)).toMatchObject({ status, error: { code }, entry: { status: audited, returned: false } })
    }
  })

  it('held, approved, worked, applied: decisions and application are in the record', async () => {
    const pass = story({ policy: { approvers: ['maria'] } })
    await pass.request()
    await pass.held()
    await pass.decides('dispatch', 'peter', 'approve')
    await pass.decides('dispatch', 'maria', 'approve')
    await pass.work()
    await pass.returns()
    await pass.applied('maria')
    const record = await recordOf(pass)
    expect(record?.decisions.map(({ person, counts }) => [person, counts])).toEqual([
      ['peter', false],
      ['maria', true],
    ])
    expect(record).toMatchObject({
      entry: { applied: true, applied_by: 'maria' },
      metadata: { applied: true },
      sequences: { held: pass.sequences[1], last: pass.sequences[6] },
    })
  })

  it('a second attempt, a late output, progress that is not recorded', async () => {
    const pass = story()
    await pass.request()
    await pass.work()
    await pass.fence(2)
    await pass.returns({}, { attempt: 2 })
    const late = await pass.event('late', 'audit', { attempt: 1, output: { text: 'too late' } })
    await pass.event('progress', 'audit', { attempt: 1, message: 'still there' })
    expect(await recordOf(pass)).toMatchObject({ attempt: 2, sequences: { fences: [pass.sequences[2]], late: [late], last: late } })
  })

  it('an output that fails the schema reads as E021, one of another pass as E013, bytes that say nothing as E021', async () => {
    for (const [output, code] of [
      [{ status: 'odd' }, 'E021'],
      [{ return_to: 'mallory' }, 'E013'],
      [{ artifacts: 'none' }, 'E021'],
    ] as const) {
      const pass = story()
      await pass.request()
      await pass.work()
      await pass.returns(output)
      expect(await recordOf(pass)).toMatchObject({ error: { code }, entry: { returned: false } })
    }
  })

  it('an artifact that travels as a part is counted, not fetched', async () => {
    const pass = await story().whole({ artifacts: [{ part: 'artifact:0' }] as never })
    const record = await recordOf(pass)
    expect(record?.error).toBeUndefined()
    expect(record?.entry?.artifacts_count).toBe(1)
  })

  it('a pass that stays open is written as open, and again when it ends; a request that nobody answers as requested', async () => {
    const open = story()
    await open.request()
    await open.work()
    const asked = story({ session_id: 'asked-1' })
    await asked.request()
    const status = async (of: Story) => (await recordOf(of))?.status
    await until(async () => (await status(open)) === 'waiting_for_return', { what: 'written as open' })
    await until(async () => (await status(asked)) === 'requested', { what: 'written as requested' })
    expect(audit.stats()).toMatchObject({ open: 1, requests: 0 })
    await open.returns()
    await asked.work()
    await asked.returns()
    expect([await status(open), await status(asked)]).toEqual(['returned', 'returned'])
    expect(audit.stats().open).toBe(0)
  })

  it('a second return and a fence after it: the first counts, each is one violation', async () => {
    const pass = await story().whole()
    const fence = await pass.fence(2, false)
    const second = await pass.returns({ status: 'failed' }, { guarded: false })
    await audit.settled()
    await audit.settled()
    expect(await violationsOf(pass)).toEqual([
      { v: 1, sequence: fence, what: 'a fence after the return' },
      { v: 1, sequence: second, what: 'a second return' },
    ])
    expect(await recordOf(pass)).toMatchObject({ entry: { status: 'completed' }, violations: [{ sequence: fence }, { sequence: second }] })
  })

  it('a return for an unknown pass is E020, and no record stands for it', async () => {
    const pass = story()
    const sequence = await pass.returns({}, { guarded: false })
    await audit.settled()
    const [violation] = await violationsOf(pass)
    expect(violation).toMatchObject({ sequence, what: expect.stringMatching(/^E020/) })
    expect(await recordOf(pass)).toBeUndefined()
  })

  it('a decision by an agent does not count and is a violation', async () => {
    const pass = story({ policy: { approvers: undefined as never } })
    await pass.request()
    await pass.held()
    const sequence = await pass.decides('dispatch', 'audit', 'approve')
    const other = await pass.decides('dispatch', 'scout', 'approve')
    await audit.settled()
    await audit.settled()
    expect((await violationsOf(pass)).map(({ sequence: of }) => of)).toEqual([sequence, other])
    await pass.decides('dispatch', 'maria', 'approve')
    await pass.work()
    await pass.returns()
    expect((await recordOf(pass))?.decisions.map(({ person, counts }) => [person, counts])).toEqual([
      ['audit', false],
      ['scout', false],
      ['maria', true],
    ])
  })

  it('bytes of every kind do not stop the reader', async () => {
    const { bus } = fixture
    const pass = story()
    const junk = [new Uint8Array(), new Uint8Array([0xc1, 0xff]), Buffer.from('{'), Buffer.from('[]'), Buffer.from('null')]
    for (const data of junk) {
      for (const subject of [
        bus.subjects.request('audit', 'alice'),
        bus.subjects.held(story().key),
        bus.subjects.work(story().key, 'low'),
        bus.subjects.return(story().key, 'passover'),
        bus.subjects.event(pass.key, 'applied', 'alice'),
        bus.subjects.decision(pass.key, 'apply', 'maria'),
      ]) {
        expect((await bus.publish({ subject, data, headers: { 'Passover-Attempt': '-1', 'Passover-Request': 'x' } })).kind).toBe('stored')
      }
    }
    await pass.whole()
    expect(await recordOf(pass)).toMatchObject({ status: 'returned' })
  })

  it('log_all_passes: false writes no record', async () => {
    await using quiet = await auditFixture()
    const running = await quiet.audit({ log_all_passes: false })
    await new Story(quiet.bus, 'given-id-quiet').whole()
    await running.settled()
    expect((await quiet.records()).size).toBe(0)
  })

  it('log_all_passes: false in the policy writes no record from then on, also after a restart; one that is there stays true', async () => {
    await using quiet = await auditFixture()
    const running = await quiet.audit({ open_ms: 50 })
    const records = async () => [...(await quiet.records()).values()]
    const open = new Story(quiet.bus, 'given-id-open')
    await open.request()
    await open.work()
    await until(async () => (await records()).length === 1, { what: 'the open pass has a record' })
    const maria = await quiet.connect('maria')
    await publishUpon(await PolicyStore.open(maria), { document: { audit: { log_all_passes: false } } })
    let number = 0
    const adds = async (audit: AuditRunning) => {
      const before = (await records()).length
      await new Story(quiet.bus, `given-id-quiet-${number++}`).whole()
      await audit.settled()
      return (await records()).length - before
    }
    await until(async () => (await adds(running)) === 0, { what: 'the policy is seen' })
    await open.returns()
    await running.settled()
    expect((await records()).find(({ key }) => key.id === open.key.id)).toMatchObject({ status: 'returned' })
    await running.drain()
    expect(await adds(await quiet.audit())).toBe(0)
  })
})
