import { jetstreamManager } from '@nats-io/jetstream'
import { connect as connectClient } from '@nats-io/transport-node'
import { type AuditRunning, deletePass, PASSES_BUCKET } from '@passover/audit'
import type { Bus } from '@passover/bus'
import { type PassQuery, passAnswer, queryAnswer } from '@passover/schemas'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { fillLastSegment } from '../../support/assertions/stream.js'
import { Story } from '../../support/builders/story.js'
import { type AuditFixture, auditFixture } from '../../support/fixtures/audit.js'
import { until } from '../../support/processes/until.js'

const KEPT = 10
const TOLD = 40

/** The bucket is bounded: what fell out of it is found by the archive's indexes. */
describe('audit: passes that are older than the bucket', () => {
  let fixture: AuditFixture
  let audit: AuditRunning
  let maria: Bus
  const stories: Story[] = []

  beforeEach(async () => {
    fixture = await auditFixture()
    await fixture.register('audit', 'alice', 'scout')
    const nc = await connectClient({ servers: fixture.nats.servers })
    const { streams } = await jetstreamManager(nc)
    const { config } = await streams.info(`KV_${PASSES_BUCKET}`)
    expect(config).toMatchObject({ max_msgs: 1_000_000, discard: 'old', max_msgs_per_subject: 1 })
    await streams.update(`KV_${PASSES_BUCKET}`, { ...config, max_msgs: KEPT })
    await nc.close()
    audit = await fixture.audit()
    stories.length = 0
    for (let number = 0; number < TOLD; number++) {
      const options = { session_id: `s-${number % 4}`, subagent: number % 5 === 0 ? 'scout' : 'audit', reason: `reason ${number}` }
      stories.push(await new Story(fixture.bus, `older-id-${String(number).padStart(4, '0')}`, options).whole())
    }
    await audit.settled()
    await fillLastSegment(fixture.bus)
    await audit.settled()
    // Half of what fell out is in the archive alone.
    for (const { key } of stories.slice(0, 15)) await deletePass(fixture.bus, key, { rules: { id_window_ms: 3_600_000 } })
    await audit.drain()
    audit = await fixture.audit()
    maria = await fixture.connect('maria')
    await until(async () => (await page({})).complete, { what: 'the index is complete' })
  })
  afterEach(() => fixture[Symbol.asyncDispose]())

  const page = async (query: PassQuery) => {
    const answer = queryAnswer.parse(await maria.ask({ op: 'query', ...query }, { timeout_ms: 30_000 }))
    if (!answer.ok) throw new Error(answer.error.message)
    return answer
  }
  const all = async (query: PassQuery) => {
    const found: string[] = []
    for (let cursor: string | undefined; ; ) {
      const answer = await page({ ...query, ...(cursor === undefined ? {} : { cursor }) })
      found.push(...answer.entries.map(({ row }) => row.id))
      if (answer.cursor === undefined) return found
      cursor = answer.cursor
    }
  }
  const newestFirst = (wanted: (number: number) => boolean) =>
    stories
      .filter((_, number) => wanted(number))
      .map(({ key }) => key.id)
      .reverse()

  it('are found by id, and by the query: session, pair, time, text; each once, in their places', async () => {
    expect((await fixture.records()).size).toBe(KEPT)
    for (const { key } of [stories[0], stories[20], stories[TOLD - 1]].filter((one) => one !== undefined)) {
      const answer = passAnswer.parse(await maria.ask({ op: 'pass', id: key.id }))
      expect(answer).toMatchObject({ ok: true, passes: [{ key, status: 'returned', record: { entry: { status: 'completed' } } }] })
    }
    await until(async () => (await all({})).length === TOLD, { what: 'the indexes of the archive are read' })
    expect(await all({})).toEqual(newestFirst(() => true))
    expect(await all({ limit: 7 })).toEqual(newestFirst(() => true))
    expect(await all({ session_id: 's-1' })).toEqual(newestFirst((number) => number % 4 === 1))
    expect(await all({ originator: 'alice', subagent: 'scout' })).toEqual(newestFirst((number) => number % 5 === 0))
    expect(await all({ text: 'reason 1' })).toEqual(newestFirst((number) => number === 1 || (number >= 10 && number < 20)))
    const [sixth] = (await page({ limit: 1, text: 'reason 5' })).entries
    expect(await all({ to: sixth?.row.created_at ?? 0 })).toEqual(newestFirst((number) => number < 5))
    const mallory = await fixture.connect('scout')
    const own = queryAnswer.parse(await mallory.ask({ op: 'query', limit: 500 }, { timeout_ms: 30_000 }))
    expect(own.ok && own.entries.map(({ row }) => row.id)).toEqual(newestFirst((number) => number % 5 === 0))
  })
})
