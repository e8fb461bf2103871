import { randomBytes } from 'node:crypto'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { startAudit } from '@passover/audit'
import { openBus, TopologyError } from '@passover/bus'
import { expect, it } from 'vitest'
import { clockOf, SILENT } from '../support/dispatch.js'
import { natsFixture } from '../support/nats.js'
import { permittedFixture } from '../support/permitted.js'
import { until } from '../support/until.js'

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

  // A stream of an earlier version says nothing: an hour, unless whoever ran it says what it was told.
  await using nc = await connect({ servers: nats.servers })
  const { streams } = await jetstreamManager(nc)
  const name = first.subjects.stream
  const { config } = await streams.info(name)
  await streams.update(name, { ...config, metadata: {} })
  await using old = await open('passover')
  expect(old.idWindow).toBe(3_600_000)
  await old.ensureTopology({ id_window_ms: 9_000 })
  await old.setRequests('closed')
  await old.setRequests('open')
  await using later = await open('passover')
  expect(later.idWindow).toBe(9_000)
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
