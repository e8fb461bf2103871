import { randomBytes } from 'node:crypto'
import { startAudit } from '@passover/audit'
import { openBus, type Principal } from '@passover/bus'
import { startDispatcher } from '@passover/dispatcher'
import { startGateway } from '@passover/gateway'
import { createAgent } from '@passover/sdk'
import { connectHttp } from '@passover/sdk/http'
import { describe, expect, it } from 'vitest'
import { clockOf, SILENT } from '../support/dispatch.js'
import { TEST_TOKENS } from '../support/gateway.js'
import { PERMITTED_MODES } from '../support/isolated.js'
import { registerAgent } from '../support/register.js'
import { until } from '../support/until.js'

const alice: Principal = { role: 'agent', name: 'alice', originates: true, subagent: false }
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

    const { id } = await client('agent~alice').passes.create(request, { wait_s: 20 })
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
