import { connect, credsAuthenticator, headers, type NatsConnection } from '@nats-io/transport-node'
import type { Bus, Principal } from '@passover/bus'
import { issueAgent, issueAgentUser, issueCore, issueCoreUser, type KeyText, readToken, type SignedAccount } from '@passover/bus/auth'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { until } from '../../support/processes/until.js'
import { isolatedFixture } from '../../support/servers/isolated.js'
import { openProbe, type Probe, permittedFixture } from '../../support/servers/permitted.js'

const alice = { role: 'agent', name: 'alice', originates: true, subagent: false } as const
const scout = { role: 'agent', name: 'scout', originates: true, subagent: true } as const
const mallory = { role: 'agent', name: 'mallory', originates: true, subagent: true } as const
const maria: Principal = { role: 'custodian', name: 'maria' }
const dispatcher: Principal = { role: 'dispatcher' }
const audit: Principal = { role: 'audit' }
const EVERYBODY = [alice, scout, mallory, maria, dispatcher, audit]

const API = '$JS.API'
const ID = '0abcdefg0abcdefgh_ABCDEFGHIJKLMN'
const TRACE_DEST = 'Nats-Trace-Dest'

/** Subjects that mallory may not publish to, each with a body that does harm there. */
const TARGETS: [subject: string, body?: string | object][] = [
  [`decision.alice.scout.${ID}.dispatch.maria`],
  [`return.alice.scout.${ID}.scout`],
  [`return.alice.scout.${ID}.passover`],
  [`work.alice.scout.${ID}.high`],
  [`held.alice.scout.${ID}.passover`],
  [`fence.alice.scout.${ID}.scout`],
  ['request.scout.alice'],
  ['policy.maria'],
  ['agent.maria'],
  ['custody.maria'],
  ['acknowledged.alice'],
  ['$KV.agents.mallory'],
  ['$KV.policy.current'],
  ['$KV.budgets.alice.scout.x'],
  ['$O.parts.alice.C.x.0'],
  [`returned.alice.0abcdefg.${ID.slice(8)}.scout.scout`],
  ['decided.alice'],
  ['_INBOX_alice.x.y'],
  ['_INBOX_passover.x.y'],
  ['ask.alice'],
  ['register.alice'],
  [`${API}.CONSUMER.MSG.NEXT.PASSOVER.work_scout_high`, { batch: 1, no_wait: true }],
  [`${API}.CONSUMER.CREATE.PASSOVER`, { stream_name: 'PASSOVER', config: { deliver_subject: '_INBOX_mallory.all', ack_policy: 'none' } }],
  [`${API}.STREAM.MSG.DELETE.PASSOVER`, { seq: 1 }],
  [`${API}.CONSUMER.DELETE.PASSOVER.work_scout_high`],
  [`${API}.STREAM.PURGE.PASSOVER`],
]

interface Source {
  /** What makes the server, or a service, publish for mallory. */
  what: string
  /** Which targets it reaches within one account. Default: all. */
  reaches?: (subject: string) => boolean
  /** Names `reply` there, so that an answer goes to it. */
  send: (nc: NatsConnection, reply: string, body: string) => Promise<void>
}

let parts = 0
const SOURCES: Source[] = [
  {
    what: 'a direct get of a part that it stored',
    async send(nc, reply, body) {
      const subject = `$O.parts.mallory.C.x${parts++}.0`
      const more = headers()
      more.set('Passover-Digest', 'forged')
      await nc.request(subject, body, { headers: more, timeout: 5_000 })
      nc.publish(`${API}.DIRECT.GET.OBJ_parts_mallory.${subject}`, '', { reply })
    },
  },
  {
    what: 'a direct get that finds nothing',
    send: async (nc, reply) => nc.publish(`${API}.DIRECT.GET.OBJ_parts_mallory.$O.parts.mallory.M.nothing`, '', { reply }),
  },
  { what: 'the acknowledgment of its own publish', send: async (nc, reply) => nc.publish('request.scout.mallory', 'x', { reply }) },
  {
    what: 'the status of a pull',
    send: async (nc, reply) =>
      nc.publish(`${API}.CONSUMER.MSG.NEXT.PASSOVER.work_mallory_low`, JSON.stringify({ batch: 1, no_wait: true }), { reply }),
  },
  {
    what: 'what is known of its consumer',
    send: async (nc, reply) => nc.publish(`${API}.CONSUMER.INFO.PASSOVER.work_mallory_low`, '', { reply }),
  },
  {
    what: 'the answer of a service',
    // Services answer inboxes only.
    reaches: (subject) => subject.startsWith('_INBOX_'),
    send: async (nc, reply) => nc.publish('ask.mallory', '{}', { reply }),
  },
  {
    what: 'the trace of a message',
    // The server checks the permission for this one.
    reaches: () => false,
    async send(nc, reply) {
      const traced = headers()
      traced.set(TRACE_DEST, reply)
      nc.publish('request.scout.mallory', 'x', { headers: traced })
    },
  },
]

const MODES = [
  { mode: 'in one account, permissions let it', start: permittedFixture, reached: true },
  { mode: 'with an account of its own, nothing lets it', start: isolatedFixture, reached: false },
]

describe.each(MODES)('an agent that has others publish for it: $mode', ({ start, reached }) => {
  const opened: AsyncDisposable[] = []
  const heard = new Set<string>()
  let admin: NatsConnection
  let attacker: Probe
  let system: Bus

  beforeAll(async () => {
    const fixture = await start(EVERYBODY)
    opened.push(fixture)
    admin = (await openProbe(fixture.nats, { user: 'admin', credentials: fixture.admin, inboxPrefix: '_INBOX_admin' })).nc
    system = await fixture.bus(dispatcher)
    await system.ensureTopology()
    for (const agent of [alice, scout, mallory])
      await system.ensureAgent(agent.name, { subagent: agent.subagent, max_attempts: 3, lease_ms: 5_000 })
    const answering = await fixture.bus(audit)
    await answering.answer(async () => 'x')
    attacker = await fixture.probe(mallory)
    admin.subscribe('>', { callback: (_, message) => void heard.add(message.subject) })
    await admin.flush()
  })
  afterAll(async () => {
    for (const one of opened) await one[Symbol.asyncDispose]()
  })

  /** Whether something arrived at the subject in the account of JetStream, once the same source has answered an honest request too. */
  const arrives = async (source: Source, [subject, body = 'forged']: (typeof TARGETS)[number]): Promise<boolean> => {
    const text = typeof body === 'string' ? body : JSON.stringify(body)
    heard.clear()
    await source.send(attacker.nc, subject, text)
    const honest = `_INBOX_mallory.honest${parts++}`
    const subscription = attacker.nc.subscribe(honest)
    await source.send(attacker.nc, honest, text)
    await attacker.nc.flush()
    await until(() => subscription.getReceived() > 0, { what: `${source.what} answers`, deadline_ms: 20_000 })
    subscription.unsubscribe()
    await admin.flush()
    return heard.has(subject)
  }

  it.each(SOURCES)('$what', async (source) => {
    const arrived: string[] = []
    for (const target of TARGETS) if (await arrives(source, target)) arrived.push(target[0])
    const { reaches = () => true } = source
    expect(arrived).toEqual(reached ? TARGETS.map(([subject]) => subject).filter(reaches) : [])
  })

  it('cannot acknowledge the work of another', async () => {
    const work = admin.subscribe('_INBOX_admin.work')
    const next = `${API}.CONSUMER.MSG.NEXT.PASSOVER.work_scout_medium`
    admin.publish(`work.alice.scout.${ID}.medium`, 'x')
    admin.publish(next, JSON.stringify({ batch: 1 }), { reply: '_INBOX_admin.work' })
    let ack = ''
    for await (const { reply } of work) {
      ack = reply ?? ''
      break
    }
    const [bounce] = SOURCES
    await bounce?.send(attacker.nc, ack, '+TERM')
    await attacker.nc.flush()
    const info = await admin.request(`${API}.CONSUMER.INFO.PASSOVER.work_scout_medium`)
    expect(info.json()).toMatchObject({ num_ack_pending: 1 })
  })

  it('the stream and its consumers are as they were', async () => {
    const { consumers } = await system.inspect()
    expect(consumers.includes('work_scout_high')).toBe(!reached)
    expect((await system.bounds()).first > 1).toBe(reached)
  })
})

describe('accounts of a running server', () => {
  it('are added, changed, revoked and removed without a restart and without touching others', async () => {
    await using fixture = await isolatedFixture([alice, scout, dispatcher])
    const { installation, resolver, accounts } = fixture
    const system = await fixture.bus(dispatcher)
    await system.ensureTopology()
    const before = await resolver.lookup(installation.core.id)
    const watched = await fixture.probe(alice)
    const statuses: string[] = []
    void (async () => {
      for await (const { type } of watched.nc.status()) statuses.push(type)
    })()

    await fixture.add(mallory)
    const added = await fixture.probe(mallory)
    expect(await added.publish('request.scout.mallory')).toBe('allowed')
    expect((await system.journal.newest('request.scout.mallory'))?.subject).toBe('request.scout.mallory')
    expect(await resolver.lookup(installation.core.id)).toBe(before)
    expect(new Set(await resolver.list())).toEqual(
      new Set([installation.core.id, installation.system.id, ...[...accounts.values()].map(({ id }) => id)]),
    )

    // Rights change on the connection that is there.
    const worker = await fixture.probe(scout)
    const { jwt } = await issueAgent(installation, { ...scout, originates: false }, { key: accounts.get('scout') as KeyText })
    expect(await worker.publish('request.mallory.scout')).toBe('allowed')
    await resolver.push(jwt)
    await until(async () => (await worker.publish('request.mallory.scout')) === 'refused', {
      what: 'the right is gone',
      deadline_ms: 20_000,
    })
    expect(await worker.publish(`return.alice.scout.${ID}.scout`)).toBe('allowed')

    // Credentials are revoked; those issued afterwards work.
    const account = accounts.get('mallory') as KeyText
    const revoked = await issueAgent(installation, mallory, { key: account, revocations: { '*': Math.floor(Date.now() / 1000) } })
    await resolver.push(revoked.jwt)
    await until(() => added.nc.isClosed(), { what: 'the connection is closed', deadline_ms: 20_000 })
    await expect(fixture.probe(mallory)).rejects.toThrow(/authorization/i)
    const later = Math.ceil(Date.now() / 1000) * 1000 + 1_000
    await until(() => Date.now() > later, { what: 'a later second', deadline_ms: 5_000 })
    const { creds } = await issueAgentUser(mallory, account)
    const again = await openProbe(fixture.nats, { user: 'mallory', credentials: { creds }, inboxPrefix: '_INBOX_mallory' })
    expect(await again.publish('request.scout.mallory')).toBe('allowed')

    // An account is removed.
    await resolver.remove([account.id], installation.operator)
    await until(() => again.nc.isClosed(), { what: 'the connection is closed', deadline_ms: 20_000 })
    expect(await resolver.list()).not.toContain(account.id)
    await expect(openProbe(fixture.nats, { user: 'mallory', credentials: { creds }, inboxPrefix: '_INBOX_mallory' })).rejects.toThrow(
      /authorization/i,
    )

    expect([watched.nc.isClosed(), statuses.filter((type) => type !== 'ping')]).toEqual([false, []])
  })

  it('keep what was pushed over a restart, revocations of people and services too', async () => {
    await using fixture = await isolatedFixture([alice, maria])
    const { installation, resolver } = fixture
    const issued = await issueCoreUser(installation, maria)
    // Tokens name whole seconds, and of two that name the same one the server keeps that of its configuration.
    const { issued_at } = readToken(installation.core.jwt)
    await until(() => Math.floor(Date.now() / 1000) > issued_at, { what: 'the next second' })
    const core = await issueCore(installation, { [issued.id]: Math.floor(Date.now() / 1000) })
    await resolver.push(core.jwt)
    // The server's configuration still has the older token.
    await fixture.nats.node.restart()
    const connect = (creds: string) => openProbe(fixture.nats, { user: 'maria', credentials: { creds }, inboxPrefix: '_INBOX_maria' })
    await expect(connect(issued.creds)).rejects.toThrow(/authorization/i)
    await using _other = await fixture.probe(maria)
    await using _agent = await fixture.probe(alice)
  })

  it('bound the connections of an agent, and the subscriptions of each', async () => {
    await using fixture = await isolatedFixture([alice, mallory])
    const subscribed = async (many: number) => {
      const { nc } = await fixture.probe(mallory)
      const refused: string[] = []
      void (async () => {
        for await (const status of nc.status()) if (status.type === 'error') refused.push(status.error.message)
      })()
      for (let n = 0; n < many; n++) nc.subscribe(`returned.mallory.${n}.>`, { callback: () => {} })
      await nc.flush()
      await new Promise((next) => setImmediate(next))
      return { refused, closed: nc.isClosed() }
    }
    expect(await subscribed(1_900)).toEqual({ refused: [], closed: false })
    // Each connection has a limit of its own.
    const beyond = await subscribed(2_100)
    expect(beyond.refused.length).toBeGreaterThan(50)
    expect([beyond.refused[0], beyond.closed]).toEqual([expect.stringMatching(/maximum subscriptions exceeded/i), false])

    const account = fixture.accounts.get('mallory') as SignedAccount
    // A token of the same second is not newer.
    await until(() => Math.floor(Date.now() / 1000) > readToken(account.jwt).issued_at, { what: 'the next second' })
    const { jwt } = await issueAgent(fixture.installation, mallory, { key: account, connections: 3 })
    await fixture.resolver.push(jwt)
    const { creds } = fixture.credentials(mallory) as { creds: string }
    const open: NatsConnection[] = []
    const another = async () => {
      const authenticator = credsAuthenticator(new TextEncoder().encode(creds))
      open.push(
        await connect({ servers: fixture.nats.servers, authenticator, inboxPrefix: '_INBOX_mallory', timeout: 1_000, reconnect: false }),
      )
    }
    const isRefused = () =>
      another().then(
        () => false,
        () => true,
      )
    await until(isRefused, { what: 'a connection is refused', deadline_ms: 20_000 })
    expect(open.length).toBeLessThan(100)
    await using _other = await fixture.probe(alice)
    await Promise.all(open.map((nc) => nc.close()))
  })

  it('have every question answered, and what no service takes is forgotten', async () => {
    await using fixture = await isolatedFixture([alice, mallory, { role: 'audit' }])
    const remembered = async () => {
      const address = new URL(`/accountz?acc=${fixture.installation.core.id}`, fixture.nats.node.monitor)
      const { account_detail } = (await (await fetch(address)).json()) as { account_detail: { responses?: Record<string, object> } }
      return Object.keys(account_detail.responses ?? {}).length
    }
    const { nc } = await fixture.probe(mallory)
    const ask = async (count: number, body: string) => {
      for (let n = 0; n < count; n++) nc.publish('ask.mallory', body, { reply: `_INBOX_mallory.q${n}` })
      await nc.flush()
    }
    const audit = await fixture.bus({ role: 'audit' })
    const answering = await audit.answer(async (_, question) => {
      const { op } = question as { op?: string }
      if (op === 'throw') throw new Error('cannot')
      // JSON has no form for it.
      return op === 'unencodable' ? 1n : undefined
    })
    for (const body of ['{"op":"x"}', '{"op":"throw"}', '{"op":"unencodable"}', 'no body']) await ask(100, body)
    // Long before the server would forget them by itself.
    await until(async () => (await remembered()) === 0, { what: 'each has its answer', deadline_ms: 5_000 })
    await answering.drain()
    // A service that hangs: it takes questions and says nothing.
    const { nc: hanging } = await fixture.probe({ role: 'audit' })
    hanging.subscribe('ask.*')
    await hanging.flush()
    await ask(100, '{"op":"x"}')
    expect(await remembered()).toBeGreaterThanOrEqual(100)
    await until(async () => (await remembered()) === 0, { what: 'the server forgets them', deadline_ms: 60_000 })
  })

  it('end at the time that was signed', async () => {
    await using fixture = await isolatedFixture([alice])
    const account = fixture.accounts.get('alice') as KeyText
    const { creds } = await issueAgentUser(alice, account, { expires_at: Math.floor(Date.now() / 1000) + 2 })
    const short = await openProbe(fixture.nats, { user: 'alice', credentials: { creds }, inboxPrefix: '_INBOX_alice' })
    await until(() => short.nc.isClosed(), { what: 'the connection is closed', deadline_ms: 20_000 })
  })
})
