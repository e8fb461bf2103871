import { type AuditRunning, PASSES_BUCKET, recordFilter, storedRecord } from '@passover/audit'
import type { Bus } from '@passover/bus'
import { passError } from '@passover/core'
import { indexAnswer, type PassQuery, type PassRecord, type QueryAnswer, queryAnswer, statsAnswer } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Story, type StoryOptions } from '../../support/builders/story.js'
import { type AuditFixture, auditFixture } from '../../support/fixtures/audit.js'
import { until } from '../../support/processes/until.js'

type Page = Extract<QueryAnswer, { ok: true }>

/** Asking for recorded passes, on a real server. */
describe('audit: queries', () => {
  let fixture: AuditFixture
  let audit: AuditRunning
  let maria: Bus
  let count = 0

  beforeAll(async () => {
    fixture = await auditFixture()
    await fixture.register('audit', 'alice', 'scout', 'mallory')
    audit = await fixture.audit({ open_ms: 300 })
    maria = await fixture.connect('maria')
    await told()
  })
  afterAll(() => fixture[Symbol.asyncDispose]())

  const story = (options?: StoryOptions) => new Story(fixture.bus, `query-id-${String(++count).padStart(4, '0')}`, options)
  const passes: Record<string, Story> = {}
  async function told(): Promise<void> {
    passes.plain = await story({ session_id: 's-1', reason: 'Review the LOGIN flow' }).whole()
    passes.scout = await story({ session_id: 's-2', subagent: 'scout' }).whole({ status: 'partial' })
    const held = story({ session_id: 's-2', policy: { approvers: ['maria'] } })
    await held.request()
    await held.held()
    await held.decides('dispatch', 'maria', 'approve')
    await held.work()
    await held.returns({ completion_reason: 'all tests are green' } as never)
    passes.held = held
    const denied = story({ originator: 'scout', policy: { approvers: ['peter'] } })
    await denied.request()
    await denied.held()
    await denied.decides('dispatch', 'peter', 'deny')
    await denied.ends({ code: 'E013', message: 'the approval was denied' })
    passes.denied = denied
    const crashed = story({ session_id: 's-1' })
    await crashed.request()
    await crashed.work()
    await crashed.ends({ code: 'E011', message: 'no heartbeat' })
    passes.crashed = crashed
    await audit.settled()
  }
  const ask = async (who: Bus, query: PassQuery): Promise<Page> => {
    const answer = queryAnswer.parse(await who.ask({ op: 'query', ...query }, { timeout_ms: 30_000 }))
    if (!answer.ok) throw new Error(answer.error.message)
    return answer
  }
  const found = async (query: PassQuery, who = maria) => (await ask(who, query)).entries.map(({ row }) => row.id)
  const ids = (...names: string[]) => names.map((name) => passes[name]?.key.id)

  it('finds by originator, subagent, session, status, error, decision and time, newest first', async () => {
    expect(await found({})).toEqual(ids('crashed', 'denied', 'held', 'scout', 'plain'))
    expect(await found({ originator: 'scout' })).toEqual(ids('denied'))
    expect(await found({ subagent: 'scout' })).toEqual(ids('scout'))
    expect(await found({ session_id: 's-1' })).toEqual(ids('crashed', 'plain'))
    expect(await found({ status: 'failed' })).toEqual(ids('crashed'))
    expect(await found({ status: 'partial' })).toEqual(ids('scout'))
    expect(await found({ status: 'completed', session_id: 's-2' })).toEqual(ids('held'))
    expect(await found({ code: 'E013' })).toEqual(ids('denied'))
    expect(await found({ decision: { person: 'maria' } })).toEqual(ids('held'))
    expect(await found({ decision: { verdict: 'deny' } })).toEqual(ids('denied'))
    expect(await found({ decision: { item: 'apply' } })).toEqual([])
    const [newest] = (await ask(maria, { limit: 1 })).entries
    expect(await found({ from: newest?.row.created_at ?? 0 })).toEqual(ids('crashed'))
    expect(await found({ to: newest?.row.created_at ?? 0, limit: 1 })).toEqual(ids('denied'))
    expect(newest?.entry).toMatchObject({ status: 'failed', summary: 'E011: no heartbeat' })
  })

  it('finds text in reason, summary and objective, whatever its case', async () => {
    expect(await found({ text: 'login FLOW' })).toEqual(ids('plain'))
    expect(await found({ text: 'tests are green' })).toEqual(ids('held'))
    expect(await found({ text: 'no heartbeat' })).toEqual(ids('crashed'))
    expect(await found({ text: 'correctness and STYLE' })).toEqual(ids('crashed', 'denied', 'held', 'scout', 'plain'))
    expect(await found({ text: 'nobody says this' })).toEqual([])
  })

  it('a subagent finds no words of an objective that was not admitted', async () => {
    const [subagent, originator] = [await fixture.connect('audit'), await fixture.connect('scout')]
    expect(await found({ text: 'correctness and STYLE' }, subagent)).toEqual(ids('crashed', 'held', 'plain'))
    expect(await found({ text: 'correctness and STYLE' }, originator)).toEqual(ids('denied', 'scout'))
  })

  it('an agent is told about its own passes only, also in statistics', async () => {
    const scout = await fixture.connect('scout')
    const mallory = await fixture.connect('mallory')
    expect(await found({}, scout)).toEqual(ids('denied', 'scout'))
    expect(await found({}, mallory)).toEqual([])
    expect(await found({ originator: 'alice' }, scout)).toEqual(ids('scout'))
    const stats = statsAnswer.parse(await mallory.ask({ op: 'stats' }, { timeout_ms: 30_000 }))
    expect(stats).toMatchObject({ ok: true, passes: 0 })
    expect(statsAnswer.parse(await maria.ask({ op: 'stats', subagent: 'audit' }))).toMatchObject({
      ok: true,
      passes: 4,
      complete: true,
      by: { pair: { groups: [{ name: 'alice->audit', count: 3 }, { name: 'scout->audit' }] } },
    })
  })

  it('a pass that is only open is told too, once, and stays in its place when it ends', async () => {
    const open = story()
    await open.request()
    await open.work()
    await until(async () => (await found({ limit: 1 }))[0] === open.key.id, { what: 'told while it is open' })
    const before = await ask(maria, { limit: 2 })
    await open.returns()
    await audit.settled()
    const after = await ask(maria, { limit: 2 })
    expect(after.cursor).toBe(before.cursor)
    expect(after.entries.map(({ row }) => [row.id, row.status])).toEqual([
      [open.key.id, 'returned'],
      [passes.crashed?.key.id, 'returned'],
    ])
    passes.open = open
  })

  it('a restarted audit reads its index from the bucket, and says while it does not know all', async () => {
    const everything = await found({})
    await audit.drain()
    audit = await fixture.audit()
    expect(typeof (await ask(maria, {})).complete).toBe('boolean')
    await until(async () => (await ask(maria, {})).complete, { what: 'the index is complete' })
    expect(await found({})).toEqual(everything)
    expect(await found({ decision: { person: 'maria', verdict: 'approve' } })).toEqual(ids('held'))
  })

  describe('when another process writes records', () => {
    const index = async (more: { mend?: true } = {}, who = maria) =>
      indexAnswer.parse(await who.ask({ op: 'index', ...more }, { timeout_ms: 30_000 }))
    const counted = async (filter: PassQuery) => statsAnswer.parse(await maria.ask({ op: 'stats', ...filter }))
    const isRight = async () => {
      const answer = await index()
      return answer.ok && answer.wrong === 0
    }
    /** Writes a record as a rebuild, or an audit of another version, would. */
    async function writes(name: string, change: (record: PassRecord) => PassRecord): Promise<{ key: string; data: Uint8Array }> {
      const table = await fixture.bus.table(PASSES_BUCKET, storedRecord)
      for await (const { key, value } of table.entries(recordFilter(passes[name]?.key ?? {}))) {
        const data = (await table.bytesOf(key))?.data
        await table.put(key, change(value))
        if (data) return { key, data }
      }
      throw new Error(`no record of ${name}`)
    }
    const failed = (record: PassRecord): PassRecord => ({ ...record, status: 'cancelled', error: passError('E043', 'as tampered') })
    const settledOf = (record: { key: string; data: Uint8Array }) => async () => {
      const table = await fixture.bus.table(PASSES_BUCKET, storedRecord)
      await new Promise<void>((done) => table.send(record.key, record.data, undefined, () => done()))
    }

    it('takes over what others write, and has nothing to mend', async () => {
      expect(await index()).toMatchObject({ ok: true, complete: true, records: 6, wrong: 0, shown: [] })
      const restore = settledOf(await writes('plain', failed))
      await until(async () => (await found({ code: 'E043' })).length === 1, { what: 'what others wrote is read' })
      expect(await found({ code: 'E043' })).toEqual(ids('plain'))
      expect(await counted({ status: 'cancelled' })).toMatchObject({ passes: 1 })
      expect(await index()).toMatchObject({ wrong: 0 })
      await restore()
      await until(isRight, { what: 'it is read again' })
      expect(await found({ code: 'E043' })).toEqual([])
    })

    // Erased past the audit, it leaves no revision: what only a comparison of all records finds.
    it('finds a line whose record is gone, names it and mends it', async () => {
      const table = await fixture.bus.table(PASSES_BUCKET, storedRecord)
      const erased = await writes('scout', (record) => record)
      await until(isRight, { what: 'what others wrote is read' })
      await table.erase(erased.key)
      const begins = passes.scout?.sequences[0]
      const what = `an entry for the pass that begins at sequence ${begins}, which has no record`
      expect(await index()).toMatchObject({ records: 5, wrong: 1, mended: 0, shown: [{ what }] })
      expect(await index({ mend: true })).toMatchObject({ records: 5, wrong: 1, mended: 1, shown: [{ what }] })
      expect(await counted({ subagent: 'scout' })).toMatchObject({ passes: 0 })
      await settledOf(erased)()
      await until(async () => (await found({ subagent: 'scout' })).length === 1, { what: 'it is read again' })
      expect(await index()).toMatchObject({ records: 6, wrong: 0 })
    })

    it('drops what others delete', async () => {
      const table = await fixture.bus.table(PASSES_BUCKET, storedRecord)
      const denied = await writes('denied', (record) => record)
      await table.delete(denied.key)
      await until(async () => (await found({ originator: 'scout' })).length === 0, { what: 'the deletion is read' })
      expect(await index()).toMatchObject({ records: 5, wrong: 0 })
      await settledOf(denied)()
      await until(async () => (await found({ originator: 'scout' })).length === 1, { what: 'it is read again' })
      expect(await index()).toMatchObject({ records: 6, wrong: 0 })
      passes.last = await story({ session_id: 's-9' }).whole()
      await audit.settled()
    })

    it('an agent may not ask for that', async () => {
      expect(await index({}, await fixture.connect('mallory'))).toMatchObject({ ok: false, error: { code: 'E013' } })
    })
  })

  it('refuses what is no query', async () => {
    for (const query of [{ cursor: 'x' }, { status: 'odd' }, { limit: 0 }, { limit: 501 }, { code: 'E999' }, { unknown: 1 }, { text: '' }])
      expect(await maria.ask({ op: 'query', ...query }, { timeout_ms: 30_000 })).toMatchObject({ ok: false, error: { code: 'E005' } })
  })

  it('the server itself filters by month, session, originator, subagent and id', async () => {
    const table = await fixture.bus.table(PASSES_BUCKET, storedRecord)
    const keys = async (filter: string) => {
      const seen: string[] = []
      for await (const { value } of table.entries(filter)) seen.push(value.key.id)
      return seen.sort()
    }
    const month = new Date(fixture.bus.now()).toISOString().slice(0, 7)
    expect((await keys(`${month}.*.*.*.*`)).length).toBe(7)
    expect(await keys('1999-01.*.*.*.*')).toEqual([])
    expect(await keys(recordFilter({ session_id: 's-1' }))).toEqual(ids('plain', 'crashed'))
    expect(await keys(recordFilter({ originator: 'scout' }))).toEqual(ids('denied'))
    expect(await keys(recordFilter({ subagent: 'scout' }))).toEqual(ids('scout'))
    expect(await keys(recordFilter({ session_id: 's-2', subagent: 'audit' }))).toEqual(ids('held'))
    expect(await keys(recordFilter({ id: passes.held?.key.id }))).toEqual(ids('held'))
  })
})
