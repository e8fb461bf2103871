import { randomBytes } from 'node:crypto'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { startAudit } from '@passover/audit'
import { openBus, otherIdWindow, TopologyError } from '@passover/bus'
import { runNotifier } from '@passover/notifier'
import { expect, it } from 'vitest'
import { clockOf, SILENT } from '../../support/dispatcher/dispatcher.js'
import { until, within } from '../../support/processes/until.js'
import { natsFixture } from '../../support/servers/nats.js'
import { permittedFixture } from '../../support/servers/permitted.js'

/** The id window is a property of the stream (decision 92): nobody can read it by another one. */

it('is what the stream was made with, for everybody, and no other one is taken', async () => {
  await using nats = await natsFixture()
  const open = (identity: string) => openBus({ servers: nats.servers, identity })
  await using first = await open('passover')
  expect(first.idWindow).toBeUndefined()
  await first.ensureTopology({ id_window_ms: 5_000 })
  expect(first.idWindow).toBe(5_000)
  await using alice = await open('alice')
  expect(alice.idWindow).toBe(5_000)
  await using second = await open('passover')
  await second.ensureTopology()
  await second.ensureTopology({ id_window_ms: 5_000 })
  const other = second.ensureTopology({ id_window_ms: 7_000 })
  await expect(other).rejects.toMatchObject({ hint: expect.stringContaining('PASSOVER_ID_WINDOW_MS') })
  await expect(other).rejects.toBeInstanceOf(TopologyError)
  expect((await second.inspect()).differences).toEqual([])

  // The former dispatcher's, too, once somebody wrote another one all the same: it has to end.
  const changed = otherIdWindow(first, 5_000)
  await using nc = await connect({ servers: nats.servers })
  const { streams } = await jetstreamManager(nc)
  const name = first.subjects.stream
  const { config } = await streams.info(name)
  await streams.update(name, { ...config, metadata: { 'passover.id_window_ms': '6000' } })
  await first.usage()
  expect(await within(changed, 'it is seen')).toBe(6_000)
})

// Each fails where who is told nothing writes the default: a dispatcher that is told another one could never start.
it('is said by nobody until a process is told one, and then by that one', async () => {
  await using nats = await natsFixture()
  const open = () => openBus({ servers: nats.servers, identity: 'passover' })
  await using untold = await open()
  await untold.ensureTopology()
  expect(untold.idWindow).toBeUndefined()
  await using told = await open()
  await told.ensureTopology({ id_window_ms: 9_000 })
  await told.setRequests('closed')
  await told.setRequests('open')
  expect(told.idWindow).toBe(9_000)
  await untold.bounds()
  expect(untold.idWindow).toBe(9_000)
})

it('an audit that is told one waits for a dispatcher to write it: the audit may not, where permissions are in force', async () => {
  await using fixture = await permittedFixture([{ role: 'dispatcher' }, { role: 'audit' }])
  const dispatching = await fixture.bus({ role: 'dispatcher' })
  await dispatching.ensureTopology()
  const audit = await fixture.bus({ role: 'audit' })
  const start = (id_window_ms: number) => audit.ensureTopology({ id_window_ms, silent_stream: 'refuse' })
  await start(3_600_000)
  await expect(start(5_000)).rejects.toMatchObject({ name: 'TopologyError', hint: expect.stringContaining('Start a dispatcher') })
  await dispatching.ensureTopology({ id_window_ms: 5_000 })
  await start(5_000)
  expect(audit.idWindow).toBe(5_000)
  await expect(start(3_600_000)).rejects.toMatchObject({ name: 'TopologyError' })
})

it('a notifier does not begin where the stream does not say it', async () => {
  const password = 'secret'
  const permissions = { publish: ['>'], subscribe: ['>'], answers: true }
  const blind = { ...permissions, never: ['$JS.API.STREAM.INFO.>'] }
  await using nats = await natsFixture({
    config: {
      users: [
        { user: 'all', password, permissions },
        { user: 'blind', password, permissions: blind },
      ],
    },
  })
  await using bus = await openBus({ servers: nats.servers, identity: 'passover', credentials: { user: 'all', pass: password } })
  await bus.ensureTopology({ id_window_ms: 5_000 })
  const webhook = { PASSOVER_WEBHOOK_URL: 'http://127.0.0.1:2/', PASSOVER_WEBHOOK_SECRET: 'a secret of the test' }
  const env = { NATS_URL: nats.url, PASSOVER_CREDENTIALS: 'blind:secret', PASSOVER_LOG_LEVEL: 'silent', ...webhook }
  await expect(runNotifier(env)).rejects.toMatchObject({ name: 'BusReadError', reason: 'permission' })
})

it('is told by the audit to who may not ask the stream', async () => {
  const alice = { role: 'agent', name: 'alice', originates: true, subagent: false } as const
  await using fixture = await permittedFixture([alice, { role: 'dispatcher' }, { role: 'audit' }])
  const dispatching = await fixture.bus({ role: 'dispatcher' })
  await dispatching.ensureTopology({ id_window_ms: 5_000 })
  const asking = await fixture.bus(alice)
  expect(asking.idWindow).toBeUndefined()
  const bus = await fixture.bus({ role: 'audit' })
  const random = { bytes: (n: number) => randomBytes(n) }
  await using _audit = await startAudit({ bus, clock: clockOf(bus), random, log: SILENT }, { id_window_ms: bus.idWindow })
  await until(async () => ((await asking.measureClock()) && asking.idWindow === 5_000 ? true : undefined), { what: 'alice knows' })
})
