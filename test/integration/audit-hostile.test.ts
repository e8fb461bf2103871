import { CONTENT_TYPE, encode } from '@passover/bus'
import { HEADER } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type AuditFixture, auditFixture } from '../support/auditing.js'
import { Story } from '../support/story.js'

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
})
