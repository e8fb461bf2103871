import { fileURLToPath } from 'node:url'
import { encode } from '@passover/bus'
import { verifyWebhook } from '@passover/core'
import { type Notifier, type NotifierSettings, startNotifier } from '@passover/notifier'
import { HEADER, journalFilter, sha256 } from '@passover/schemas'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, type MockInstance, vi } from 'vitest'
import { answers, firstAnswers, Receiver } from '../../support/assertions/http-receiver.js'
import { byHand, checkOf, deleteConsumers, untilReady } from '../../support/attacks/broken-topology.js'
import { Story, type StoryOptions } from '../../support/builders/story.js'
import { SILENT } from '../../support/dispatcher/dispatcher.js'
import { type AuditFixture, auditFixture, clockOf } from '../../support/fixtures/audit.js'
import { startProcess } from '../../support/processes/processes.js'
import { staysTrue, until } from '../../support/processes/until.js'

const SECRET = 'a secret of the receiver'
const CHANGE = {
  type: 'file_modification',
  path: 'src/a.ts',
  old_content: 'the old content',
  new_content: 'the new content',
  reason: 'names',
  confidence: 'high',
} as const
/** Returns that a worker stores without end. */
const FLOOD = 6_000
const BAD = { type: 'finding', severity: 'error', category: 'x', message: 'bad' } as const

/** Webhooks: signed, retried, at least once, and no more than policy wants told. */
describe('the notifier', () => {
  let fixture: AuditFixture
  let receiver: Receiver
  let running: Notifier | undefined
  let reads: MockInstance
  let count = 0

  beforeAll(async () => {
    fixture = await auditFixture()
    receiver = await Receiver.start()
  })
  afterEach(async () => {
    await running?.drain(1_000)
    running = undefined
    receiver.answering = answers(204)
  })
  afterAll(async () => {
    await receiver[Symbol.asyncDispose]()
    await fixture[Symbol.asyncDispose]()
  })

  const story = (options?: StoryOptions) => new Story(fixture.bus, `noticed-id-${String(++count).padStart(4, '0')}`, options)
  async function start(more: Partial<NotifierSettings> = {}): Promise<Notifier> {
    const bus = await fixture.connect('passover', { name: 'notifier' })
    reads = vi.spyOn(bus.journal, 'newest')
    const settings = { url: receiver.url, secret: SECRET, first_wait_ms: 20, longest_wait_ms: 100, ...more }
    running = await startNotifier({ bus, clock: clockOf(bus), log: SILENT }, settings)
    return running
  }

  it('makes its consumer anew when somebody deleted it, and tells what was stored meanwhile', async () => {
    const notifier = await start()
    const first = await story().whole()
    await receiver.got(first.key.id)
    // It asks every few seconds up to where all is acknowledged.
    await new Promise((asked) => setTimeout(asked, 3_500))
    await deleteConsumers(fixture.nats.servers, (name) => name === 'notifier')
    const between = await story().whole()
    await receiver.got(between.key.id)
    expect(checkOf(notifier, 'consumer').did?.what).toMatch(/recreated the consumer notifier, from \d+/)
    await untilReady([notifier])
  })

  it('goes on where an earlier version was, whose one consumer had all three filters, and has one filter each', async () => {
    const { subjects } = fixture.bus
    const filter_subjects = [subjects.all('held'), subjects.all('return'), subjects.allDecisions('return')]
    await deleteConsumers(fixture.nats.servers, (name) => name.startsWith('notifier'))
    await story().whole()
    const settings = { ack_policy: 'explicit', ack_wait: 30_000_000_000, max_ack_pending: 4096, max_waiting: 512 } as const
    await byHand(fixture.nats.servers, (manager) =>
      manager.consumers.add(subjects.stream, { durable_name: 'notifier', deliver_policy: 'new', filter_subjects, ...settings }),
    )
    const held = story({ reason: 'may I', policy: { approvers: ['maria'] } })
    await held.request()
    await held.held()
    const returned = await story().whole()
    const before = receiver.received.length
    await start()
    await Promise.all([held, returned].map(({ key }) => receiver.got(key.id)))
    await staysTrue(() => receiver.received.length === before + 2, { what: 'each is told once, and nothing of before', for_ms: 300 })
    const filters = await byHand(fixture.nats.servers, async (manager) => {
      const infos = await manager.consumers.list(subjects.stream).next()
      return infos.filter(({ name }) => name.startsWith('notifier')).map(({ config }) => config.filter_subjects ?? [config.filter_subject])
    })
    expect(filters.flat().sort()).toEqual([...filter_subjects].sort())
    expect(filters.map((of) => of.length)).toEqual([1, 1, 1])
  })

  it('posts returns and what waits for a person, signed, without what is in a file', async () => {
    await start()
    const held = story({ reason: 'may I', policy: { approvers: ['maria'] } })
    await held.request()
    await held.held()
    const [approval] = await receiver.got(held.key.id)
    expect(approval?.notice).toMatchObject({
      event: 'approval',
      item: 'dispatch',
      pass: held.key,
      reason: 'may I',
      digest: held.control().digest,
      approvers: ['maria'],
    })
    const critical = await story().whole({ artifacts: [BAD, CHANGE], summary: { ...held.output().summary, findings: ['bad'] } })
    const both = await receiver.got(critical.key.id, 2)
    expect(both.map(({ notice }) => notice.event).sort()).toEqual(['approval', 'return'])
    const returned = both.find(({ notice }) => notice.event === 'return')
    expect(returned?.notice).toMatchObject({
      status: 'awaiting_release',
      outcome: 'completed',
      issues: true,
      findings: { error: 1 },
      changes: 1,
      applied: false,
      awaits: 'return',
    })
    // Its changes wait from its release on; those of an output that needs none, at once.
    const stored = await fixture.bus.journal.last(fixture.bus.subjects.return(critical.key, critical.key.subagent))
    await critical.decides('return', 'maria', 'approve', sha256(stored!.data))
    const released = (await receiver.got(critical.key.id, 3))[2]
    expect(released?.notice).toMatchObject({ event: 'approval', item: 'apply', digest: sha256(stored!.data) })
    const changing = await receiver.got((await story().whole({ artifacts: [CHANGE] })).key.id, 2)
    expect(changing.map(({ notice }) => ('item' in notice ? notice.item : notice.event)).sort()).toEqual(['apply', 'return'])
    expect(new Set([...both, ...changing, released].map((one) => one?.notice.id)).size).toBe(5)
    for (const { body, headers, notice } of [...both, ...changing, released!, approval!]) {
      expect(body).not.toMatch(/the (old|new) content/)
      const signature = String(headers['passover-signature'])
      expect(verifyWebhook({ body, signature, secret: SECRET })).toMatchObject({ ok: true })
      expect(verifyWebhook({ body: `${body} `, signature, secret: SECRET })).toMatchObject({ ok: false })
      expect(headers['idempotency-key']).toBe(notice.id)
    }
  })

  it('tells of a return what its policy wants told: always, only issues, never', async () => {
    await start()
    const told: Record<string, string> = {}
    for (const notify_on_return of ['always', 'only_issues', 'never'] as const) {
      for (const issue of [true, false]) {
        const pass = await story({ policy: { notify_on_return, auto_return: true } }).whole({ artifacts: issue ? [BAD] : [] })
        told[pass.key.id] = `${notify_on_return} ${issue}`
      }
    }
    const last = await story().whole()
    await receiver.got(last.key.id)
    const came = receiver.received.flatMap(({ notice }) => (told[notice.pass.id] ? [told[notice.pass.id]] : []))
    expect(came.sort()).toEqual(['always false', 'always true', 'only_issues true'])
  })

  it('tries again until it is taken, with the same id, and follows no redirect', async () => {
    const elsewhere = await Receiver.start()
    // Long enough for an answer of this very process to come in time, on a machine that others use too.
    await start({ timeout_ms: 3_000 })
    receiver.answering = firstAnswers(2, answers(500))
    const failing = await story().whole()
    const tries = await receiver.got(failing.key.id, 3)
    expect(new Set(tries.map(({ notice }) => notice.id)).size).toBe(1)
    receiver.answering = firstAnswers(1, () => undefined)
    const slow = await story().whole()
    await receiver.got(slow.key.id, 2)
    receiver.answering = firstAnswers(1, answers(307, { location: elsewhere.url }))
    const moved = await story().whole()
    await receiver.got(moved.key.id, 2)
    await staysTrue(() => receiver.of(failing.key.id).length === 3, { what: 'what was taken is not sent again', for_ms: 300 })
    expect(elsewhere.received).toEqual([])
    await elsewhere[Symbol.asyncDispose]()
  })

  it('gives up after the time and the tries, and keeps that as a dead letter', async () => {
    const notifier = await start({ give_up_ms: 1, least_tries: 3 })
    receiver.answering = answers(500)
    const pass = await story().whole()
    await until(() => notifier.counts.given_up === 1, { what: 'it is given up' })
    expect(receiver.of(pass.key.id)).toHaveLength(3)
    const stored = await fixture.bus.journal.history(pass.key)
    expect(stored.some(({ subject }) => subject === fixture.bus.subjects.event(pass.key, 'dead_letter', 'passover'))).toBe(true)
  })

  it('tells an honest return at once behind thousands that count for nothing, also in a journal of megabytes', async () => {
    const theirs = story({ subagent: 'mallory' })
    const { subjects } = fixture.bus
    await start()
    await theirs.whole()
    const waiting = async () => {
      const info = await byHand(fixture.nats.servers, (manager) => manager.consumers.info(subjects.stream, 'notifier'))
      return info.num_pending + info.num_ack_pending
    }
    const store = async (subject: string, data: Uint8Array) => {
      const outcome = await fixture.bus.publish({ subject, headers: { [HEADER.attempt]: '1' }, data })
      if (outcome.kind !== 'stored') throw new Error(outcome.kind)
    }
    for (let n = 0; n < 9; n++) await store(subjects.fence(theirs.key, 'mallory'), new Uint8Array(900_000))
    const again = subjects.return(theirs.key, 'mallory')
    const unasked = (n: number) => subjects.return({ ...theirs.key, id: `never-requested-${n}` }, 'mallory')
    await Promise.all(Array.from({ length: FLOOD }, (_, n) => store(n % 2 ? again : unasked(n), encode({ v: 1 }))))
    const honest = await story().whole()
    await receiver.got(honest.key.id)
    await until(async () => (await waiting()) === 0, { what: 'all of them are taken', deadline_ms: 60_000, every_ms: 200 })
    expect(receiver.of(theirs.key.id)).toHaveLength(1)
    // Three for each return that is judged; most are of a worker that is known to flood by then.
    expect(reads.mock.calls.length).toBeLessThan(2 * FLOOD)
  })

  // Fails where each of these is judged: every one costs reads at the leader, and the agent stores them as fast as it likes.
  it('judges few returns of a worker that stores fences and returns of its own without end, and tells those of others', async () => {
    const { subjects, stream } = { subjects: fixture.bus.subjects, stream: fixture.bus.subjects.stream }
    await start()
    await byHand(fixture.nats.servers, async (manager) => {
      const { config } = await manager.consumers.info(stream, 'notifier')
      await manager.consumers.update(stream, 'notifier', { ...config, max_ack_pending: 500 })
    })
    const pair = async (n: number) => {
      const key = { originator: 'alice', subagent: 'mallory', id: `own-fence-${n}` }
      const subject = journalFilter(key)
      let sequence = 0
      for (const step of [subjects.fence(key, 'mallory'), subjects.return(key, 'mallory')]) {
        const headers = { [HEADER.attempt]: '1' }
        const outcome = await fixture.bus.publish({ subject: step, headers, data: encode({ v: 1 }), guard: { subject, sequence } })
        if (outcome.kind !== 'stored') throw new Error(outcome.kind)
        sequence = outcome.sequence
      }
    }
    await Promise.all(Array.from({ length: FLOOD }, (_, n) => pair(n)))
    const honest = await story().whole()
    await receiver.got(honest.key.id)
    await until(
      async () => {
        const info = await byHand(fixture.nats.servers, (manager) => manager.consumers.info(stream, 'notifier'))
        return info.num_pending + info.num_ack_pending === 0
      },
      { what: 'all of them are taken', deadline_ms: 60_000, every_ms: 200 },
    )
    // Three for each that is judged.
    expect(reads.mock.calls.length).toBeLessThan(2 * FLOOD)
    await running?.drain(1_000)
    await deleteConsumers(fixture.nats.servers, (name) => name.startsWith('notifier'))
  })

  describe('beside an agent that floods', () => {
    const slowly = (ms: number): typeof receiver.answering => {
      return (response) => void setTimeout(() => response.writeHead(204).end(), ms)
    }
    const ofMallory = () => receiver.received.filter(({ notice }) => notice.root.originator === 'mallory').length
    const makes = {
      held: async (one: Story) => {
        await one.request()
        await one.held()
      },
      return: async (one: Story) => void (await one.whole()),
    }
    const flood = (kind: keyof typeof makes, many: number) =>
      Promise.all(Array.from({ length: many }, () => makes[kind](story({ originator: 'mallory' }))))

    beforeEach(() => {
      receiver.received.length = 0
    })
    // What waits must not come in a later test.
    afterEach(async () => {
      await running?.drain(1_000)
      await deleteConsumers(fixture.nats.servers, (name) => name.startsWith('notifier'))
    })

    it.each(['held', 'return'] as const)('tells a %s of another agent in its turn', async (kind) => {
      receiver.answering = slowly(50)
      await start({ concurrency: 4 })
      await flood(kind, 400)
      const before = ofMallory()
      const honest = story({ originator: 'bob' })
      await makes[kind](honest)
      await receiver.got(honest.key.id)
      expect(before).toBeLessThan(300)
      expect(ofMallory() - before).toBeLessThan(50)
    })

    it('gives up what comes again and again of the one that floods where others may wait behind it at the server', async () => {
      receiver.answering = slowly(50)
      const notifier = await start({ concurrency: 4, least_tries: 3 })
      await byHand(fixture.nats.servers, async (manager) => {
        const { config } = await manager.consumers.info(fixture.bus.subjects.stream, 'notifier_held')
        await manager.consumers.update(fixture.bus.subjects.stream, 'notifier_held', { ...config, max_ack_pending: 40 })
      })
      await flood('held', 300)
      const honest = story({ originator: 'bob' })
      await makes.held(honest)
      await receiver.got(honest.key.id)
      expect(ofMallory()).toBeLessThan(200)
      receiver.answering = answers(204)
      await until(() => ofMallory() + notifier.counts.given_up === 300, { what: 'each is told or given up', deadline_ms: 60_000 })
      expect(notifier.counts.given_up).toBeGreaterThan(50)
      expect(receiver.of(honest.key.id)).toHaveLength(1)
    })
  })

  it('goes on where it was when it was killed in the middle of a delivery', async () => {
    const env = {
      NATS_URL: fixture.nats.url,
      PASSOVER_WEBHOOK_URL: receiver.url,
      PASSOVER_WEBHOOK_SECRET: SECRET,
      PASSOVER_LOG_LEVEL: 'info',
    }
    const main = fileURLToPath(new URL('../../../services/notifier/dist/main.js', import.meta.url))
    await using first = startProcess(main, { env })
    await until(() => first.stderr.includes('notifier started'), { what: 'it runs' })
    receiver.answering = () => undefined
    const pass = await story().whole()
    const [begun] = await receiver.got(pass.key.id)
    await first.kill('SIGKILL')
    receiver.answering = answers(204)
    const missed = await story().whole()
    await using _second = startProcess(main, { env })
    await receiver.got(missed.key.id)
    await until(() => receiver.of(pass.key.id).length === 2, { what: 'the broken-off one comes again', deadline_ms: 120_000 })
    expect(receiver.of(pass.key.id)[1]?.notice).toEqual(begun?.notice)
  })
})
