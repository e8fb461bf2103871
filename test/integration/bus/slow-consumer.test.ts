import { connect } from '@nats-io/transport-node'
import { openBus } from '@passover/bus'
import type { HealthReport } from '@passover/schemas'
import { expect, test } from 'vitest'
import { startProcess, type TestProcess } from '../../support/processes/processes.js'
import { until } from '../../support/processes/until.js'
import { type RawServer, rawServer } from '../../support/servers/raw-server.js'

const ROLES = new URL('../../dist/support/roles/', import.meta.url)
const READY_MS = 60_000
/** What is promised, on a machine that has other things to do. */
const RECOVERY_MS = 10_000
const SLACK_MS = 20_000
/** A client that takes nothing in is cut off sooner than by default, so that the test is short. */
const config = (store: string) => `max_pending: 1MB\nwrite_deadline: "2s"\njetstream { store_dir: "${store}" }`
const PIECE = new Uint8Array(64 * 1_024)

interface Connection {
  cid: number
  pid?: number
  name?: string
  port: number
  subscriptions_list?: string[]
}

test('processes that stood still until the server dropped them as slow consumers are well again by themselves, and say what happened', async () => {
  await using server = await rawServer(config)
  await using bus = await openBus({ servers: server.url, identity: 'passover' })
  await bus.ensureTopology()
  await using dispatcher = await role(server, 'dispatcher')
  await using worker = await role(server, 'worker', { PASSOVER_AGENT: 'audit', WORKER: 'first' })
  await using alice = await role(server, 'originator', { PASSOVER_AGENT: 'alice' })
  const stopped = { dispatcher, worker, alice }
  const pass = (tag: string) => {
    const options = { subagent: 'audit', reason: 'echo', timeout_ms: 120_000, work_context: { objective: 'o' } }
    alice.tell({ do: 'pass', tag, options })
    return until(() => alice.said('outcome').find((one) => one.tag === tag), { what: `pass ${tag} ended`, deadline_ms: 60_000 })
  }
  expect(await pass('before')).toMatchObject({ status: 'completed' })
  for (const one of Object.values(stopped)) expect(connectionOf(await healthOf(one))?.did).toBeUndefined()

  const before = await connections(server)
  for (const one of Object.values(stopped)) await one.freeze()
  await flood(server, before.filter(({ name }) => name !== 'flood').map(heardBy))
  const dropped = async () => (await varz(server)).slow_consumers >= Object.keys(stopped).length
  await until(dropped, { what: 'the server has dropped them', deadline_ms: 60_000 })
  for (const one of Object.values(stopped)) one.thaw()
  const since = performance.now()

  for (const [name, one] of Object.entries(stopped)) {
    const recovered = async () => {
      const report = await healthOf(one)
      return report.ready && connectionOf(report)?.did?.what === 'reconnected'
    }
    await until(recovered, { what: `${name} is ready and says that it connected again`, deadline_ms: RECOVERY_MS + SLACK_MS })
  }
  const said = performance.now() - since
  expect(await pass('after')).toMatchObject({ status: 'completed' })
  console.log(
    `dropped as slow consumers, they said that they connected again after ${Math.round(said)} ms, a pass ended after ${Math.round(performance.now() - since)} ms`,
  )
}, 240_000)

async function role(server: RawServer, name: string, env: Record<string, string> = {}): Promise<TestProcess> {
  const started = startProcess(new URL(`${name}.js`, ROLES), { env: { NATS_URL: server.url, PASSOVER_LOG_LEVEL: 'silent', ...env }, name })
  await started.heard('ready', READY_MS)
  return started
}

async function healthOf(process: TestProcess): Promise<HealthReport> {
  process.tell({ do: 'health' })
  return (await process.heard('health', READY_MS)).report as HealthReport
}

/** Of several parts the first: an agent's own, or the dispatcher's. */
function connectionOf({ checks }: HealthReport) {
  return checks.find(({ name }) => name.endsWith('connection'))
}

async function monitored<T>({ monitor }: RawServer, path: string): Promise<T> {
  return (await (await fetch(new URL(path, monitor))).json()) as T
}

async function connections(server: RawServer): Promise<Connection[]> {
  return (await monitored<{ connections: Connection[] }>(server, '/connz?subs=1')).connections
}

function varz(server: RawServer): Promise<{ slow_consumers: number }> {
  return monitored(server, '/varz')
}

/** A subject that reaches this connection. */
function heardBy({ subscriptions_list = [] }: Connection): string[] {
  const found = subscriptions_list.find((subject) => !subject.startsWith('$'))
  return found === undefined ? [] : [found.replaceAll('*', 'x').replace('>', 'x.x.x')]
}

/** More than sockets and server hold for who takes nothing in. */
async function flood(server: RawServer, subjects: string[][]): Promise<void> {
  const nc = await connect({ servers: server.url, name: 'flood' })
  for (let sent = 0; sent < 400; sent += 1) {
    for (const subject of subjects.flat()) nc.publish(subject, PIECE)
    if (sent % 10 === 9) await nc.flush()
  }
  await nc.close()
}
