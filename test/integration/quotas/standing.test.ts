import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { startAudit } from '@passover/audit'
import { type Bus, openBus, permissionsFor, Subjects } from '@passover/bus'
import { startDispatcher } from '@passover/dispatcher'
import type { HealthReport } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { checkAudit, noteUnknownPerson } from '../../../packages/cli/src/doctor/audit.js'
import { checkStores } from '../../../packages/cli/src/doctor/stores.js'
import { clockOf, random, SILENT } from '../../support/dispatcher/dispatcher.js'
import { until } from '../../support/processes/until.js'
import { type NatsFixture, natsFixture } from '../../support/servers/nats.js'
import { permittedFixture } from '../../support/servers/permitted.js'

const SERVER_BYTES = 12_000_000

async function running(nats: NatsFixture, audit: { people?: string[]; open?: boolean }) {
  const busOf = (identity: string) => openBus({ servers: nats.servers, identity })
  const [bus, auditBus, person] = await Promise.all([busOf('passover'), busOf('passover'), busOf('maria')])
  await bus.ensureTopology()
  const deps = { random, log: SILENT }
  const dispatcher = await startDispatcher({ ...deps, bus, clock: clockOf(bus) }, { stores_ms: 100, snapshot_ms: 200 })
  const auditor = await startAudit({ ...deps, bus: auditBus, clock: clockOf(auditBus) }, audit)
  const nc = await connect({ servers: nats.servers })
  return {
    dispatcher,
    auditor,
    person,
    nc,
    jsm: await jetstreamManager(nc),
    async [Symbol.asyncDispose]() {
      await dispatcher.drain(200)
      await auditor.drain(200)
      await nc.close()
      for (const one of [bus, auditBus, person]) await one[Symbol.asyncDispose]()
    },
  }
}

const rows = async (bus: Bus, max_storage?: number) => [...checkStores(await bus.inspect(), { max_storage }), ...(await checkAudit(bus))]
const troubled = (report: HealthReport, name: string) =>
  report.checks.find((check) => check.name === name && check.state !== 'ok' && !report.ready)?.what

describe('doctor and health name', () => {
  it('a server whose storage is full, and who uses it', async () => {
    await using nats = await natsFixture({ config: { max_file_bytes: SERVER_BYTES } })
    await using world = await running(nats, { people: ['maria'] })
    const { nc, dispatcher, person } = world
    let full = false
    for (let n = 0; !full; n++) {
      const answer = await nc.request(`event.a.b.abcdefgh${n}.progress.b`, new Uint8Array(900_000), { timeout: 5_000 })
      full = answer.string().includes('10023')
    }
    // Any write of the dispatcher shows it; the next one that is stored ends it.
    nc.publish('request.b.a', 'malformed')
    await until(() => troubled(dispatcher.health(), 'storage')?.includes('storage of the server or account is full'), {
      what: 'health of the dispatcher',
    })
    expect(await rows(person, SERVER_BYTES)).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ name: 'storage', state: 'broken', text: expect.stringContaining("the server's storage is full") }),
        expect.objectContaining({ name: 'storage', state: 'look', text: expect.stringContaining('without max_bytes: ') }),
      ]),
    )
  })

  it('a paused consumer, a sealed stream, and an audit that does not know the person', async () => {
    await using nats = await natsFixture()
    await using world = await running(nats, { people: ['ann'] })
    const { jsm, nc, dispatcher, person } = world
    expect(await rows(person)).toEqual([
      expect.objectContaining({ state: 'broken', text: expect.stringContaining('does not know maria as a person') }),
    ])
    await jsm.consumers.pause('PASSOVER', 'dispatcher', new Date(Date.now() + 3_600_000))
    await until(() => troubled(dispatcher.health(), 'consumers')?.includes('the consumer dispatcher is paused'), { what: 'the pause' })
    expect(await rows(person)).toEqual(
      expect.arrayContaining([expect.objectContaining({ state: 'broken', mend: 'nats consumer resume PASSOVER dispatcher' })]),
    )
    await jsm.consumers.resume('PASSOVER', 'dispatcher')
    await until(() => dispatcher.health().ready, { what: 'the end of the pause' })
    const { config } = await jsm.streams.info('PASSOVER')
    const sealed = { ...config, sealed: true, deny_delete: true, deny_purge: true, allow_rollup_hdrs: false }
    await nc.request('$JS.API.STREAM.UPDATE.PASSOVER', JSON.stringify(sealed))
    expect(await rows(person)).toEqual(
      expect.arrayContaining([expect.objectContaining({ name: 'sealed', state: 'broken', text: expect.stringContaining('PASSOVER') })]),
    )
    expect((await nc.request('request.b.a', 'x')).string()).toContain('sealed')
  })

  it('an audit that was started without people, also to a person whose list is empty', async () => {
    await using nats = await natsFixture()
    await using world = await running(nats, {})
    const { auditor, person } = world
    expect(await checkAudit(person)).toEqual([
      {
        name: 'audit',
        state: 'broken',
        text: 'the audit service was started without PASSOVER_PEOPLE: lists show only passes of maria, and the inbox is empty',
        mend: 'start the audit service with PASSOVER_PEOPLE=maria',
      },
    ])
    const notes: string[] = []
    await noteUnknownPerson(person, { note: (text) => notes.push(text) })
    expect(notes).toEqual([expect.stringMatching(/started without PASSOVER_PEOPLE.*PASSOVER_PEOPLE=maria/)])
    expect(auditor.health().checks).toContainEqual(expect.objectContaining({ name: 'people', state: 'recovering' }))
  })

  it('an audit that may not receive questions, and one that may not answer them', async () => {
    const subjects = new Subjects()
    const { answers: _, ...permissions } = permissionsFor({ role: 'audit' }, { subjects, agents: [] })
    const subscribe = permissions.subscribe.filter((subject) => subject !== subjects.service('ask'))
    const users = [
      { user: 'deaf', password: 'secret', permissions: { ...permissions, subscribe, answers: true } },
      { user: 'mute', password: 'secret', permissions },
    ]
    await using fixture = await permittedFixture([{ role: 'dispatcher' }, { role: 'person', name: 'maria' }], { config: { users } })
    const [dispatcher, maria] = [await fixture.bus({ role: 'dispatcher' }), await fixture.bus({ role: 'person', name: 'maria' })]
    await dispatcher.ensureTopology()
    const startAs = async (user: string) => {
      const servers = fixture.nats.servers
      const bus = await openBus({ servers, identity: 'passover', credentials: { user, pass: 'secret' }, onError: () => undefined })
      const audit = await startAudit({ random, log: SILENT, bus, clock: clockOf(bus) }, { people: ['maria'] })
      return { audit, [Symbol.asyncDispose]: () => audit.drain(200).then(() => bus[Symbol.asyncDispose]()) }
    }
    {
      await using deaf = await startAs('deaf')
      await until(() => troubled(deaf.audit.health(), 'answers')?.includes('refuses its subscription to queries'), { what: 'the refusal' })
      expect(await checkAudit(maria)).toEqual([
        expect.objectContaining({ state: 'broken', text: expect.stringContaining('may not subscribe to ask.*') }),
      ])
    }
    await using _mute = await startAs('mute')
    expect(await checkAudit(maria)).toEqual([
      expect.objectContaining({ state: 'broken', text: expect.stringContaining('may not publish answers') }),
    ])
  })
})
