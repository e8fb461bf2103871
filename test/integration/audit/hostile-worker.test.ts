import { rebuildRecords } from '@passover/audit'
import { type Bus, CONTENT_TYPE, decode, encode } from '@passover/bus'
import { HEADER, type PassKey } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Story } from '../../support/builders/story.js'
import { type AuditFixture, auditFixture, replaced } from '../../support/fixtures/audit.js'

/** What one agent may publish does not stop the audit, nor change what it says of others. */
describe('audit: a hostile worker', () => {
  let fixture: AuditFixture

  beforeAll(async () => {
    fixture = await auditFixture()
  })
  afterAll(() => fixture[Symbol.asyncDispose]())

  it('with returns of passes that never were, at times that are none, stops nothing', async () => {
    const scout = await fixture.connect('scout')
    const audit = await fixture.audit()
    const asked = await new Story(fixture.bus, 'asked-id-1', { subagent: 'scout' }).request()
    for (let i = 0; i < 40; i++) {
      const key = { originator: 'alice', subagent: 'scout', id: `made-up-id-${i}` }
      const time = i % 2 === 0 ? '9007199254740991' : '8639999999999999'
      const headers = { [HEADER.request]: String(asked), [HEADER.requestedAt]: time, [HEADER.contentType]: CONTENT_TYPE.msgpack }
      await scout.publish({ subject: fixture.bus.subjects.return(key, 'scout'), headers, data: encode({ v: 1, output: {} }) })
    }
    const honest = await new Story(fixture.bus, 'honest-id-1').whole()
    await audit.settled()
    expect(audit.stats()).toMatchObject({ requests: 1, violations: 40 })
    expect([...(await fixture.records()).values()].map(({ key }) => key.id)).toEqual([honest.key.id])
  })

  it('with messages of passes that nobody asked for yet, in turns, costs no reading, and hides nothing of those that begin later', async () => {
    const { bus } = fixture
    const scout = await fixture.connect('scout')
    const historiesRead: string[] = []
    const counted = (own: Bus) => {
      const history = (key: PassKey, ...more: unknown[]) => {
        historiesRead.push(key.id)
        return own.journal.history(key, ...(more as []))
      }
      return replaced(own, { journal: replaced(own.journal, { history }) })
    }
    const first = await fixture.audit({}, counted)
    const stories = Array.from({ length: 30 }, (_, i) => new Story(bus, `ghostly-id-${i}`, { subagent: 'scout' }))
    const violating: number[] = []
    const storm = async () => {
      for (const kind of ['late', 'applied', 'fence', 'return'] as const) {
        for (const { key } of stories) {
          const { subjects } = bus
          const isStep = kind === 'fence' || kind === 'return'
          const subject = isStep ? subjects[kind](key, 'scout') : subjects.event(key, kind, 'scout')
          const headers = { [HEADER.contentType]: CONTENT_TYPE.msgpack, [HEADER.attempt]: '1' }
          const outcome = await scout.publish({ subject, headers, data: encode({ v: 1, output: {} }) })
          if (isStep && outcome.kind === 'stored') violating.push(outcome.sequence)
        }
      }
    }
    await storm()
    await storm()
    await first.settled()
    expect(historiesRead).toEqual([])
    // One of them begins while the audit knows that nothing had, another one after it was started again.
    await stories[0]?.whole()
    await first.settled()
    await first.drain()
    const second = await fixture.audit()
    await storm()
    await stories[1]?.whole()
    await second.settled()
    await second.settled()
    const told = await fixture.recordBytes()
    expect([...(await fixture.records()).values()].flatMap(({ key }) => (key.id.startsWith('ghostly') ? [key.id] : [])).sort()).toEqual([
      'ghostly-id-0',
      'ghostly-id-1',
    ])
    const { rewritten, removed } = await rebuildRecords(bus, { source: 'archive', rules: { id_window_ms: 3_600_000, names: 'unverified' } })
    expect({ rewritten, removed }).toEqual({ rewritten: 0, removed: 0 })
    expect(await fixture.recordBytes()).toEqual(told)
    expect((await violations(bus)).sort((a, b) => a - b)).toEqual(violating)
  })
})

/** The sequences of which violations of these passes are recorded. */
async function violations(bus: Bus): Promise<number[]> {
  const found: number[] = []
  await using reader = await bus.follow({ filters: [bus.subjects.allEvents('violation')] }, (stored, fact) => {
    const decoded = decode(stored.data, CONTENT_TYPE.msgpack)
    if (fact.type === 'event' && fact.key.id.startsWith('ghostly') && decoded.ok)
      found.push((decoded.value as { sequence: number }).sequence)
  })
  await reader.caughtUp
  return found
}
