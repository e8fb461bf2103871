import { randomBytes } from 'node:crypto'
import { Manifest } from '@passover/archive'
import { startAudit } from '@passover/audit'
import { type Delivery, DISPATCHER, type FollowOptions } from '@passover/bus'
import { pino } from 'pino'
import { expect, it } from 'vitest'
import { clockOf, World } from '../../support/dispatcher/dispatcher.js'
import { busOn } from '../../support/fixtures/bus.js'
import { countedOn, withGap } from '../../support/fixtures/gapped.js'
import { until } from '../../support/processes/until.js'

const SEGMENT = 4_096
const MIB = 1024 * 1024

// Found by `passover chaos` (seed 501337). Runs real servers: nats-server takes messages that it lost for deleted, and reports its copy as current.
it('reads, archives and dispatches messages that one server lost from the copies of the others', async () => {
  // A block of the store has 8 MB. With messages of this size there are three full blocks, and the passes are in the second.
  await using world = await World.start({ nodes: 3, max_bytes: 40 * MIB, dispatchers: [] })
  await world.agent('audit')
  const { bus, nats } = world
  const fill = async (to: number) => {
    const { last } = await bus.bounds()
    const message = { subject: bus.subjects.acknowledged('nobody'), data: new Uint8Array(6_500) }
    await Promise.all(Array.from({ length: to - last }, () => bus.publish(message)))
  }
  const passed: number[] = []
  await using _following = await bus.follow({ headers_only: true }, ({ sequence }) => void passed.push(sequence))
  const questions = await countedOn(nats, `$JS.API.STREAM.MSG.GET.${bus.subjects.stream}`)
  await fill(SEGMENT / 2)
  await until(() => passed.at(-1) === SEGMENT / 2, { what: 'a reader has read all' })
  // Without gaps a reader sends the leader no queries. The one counted is this read, which shows that the count works.
  await bus.journal.newest('>')
  expect(await questions()).toBe(1)
  const first = await world.dispatcher()
  const worked = await world.ask({ timeout_ms: 10_000 })
  await world.work(worked)
  await first.drain()
  const asked = await world.ask({ timeout_ms: 60_000 })
  await fill(SEGMENT + 1)
  const { last } = await bus.bounds()
  const gapped = await withGap(nats, asked.id)
  const leading = Promise.all([gapped.leads(DISPATCHER), gapped.leads('work_audit_medium')])
  expect(await gapped.messages()).toBeLessThan(last - 1_000)

  const reading = await busOn(nats)
  const lacking = /copy of PASSOVER on server n\d lacks message \d+, which the leader has/
  const read = async (options: FollowOptions) => {
    const seen: number[] = []
    await using reader = await gapped.served(reading).follow(options, ({ sequence }) => void seen.push(sequence))
    await reader.caughtUp
    return seen
  }
  expect(await read({ headers_only: true })).toEqual(Array.from({ length: last }, (_, n) => n + 1))
  expect(String(reading.errors[0])).toMatch(lacking)
  // Both requests are in the gap, and no later delivery of this reader reveals that they are missing.
  expect(await read({ filters: [bus.subjects.all('request')] })).toHaveLength(2)
  await reading[Symbol.asyncDispose]()

  const archiving = await busOn(nats)
  const audit = await startAudit(
    { bus: gapped.served(archiving), clock: clockOf(archiving), random: { bytes: (n) => randomBytes(n) }, log: pino({ level: 'silent' }) },
    { open: true, deletes: false, answers: false },
  )
  const manifest = await Manifest.open(bus)
  const sealed = await until(() => manifest.entry(0), { what: 'the segment is sealed', deadline_ms: 60_000 })
  expect(sealed.count).toBe(SEGMENT - 1)
  await audit[Symbol.asyncDispose]()
  await archiving[Symbol.asyncDispose]()

  await leading
  const dispatcher = await world.dispatcher({ look_after_ms: 100, stores_ms: 100 })
  await world.admitted(asked)
  expect(dispatcher.stats()).toMatchObject({ admitted: 1 })
  // A worker does not get work that its durable consumer skips; that pass ends at its deadline.
  const delivered: Delivery[] = []
  await world.workSource('medium').pull({ batch: 10, expires_ms: 0 }, (delivery) => delivered.push(delivery))
  expect(delivered.map(({ subject }) => subject)).toEqual([bus.subjects.work(asked, 'medium')])
  expect(await world.end(worked)).toMatchObject({ error: { code: 'E010' } })
}, 120_000)
