import { connect } from '@nats-io/transport-node'
import { startDispatcher } from '@passover/dispatcher'
import { passAnswer } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { random, SILENT } from '../../support/dispatcher/dispatcher.js'
import { auditFixture, clockOf } from '../../support/fixtures/audit.js'
import { until } from '../../support/processes/until.js'

const POISON = 25
const MALFORMED = new Uint8Array([0xc1, 0, 0xff])
const PATIENT_MS = 60_000
/** A consumer makes the server look through a bucket for what it should deliver; a read of the leader, through the stream. */
const SEARCHES = /^\$JS\.API\.(?:CONSUMER\.CREATE\.KV_|STREAM\.MSG\.GET\.PASSOVER$)/

/** What one agent's trouble makes the services ask of the server, which serves everybody: `npm run bench -- --isolation` measures what it costs. */
describe('isolation', () => {
  it('a malformed request is recorded without a search through stream, records or archive', async () => {
    await using fixture = await auditFixture()
    const bus = await fixture.connect('passover', { name: 'dispatcher' })
    await using dispatcher = await startDispatcher({ bus, clock: clockOf(bus), random, log: SILENT })
    const audit = await fixture.audit({ deletes: false })
    const onlooker = await connect({ servers: fixture.nats.servers })
    const searches: string[] = []
    onlooker.subscribe('$JS.API.>', { callback: (_, { subject }) => void (SEARCHES.test(subject) && searches.push(subject)) })
    await onlooker.flush()

    const subject = bus.subjects.request('audit', 'mallory')
    for (let n = 0; n < POISON; n += 1) await bus.publish({ subject, data: MALFORMED })
    await until(() => dispatcher.stats().bad === POISON, { what: 'each is answered', deadline_ms: PATIENT_MS })
    await audit.settled()
    await onlooker.flush()
    await onlooker.close()
    // Now and then somebody looks for something else.
    expect(searches.length, `${new Set(searches).size} of ${[...new Set(searches)]}`).toBeLessThan(POISON)

    const records = [...(await fixture.records()).values()]
    expect(records.map(({ key }) => key.id.startsWith('bad-'))).toEqual(Array.from({ length: POISON }, () => true))
    expect(records.map(({ error }) => error?.code)).toEqual(Array.from({ length: POISON }, () => 'E005'))
    // An answer reads its pass again, from the server.
    const again = await Promise.all(records.map(async ({ key }) => passAnswer.parse(await bus.ask({ op: 'pass', ...key }))))
    expect(again.map((answer) => (answer.ok ? answer.passes[0]?.record : answer))).toEqual(records)
  }, 120_000)
})
