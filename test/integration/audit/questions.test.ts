import { ARCHIVE_BUCKET, Archive, Manifest, SEGMENT_SIZE } from '@passover/archive'
import { type AuditRunning, deletePass } from '@passover/audit'
import { type Bus, decode, encode } from '@passover/bus'
import { askAgents, findPass } from '@passover/operator'
import {
  type AgentsAnswer,
  agentsAnswer,
  HEADER,
  type ListAnswer,
  listAnswer,
  type PassAnswer,
  passAnswer,
  sha256,
  timeAnswer,
} from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Story, type StoryOptions } from '../../support/builders/story.js'
import { type AuditFixture, auditFixture } from '../../support/fixtures/audit.js'

/** Answers (docs/architecture/audit-archive.md#answers): who is told what, and that list and show agree with the stream. */
describe('audit: asking', () => {
  let fixture: AuditFixture
  let audit: AuditRunning
  let alice: Bus
  let mallory: Bus
  let maria: Bus
  let count = 0

  beforeAll(async () => {
    fixture = await auditFixture()
    await fixture.register('audit', 'alice', 'scout', 'mallory')
    audit = await fixture.audit()
    ;[alice, mallory, maria] = await Promise.all([fixture.connect('alice'), fixture.connect('mallory'), fixture.connect('maria')])
  })
  afterAll(() => fixture[Symbol.asyncDispose]())

  const story = (options?: StoryOptions) => new Story(fixture.bus, `asked-id-${String(++count).padStart(4, '0')}`, options)
  const askPass = async (who: Bus, question: object): Promise<PassAnswer> => passAnswer.parse(await who.ask({ op: 'pass', ...question }))
  const onePass = async (who: Bus, question: object) => {
    const answer = await askPass(who, question)
    if (!answer.ok) throw new Error(answer.error.message)
    expect(answer.passes.length).toBe(1)
    return answer.passes[0]!
  }
  const list = async (who: Bus, filter: Record<string, unknown> = {}): Promise<Extract<ListAnswer, { ok: true }>> => {
    const answer = listAnswer.parse(await who.ask({ op: 'list', ...filter }))
    if (!answer.ok) throw new Error(answer.error.message)
    return answer
  }

  it('tells the time', async () => {
    const answer = timeAnswer.parse(await alice.ask({ op: 'time' }))
    expect(answer.ok && Math.abs(answer.now - Date.now())).toBeLessThan(60_000)
  })

  it('tells a pass: state, return as stored, digest, deadline, control, decisions, history', async () => {
    const pass = story({ session_id: 'told-1', policy: { approvers: ['maria'] } })
    await pass.request()
    await pass.held()
    await pass.decides('dispatch', 'maria', 'approve')
    await pass.work()
    await pass.event('progress', 'audit', { attempt: 1, message: 'half way' })
    await pass.returns()
    const told = await onePass(alice, { ...pass.key, history: true })
    expect(told).toMatchObject({
      key: pass.key,
      status: 'returned',
      digest: 'd'.repeat(64),
      row: { session_id: 'told-1', reason: 'review_changes' },
      control: { return_id: `return-${pass.key.id}` },
    })
    expect(told.deadline).toBeGreaterThan(told.row.created_at)
    const output = decode(told.return!.data, told.return!.content_type)
    expect(output).toMatchObject({ ok: true, value: { output: { work_id: pass.key.id, status: 'completed' } } })
    expect(told.return).toMatchObject({ by: 'audit', attempt: 1, sequence: pass.sequences[5] })
    expect(told.decisions).toMatchObject([{ item: 'dispatch', person: 'maria', verdict: 'approve', reason: 'because' }])
    expect(told.history?.map(({ kind, by, detail }) => [kind, by, detail])).toEqual([
      ['request', 'alice', undefined],
      ['held', 'passover', undefined],
      ['decision', 'maria', 'dispatch approve'],
      ['work', 'medium', undefined],
      ['progress', 'audit', 'half way'],
      ['return', 'audit', 'completed'],
    ])
    expect(told.history?.map(({ sequence }) => sequence)).toEqual(pass.sequences)
  })

  it('a decision about the return counts when it names the digest of what was stored', async () => {
    const pass = story({ policy: { approvers: ['maria'] } })
    await pass.request()
    await pass.work()
    const sequence = await pass.returns({ status: 'partial' })
    expect(await onePass(alice, pass.key)).toMatchObject({ status: 'awaiting_release', decisions: [] })
    await pass.decides('return', 'maria', 'approve', 'e'.repeat(64))
    expect((await onePass(alice, pass.key)).decisions).toEqual([])
    const stored = await fixture.bus.journal.message(sequence)
    await pass.decides('return', 'maria', 'approve', sha256(stored!.data))
    expect(await onePass(alice, pass.key)).toMatchObject({ status: 'returned', decisions: [{ item: 'return', verdict: 'approve' }] })
    await audit.settled()
    expect((await list(maria, { limit: 1 })).passes[0]).toMatchObject({ id: pass.key.id, status: 'returned' })
  })

  it('a decision that does not count is told with why, and by its body, whatever its headers say', async () => {
    const pass = story()
    await pass.request()
    await pass.held()
    await pass.decides('dispatch', 'audit', 'approve')
    const told = await onePass(alice, { ...pass.key, history: true })
    const judged = { counts: false, why: 'takes part in the pass' }
    expect(told).toMatchObject({
      status: 'held',
      decisions: [],
      record: { decisions: [{ person: 'audit', verdict: 'approve', ...judged }] },
    })
    expect(told.history?.[2]).toMatchObject({ kind: 'decision', by: 'audit', detail: 'dispatch approve', ...judged })
    const body = encode({ v: 1, verdict: 'deny', digest: 'd'.repeat(64) })
    const subject = fixture.bus.subjects.decision(pass.key, 'dispatch', 'maria')
    await fixture.bus.publish({ subject, data: body, headers: { [HEADER.verdict]: 'approve' } })
    const again = await onePass(alice, { ...pass.key, history: true })
    const maria = again.history?.find(({ by }) => by === 'maria')
    expect(maria).toMatchObject({ detail: 'dispatch deny', counts: false, why: 'headers and body differ' })
    await pass.ends({ code: 'E013', message: 'denied' })
  })

  it('the passes below are told with a pass, to agents only their own', async () => {
    const parent = story()
    await parent.request()
    await parent.work()
    const child = () => story({ originator: 'audit', subagent: 'scout', parent: parent.key }).whole()
    const below = [await child(), await child()]
    await story({ originator: 'audit', subagent: 'scout', parent: { ...parent.key, id: 'another-parent' } }).whole()
    await parent.returns()
    await audit.settled()
    const told = async (who: Bus) =>
      (await onePass(who, { ...parent.key, history: true })).below?.map(({ id, subagent, status }) => [id, subagent, status])
    const [first, second] = below.map(({ key }) => [key.id, key.subagent, 'returned'])
    expect(await told(maria)).toEqual([second, first])
    expect(await told(await fixture.connect('audit'))).toEqual([second, first])
    expect(await told(alice)).toEqual([])
    expect((await onePass(maria, parent.key)).below).toBeUndefined()
  })

  it('agents are told about their own passes only, people about all', async () => {
    const pass = await story().whole()
    await audit.settled()
    const subagent = await fixture.connect('audit')
    for (const who of [alice, subagent, maria]) expect((await onePass(who, { id: pass.key.id })).key).toEqual(pass.key)
    for (const question of [{ id: pass.key.id }, pass.key]) {
      expect(await askPass(mallory, question)).toMatchObject({ ok: false, error: { code: 'E041' } })
    }
    expect((await list(mallory)).passes).toEqual([])
    expect((await list(mallory, { originator: 'alice' })).passes).toEqual([])
    expect((await list(alice)).passes.every(({ originator, subagent: to }) => originator === 'alice' || to === 'alice')).toBe(true)
  })

  it('lists every pass that shares an id', async () => {
    const id = 'shared-id-1'
    const passes = [
      new Story(fixture.bus, id),
      new Story(fixture.bus, id, { subagent: 'scout' }),
      new Story(fixture.bus, id, { originator: 'scout', subagent: 'mallory' }),
    ]
    for (const pass of passes) await pass.whole()
    await audit.settled()
    const keys = async (who: Bus, question: object) => {
      const answer = await askPass(who, { id, ...question })
      return answer.ok ? answer.passes.map(({ key }) => `${key.originator}>${key.subagent}`).sort() : []
    }
    expect(await keys(maria, {})).toEqual(['alice>audit', 'alice>scout', 'scout>mallory'])
    expect(await keys(alice, {})).toEqual(['alice>audit', 'alice>scout'])
    expect(await keys(maria, { originator: 'scout' })).toEqual(['scout>mallory'])
  })

  it('list shows requested, open and ended passes, newest first, filtered, and says what show says', async () => {
    const session_id = 'listed-1'
    const ended = await story({ session_id, reason: 'first' }).whole()
    const open = story({ session_id, subagent: 'scout', reason: 'second' })
    await open.request()
    await open.work()
    const asked = story({ session_id, reason: 'third' })
    await asked.request()
    await audit.settled()
    const all = await list(maria, { limit: 3 })
    expect(all.passes.map(({ id, status }) => [id, status])).toEqual([
      [asked.key.id, 'requested'],
      [open.key.id, 'waiting_for_return'],
      [ended.key.id, 'returned'],
    ])
    expect(all.more).toBe(true)
    expect((await list(maria, { session_id })).passes.map(({ id }) => id)).toEqual([asked.key.id, open.key.id, ended.key.id])
    expect((await list(maria, { subagent: 'scout', session_id })).passes.map(({ reason }) => reason)).toEqual(['second'])
    expect((await list(maria, { status: 'requested' })).passes.map(({ id }) => id)).toEqual([asked.key.id])
    for (const row of all.passes) expect((await onePass(maria, { id: row.id })).row).toEqual(row)
  })

  it('agents come with what is open for them', async () => {
    const answer: AgentsAnswer = agentsAnswer.parse(await maria.ask({ op: 'agents' }))
    const rows = answer.ok ? answer.agents : []
    expect(rows.map(({ agent }) => agent.name)).toEqual(['alice', 'audit', 'mallory', 'scout'])
    expect(await askAgents(maria)).toEqual(rows)
    expect(rows.find(({ agent }) => agent.name === 'scout')).toMatchObject({ open: 1, waiting: 0 })
    expect(rows.find(({ agent }) => agent.name === 'audit')).toMatchObject({ open: 0, waiting: 1 })
    expect(rows.find(({ agent }) => agent.name === 'alice')).toMatchObject({ originated: 2 })
  })

  it('an agent may read the names and roles of other agents, and everything about itself', async () => {
    const full = await askAgents(maria)
    const expected = full.map((row) => (row.agent.name === 'alice' ? row : { agent: { name: row.agent.name, roles: row.agent.roles } }))
    expect(await alice.ask({ op: 'agents' })).toEqual({ ok: true, agents: expected })
    expect(await maria.ask({ op: 'agents', own: true })).toMatchObject({ agents: full.map(() => ({ agent: {} })) })
    expect(JSON.stringify(await maria.ask({ op: 'agents', own: true }))).not.toContain('originated')
    await expect(askAgents(alice)).rejects.toMatchObject({ code: 'E013' })
  })

  it('what is no question, and what nobody knows, is answered as an error', async () => {
    for (const question of [null, 7, {}, { op: 'odd' }, { op: 'list', limit: 100_000 }, { op: 'list', status: 'nonsense' }]) {
      expect(await alice.ask(question)).toMatchObject({ ok: false, error: { code: 'E005' } })
    }
    expect(await alice.ask({ op: 'pass', id: 'nobody-knows' })).toMatchObject({ ok: false, error: { code: 'E041' } })
    expect(await alice.ask({ op: 'pass', id: 'not an id', originator: 'alice', subagent: 'audit' })).toMatchObject({
      ok: false,
      error: { code: 'E041' },
    })
  })

  it('a return too large for an answer is left out, and said to be', async () => {
    const pass = story()
    await pass.request()
    await pass.work()
    await pass.returns({ output: 'x'.repeat(700_000) })
    const told = await onePass(alice, pass.key)
    expect([told.return, told.return_left_out, told.status]).toEqual([undefined, true, 'returned'])
  })

  it('an endless history is shown from both its ends', async () => {
    const pass = story()
    await pass.request()
    await pass.work()
    for (let n = 0; n < 250; n++) await pass.event('progress', 'audit', { attempt: 1, message: `${n}` })
    for (let n = 0; n < 250; n++) await pass.event('applied', 'alice', {})
    await pass.returns()
    const told = passAnswer.parse(await alice.ask({ op: 'pass', ...pass.key, history: true }, { timeout_ms: 20_000 }))
    const shown = told.ok ? told.passes[0] : undefined
    // All 250 reports of progress, from their headers, and everything else: 503.
    expect([shown?.history?.length, shown?.history_left_out, shown?.history?.at(0)?.kind, shown?.history?.at(-1)?.kind]).toEqual([
      400,
      103,
      'request',
      'return',
    ])
  })

  it('says how many of the passes that share an id it left out', async () => {
    const id = 'shared-id-2'
    const others = Array.from({ length: 24 }, (_, n) => new Story(fixture.bus, id, { originator: 'mallory', subagent: `name-${n}` }))
    for (const pass of [...others, new Story(fixture.bus, id)]) await pass.request()
    await audit.settled()
    const answer = await askPass(maria, { id })
    expect(answer.ok && [answer.passes.length, answer.left_out]).toEqual([20, 5])
    await expect(findPass(maria, { id })).rejects.toThrow('… and 15 more')
    expect((await findPass(maria, { id, from: 'alice', to: 'audit' })).key.originator).toBe('alice')
  })

  it('a pass that was deleted from the stream is told from the archive, also after a restart and with its record gone', async () => {
    const { bus } = fixture
    const pass = await story({ session_id: 'deleted-1' }).whole()
    const before = await onePass(alice, { ...pass.key, history: true })
    while ((await bus.bounds()).last < (pass.sequences[2] ?? 0) + SEGMENT_SIZE) {
      await Promise.all(
        Array.from({ length: 256 }, () => bus.publish({ subject: bus.subjects.acknowledged('alice'), data: new Uint8Array(10) })),
      )
    }
    await audit.settled()
    expect(await deletePass(bus, pass.key, { rules: { id_window_ms: 3_600_000 } })).toBe(true)
    expect(await bus.journal.history(pass.key)).toEqual([])
    expect(await onePass(alice, { ...pass.key, history: true })).toEqual(before)
    await audit.drain()
    await fixture.deleteRecords()
    audit = await fixture.audit()
    await audit.settled()
    expect(await onePass(maria, { id: pass.key.id, history: true })).toEqual(before)
    const archive = new Archive(await Manifest.open(bus), await bus.objects(ARCHIVE_BUCKET))
    expect(await archive.sequencesOf(pass.key)).toEqual(pass.sequences)
    // Asked again long after: the "expired" that is stored then says nothing about the pass.
    await pass.ends({ code: 'E005', message: 'expired' }).catch(() => undefined)
    const expired = new Story(bus, pass.key.id)
    await expired.request()
    await expired.ends({ code: 'E005', message: 'expired' })
    await audit.settled()
    expect(await onePass(alice, pass.key)).toMatchObject({ status: 'returned', return: before.return })
  })
})
