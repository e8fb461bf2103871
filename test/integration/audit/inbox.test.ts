import { INBOX_BUCKET } from '@passover/audit'
import type { Bus } from '@passover/bus'
import { type InboxAnswer, inboxAnswer, passAnswer, sha256 } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Story, type StoryOptions } from '../../support/builders/story.js'
import { type AuditFixture, auditFixture } from '../../support/fixtures/audit.js'
import { until } from '../../support/processes/until.js'

type Told = Extract<InboxAnswer, { ok: true }>

const CHANGE = {
  type: 'file_modification',
  path: 'src/a.ts',
  old_content: 'one\ntwo\n',
  new_content: 'one\n2\nthree\n',
  reason: 'names',
  confidence: 'high',
} as const
const BAD = { type: 'finding', severity: 'error', category: 'x', message: 'bad', location: { path: 'src/a.ts', line: 2 } } as const

/** What waits for a person: told from the stream, oldest first, whatever was restarted. */
describe('audit: the inbox', () => {
  let fixture: AuditFixture
  let maria: Bus
  let count = 0

  beforeAll(async () => {
    fixture = await auditFixture()
    await fixture.register('audit', 'alice', 'scout', 'mallory')
    maria = await fixture.connect('maria')
  })
  afterAll(() => fixture[Symbol.asyncDispose]())

  const story = (options?: StoryOptions) => new Story(fixture.bus, `inbox-id-${String(++count).padStart(4, '0')}`, options)
  const inbox = async (question: object = {}, who = maria): Promise<Told> => {
    const answer = inboxAnswer.parse(await who.ask({ op: 'inbox', ...question }, { timeout_ms: 30_000 }))
    if (!answer.ok) throw new Error(answer.error.message)
    return answer
  }
  const of = async (originator: string, who = maria) => (await inbox({ root_originator: originator }, who)).items
  const due = async (pass: Story) => {
    const answer = passAnswer.parse(await maria.ask({ op: 'pass', id: pass.key.id, due: true }))
    return answer.ok ? answer.passes[0]?.due : undefined
  }
  const returnDigest = async (pass: Story) =>
    sha256((await fixture.bus.journal.last(fixture.bus.subjects.return(pass.key, pass.key.subagent)))!.data)

  it('shows what there is to decide: what is asked for, what came back, what it would change', async () => {
    await using audit = await fixture.audit()
    const held = story({ originator: 'ann', reason: 'review', policy: { approvers: ['maria'] } })
    await held.request()
    await held.held(60_000)
    const critical = story({ originator: 'ann' })
    await critical.whole({ artifacts: [BAD, CHANGE], summary: { ...critical.output().summary, decision: 'rejected' } })
    const changing = await story({ originator: 'ann' }).whole({
      artifacts: [CHANGE, { ...CHANGE, path: 'package.json', new_content: '', operation: 'delete' as const }],
    })
    await audit.settled()
    const items = await of('ann')
    expect(items.map(({ item, id }) => [item, id])).toEqual([
      ['dispatch', held.key.id],
      ['return', critical.key.id],
      ['apply', changing.key.id],
    ])
    expect(items[0]).toMatchObject({
      originator: 'ann',
      subagent: 'audit',
      chain: ['ann', 'audit'],
      reason: 'review',
      digest: held.control().digest,
      approvers: ['maria'],
      policy: { name: 'default', version: 0 },
      asked: {
        objective: expect.stringMatching(/./),
        files: expect.arrayContaining([{ path: expect.any(String), size: expect.any(Number) }]),
      },
    })
    expect(items[0]!.expires_at - items[0]!.since).toBe(60_000)
    expect(items[1]).toMatchObject({
      why: 'the output has a critical finding',
      digest: await returnDigest(critical),
      returned: {
        status: 'completed',
        decision: 'rejected',
        findings: { error: 1, shown: [{ severity: 'error', message: 'bad', path: 'src/a.ts', line: 2 }] },
      },
    })
    expect(items[2]!.returned?.modifications).toEqual([
      expect.objectContaining({
        number: 1,
        path: 'src/a.ts',
        operation: 'modify',
        added: 2,
        removed: 1,
        reason: 'names',
        confidence: 'high',
      }),
      expect.objectContaining({
        number: 2,
        path: 'package.json',
        operation: 'delete',
        warnings: [expect.objectContaining({ kind: 'runs_by_itself' })],
      }),
    ])
    expect(await due(changing)).toEqual(items[2])
  })

  it('loses an item when it is decided, passed on or expired; the next one of the pass follows', async () => {
    await using audit = await fixture.audit()
    const held = story({ originator: 'bea' })
    await held.request()
    await held.held()
    const expiring = story({ originator: 'bea' })
    await expiring.request()
    // Time enough to be looked at while it waits.
    await expiring.held(3_000)
    const partial = await story({ originator: 'bea' }).whole({ status: 'partial', artifacts: [CHANGE] })
    await audit.settled()
    expect((await of('bea')).map(({ item }) => item)).toEqual(['dispatch', 'dispatch', 'return'])
    await held.work()
    await partial.decides('return', 'maria', 'approve', 'something else')
    await audit.settled()
    await until(async () => (await of('bea')).length === 1, { what: 'the held one is gone, the expired one too' })
    await partial.decides('return', 'maria', 'approve', await returnDigest(partial))
    await audit.settled()
    expect((await of('bea')).map(({ item }) => item)).toEqual(['apply'])
    await partial.decides('apply', 'maria', 'deny', await returnDigest(partial))
    await audit.settled()
    expect(await of('bea')).toEqual([])
    expect(await due(partial)).toBeUndefined()
  })

  it('is told oldest first in pages, by root and by who may decide', async () => {
    await using audit = await fixture.audit()
    const root = await story({ originator: 'cid', subagent: 'scout' }).request()
    expect(root).toBeGreaterThan(0)
    const above = { originator: 'cid', subagent: 'scout', id: `inbox-id-${String(count).padStart(4, '0')}` }
    const child = story({ originator: 'scout', subagent: 'audit', parent: above, policy: { approvers: ['olga'] } })
    await child.request()
    await child.held()
    const others: Story[] = []
    for (let n = 0; n < 3; n++) {
      const one = story({ originator: 'cid' })
      await one.request()
      await one.held()
      others.push(one)
    }
    await audit.settled()
    const all = await of('cid')
    expect(all.map(({ id }) => id)).toEqual([child, ...others].map(({ key }) => key.id))
    expect(all[0]).toMatchObject({ originator: 'scout', root: above, parent: expect.stringContaining(above.id) })
    const first = await inbox({ root_originator: 'cid', limit: 3 })
    expect([first.items.length, first.more]).toEqual([3, true])
    const second = await inbox({ root_originator: 'cid', limit: 3, after: first.next })
    expect([second.items.map(({ id }) => id), second.more]).toEqual([[others[2]!.key.id], false])
    const marias = (await inbox({ root_originator: 'cid', approver: 'maria' })).items.map(({ id }) => id)
    expect(marias).toEqual(others.map(({ key }) => key.id))
    expect((await inbox({ root_originator: 'cid', approver: 'cid' })).items).toEqual([])
  })

  it('tells an agent of its own passes only', async () => {
    await using audit = await fixture.audit()
    const [alice, mallory] = [await fixture.connect('alice'), await fixture.connect('mallory')]
    const held = story({ originator: 'alice' })
    await held.request()
    await held.held()
    await audit.settled()
    expect((await inbox({}, alice)).items.map(({ originator }) => originator)).toEqual(['alice'])
    expect((await inbox({}, mallory)).items).toEqual([])
    // What a held pass asks for is not yet its subagent's to see.
    const ask = async (who: Bus) => passAnswer.parse(await who.ask({ op: 'pass', id: held.key.id, due: true }))
    const [asked, told] = [await ask(alice), await ask(await fixture.connect('audit'))]
    expect(asked.ok && asked.passes[0]?.due?.asked?.objective).toMatch(/./)
    expect(told.ok && told.passes[0]?.due).toBeUndefined()
    expect(told.ok && told.passes).toHaveLength(1)
  })

  it('is the same after a restart, and after its bucket was lost', async () => {
    const first = await fixture.audit()
    const held = story({ originator: 'dan' })
    await held.request()
    await held.held()
    const partial = await story({ originator: 'dan' }).whole({ status: 'partial' })
    // What is not in the newest records must be found all the same.
    await first.settled()
    const before = await of('dan')
    expect(before.map(({ item }) => item)).toEqual(['dispatch', 'return'])
    await first.drain()
    const second = await fixture.audit()
    expect(await of('dan')).toEqual(before)
    await second.drain()
    await fixture.deleteStream(`KV_${INBOX_BUCKET}`)
    await using third = await fixture.audit()
    await third.settled()
    expect(await of('dan')).toEqual(before)
    expect(before[1]?.id).toBe(partial.key.id)
  })
})
