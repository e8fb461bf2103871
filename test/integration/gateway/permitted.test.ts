import { randomBytes } from 'node:crypto'
import { startAudit } from '@passover/audit'
import { type Bus, openBus, type Principal } from '@passover/bus'
import { issueAgent, issueAgentUser, issueCoreUser, readToken, type SignedAccount } from '@passover/bus/auth'
import { startDispatcher } from '@passover/dispatcher'
import { startGateway } from '@passover/gateway'
import { connectHttp } from '@passover/sdk/http'
import { createAgent } from '@passover/sdk/internal'
import { describe, expect, it } from 'vitest'
import { registerAgent } from '../../support/builders/register.js'
import { clockOf, SILENT } from '../../support/dispatcher/dispatcher.js'
import { TEST_TOKENS } from '../../support/fixtures/gateway.js'
import { until } from '../../support/processes/until.js'
import { isolatedFixture, PERMITTED_MODES } from '../../support/servers/isolated.js'

const alice = { role: 'agent', name: 'alice', originates: true, subagent: false } as const
const judge: Principal = { role: 'agent', name: 'judge', originates: false, subagent: true }
const maria: Principal = { role: 'person', name: 'maria' }
const services = { dispatcher: { role: 'dispatcher' }, audit: { role: 'audit' }, gateway: { role: 'gateway' } } as const

/** Ended in the reverse order. */
function disposables() {
  const all: AsyncDisposable[] = []
  return {
    use<T extends AsyncDisposable>(one: T): T {
      all.unshift(one)
      return one
    },
    async [Symbol.asyncDispose]() {
      for (const one of all) await one[Symbol.asyncDispose]()
    },
  }
}

describe.each(PERMITTED_MODES)('a gateway on a server that enforces who may do what, $mode', ({ start }) => {
  it('acts as the owners of tokens by their own credentials, and by its own user for nobody', async () => {
    await using fixture = await start([alice, judge, maria, ...Object.values(services)])
    await using opened = disposables()
    const random = { bytes: (n: number) => randomBytes(n) }
    const dispatching = await fixture.bus(services.dispatcher)
    await dispatching.ensureTopology()
    const dispatcher = await startDispatcher({ bus: dispatching, clock: clockOf(dispatching), random, log: SILENT })
    opened.use({ [Symbol.asyncDispose]: () => dispatcher.drain(1_000) })
    const auditing = await fixture.bus(services.audit)
    opened.use(await startAudit({ bus: auditing, clock: clockOf(auditing), random, log: SILENT }, { people: ['maria'] }))
    const person = await fixture.bus(maria)
    for (const name of ['alice', 'judge']) {
      await registerAgent(person, {
        name,
        roles: { originates: 'always', subagent: name === 'judge' },
        registered_by: 'maria',
        updated_at: 1,
      })
    }
    const judging = await fixture.bus(judge)
    const worker = opened.use(createAgent({ bus: judging, clock: clockOf(judging), random }, { directory: '/p' }))
    await worker.onPass(() => 'judged')

    const own = await fixture.bus(services.gateway)
    const held = new Map([alice, maria].map((one) => [(one as { name: string }).name, fixture.credentials(one)]))
    const connect = (identity: string) => {
      const credentials = held.get(identity)
      return credentials && openBus({ servers: fixture.nats.servers, identity, credentials, onError: () => undefined })
    }
    const gateway = opened.use(startGateway({ bus: own, clock: clockOf(own), log: SILENT, connect, tokens: TEST_TOKENS }, { port: 0 }))
    const { url } = await gateway.listen()
    const request = { subagent: 'judge', reason: 'r', work_context: { objective: 'o' } }
    const client = (token: string) => connectHttp({ url, token })

    const { id } = await client('agent~alice').passes.create(request, { waitSeconds: 20 })
    expect(await client('maria').passes.get(id)).toMatchObject({ output: { output: 'judged' } })
    const mine: unknown[] = []
    await until(
      async () => {
        mine.length = 0
        for await (const entry of client('agent~alice').audit()) mine.push(entry)
        return mine.length > 0 ? true : undefined
      },
      { what: 'its entry is recorded' },
    )
    // A token of a person is no token of an agent: the server refuses the request that the person would publish.
    const refused = { code: 'E013', context: { status: 403 } }
    await expect(client('maria').passes.create(request)).rejects.toMatchObject(refused)
    await expect(client('maria').passes.create(request, { key: 'with a name of its own' })).rejects.toMatchObject(refused)
    // Nobody's credentials: nobody's name.
    await expect(client('agent~judge').passes.create(request)).rejects.toMatchObject({ code: 'E013', context: { status: 403 } })
    expect(gateway.health()).toMatchObject({ ready: true })

    await using probe = await fixture.probe(services.gateway)
    const { subjects } = fixture
    const key = { originator: 'alice', subagent: 'judge', id }
    const forbidden = [
      subjects.request('judge', 'alice'),
      subjects.decision(key, 'dispatch', 'maria'),
      subjects.event(key, 'cancel', 'maria'),
      subjects.return(key, 'judge'),
      subjects.policy('maria'),
      subjects.ask('maria'),
    ]
    for (const subject of forbidden) expect([subject, await probe.publish(subject)]).toEqual([subject, 'refused'])
  })
})

/** What a reader of a feed has got so far. */
function reads(response: Response) {
  const state = { status: response.status, text: '', ended: false }
  const read = async () => {
    for await (const text of response.body?.pipeThrough(new TextDecoderStream()) ?? []) state.text += text
  }
  const finished = () => {
    state.ended = true
  }
  void read().then(finished, finished)
  return state
}

// The gateway reads the stream for agents by its own connection, which does not end with an owner's credentials.
describe('owners of tokens whose credentials end', () => {
  it('are told nothing more: open feeds end, and new ones and numbers are refused', async () => {
    const bob = { role: 'agent', name: 'bob', originates: true, subagent: false } as const
    await using fixture = await isolatedFixture([alice, bob, maria, ...Object.values(services)])
    await using opened = disposables()
    const { installation, accounts, nats } = fixture
    await (await fixture.bus(services.dispatcher)).ensureTopology()
    const [alices, bobs] = [accounts.get('alice') as SignedAccount, accounts.get('bob') as SignedAccount]
    // Tokens name whole seconds, and one of the same second is not newer.
    await until(() => Math.floor(Date.now() / 1_000) > readToken(alices.jwt).issued_at, { what: 'the next second' })
    const expires_at = Math.floor(Date.now() / 1_000) + 4
    const revoked = await issueAgentUser(alice, alices)
    const given = new Map([
      ['alice', revoked],
      ['bob', await issueAgentUser(bob, bobs, { expires_at })],
      ['maria', await issueCoreUser(installation, maria, { expires_at })],
    ])
    const held = new Map<string, Bus>()
    const connect = (identity: string) => {
      const credentials = given.get(identity)
      const remembered = async (user: { creds: string }) => {
        const bus = await openBus({ servers: nats.servers, identity, credentials: { creds: user.creds }, onError: () => undefined })
        held.set(identity, bus)
        return bus
      }
      return credentials && remembered(credentials)
    }
    const own = await fixture.bus(services.gateway)
    const deps = { bus: own, clock: clockOf(own), log: SILENT, connect, tokens: TEST_TOKENS }
    const gateway = opened.use(startGateway(deps, { recheck_ms: 20 }))
    const get = async (token: string, path: string) =>
      gateway.app.request(`http://localhost${path}`, { headers: { authorization: `Bearer ${token}` } })
    const feed = async (token: string) => reads(await get(token, '/api/pass-over/events?after=0'))
    const others = { alice: await fixture.bus(alice), bob: await fixture.bus(bob) }
    /** Stores a request, by credentials that do not end. */
    const ask = async (by: 'alice' | 'bob') => {
      const agent = createAgent({ bus: others[by], clock: clockOf(others[by]), random: { bytes: randomBytes } }, { directory: '/p' })
      const handle = agent.passOver({ subagent: 'judge', reason: 'r', work_context: { objective: 'o' } })
      handle.result().catch(() => undefined)
      await handle.stored
      return handle.id
    }

    const feeds = { alice: await feed('agent~alice'), bob: await feed('agent~bob'), maria: await feed('maria') }
    const told = { alice: await ask('alice'), bob: await ask('bob') }
    await until(() => feeds.alice.text.includes(told.alice), { what: 'the feed of alice tells' })
    await until(() => feeds.bob.text.includes(told.bob), { what: 'the feed of bob tells' })
    await until(() => feeds.maria.text.includes(told.bob), { what: 'the feed of maria tells' })
    expect((await get('maria', '/metrics')).status).toBe(200)

    const revocations = { [revoked.id]: Math.floor(Date.now() / 1_000) }
    await fixture.resolver.push((await issueAgent(installation, alice, { key: alices, revocations })).jwt)
    const cutOff = (name: string) =>
      until(() => held.get(name)?.connected === false, { what: `the server closes the connection of ${name}`, deadline_ms: 20_000 })
    // At once: before the next attempt to connect says that the credentials are refused.
    await cutOff('alice')
    const unseen = await ask('alice')
    expect((await feed('agent~alice')).status).toBe(503)
    await cutOff('maria')
    expect((await get('maria', '/metrics')).status).toBe(503)
    await cutOff('bob')
    const late = [await ask('alice'), await ask('bob')]
    for (const name of ['alice', 'bob', 'maria'] as const) {
      await until(() => feeds[name].ended, { what: `the feed of ${name} ends` })
      for (const id of late) expect(feeds[name].text).not.toContain(id)
    }
    expect(feeds.alice.text).not.toContain(unseen)
    for (const token of ['agent~alice', 'agent~bob', 'maria']) {
      expect([token, (await feed(token)).status]).toEqual([token, 503])
      expect([token, (await get(token, '/api/pass-over/passes')).status]).toEqual([token, 503])
    }
    expect((await get('maria', '/metrics')).status).toBe(503)
    given.delete('alice')
    expect((await feed('agent~alice')).status).toBe(403)
    // Credentials that are issued again count at once.
    given.set('maria', await issueCoreUser(installation, maria))
    const again = await feed('maria')
    await until(() => late.every((id) => again.text.includes(id)), { what: 'maria is told what she missed' })
  })
})
