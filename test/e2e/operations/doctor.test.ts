import { existsSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { openBus } from '@passover/bus'
import { describe, expect, it } from 'vitest'
import { byHand } from '../../support/attacks/broken-topology.js'
import { Folder, json, openProject, serverFile, until } from '../../support/fixtures/cli.js'
import { natsFixture } from '../../support/servers/nats.js'
import { type RawServer, rawServer } from '../../support/servers/raw-server.js'

type Checks = { name: string; state: string; text: string; mend?: string }[]

/** What the doctor says of a server, from a folder that has nothing to do with it. */
async function doctor(url: string, ...args: string[]): Promise<Checks> {
  using folder = new Folder()
  const { document } = await json<{ checks: Checks }>(['doctor', '--server', url, ...args], { cwd: folder.path })
  return document.checks
}

async function topology(url: string, options?: { replicas?: number }): Promise<void> {
  await using bus = await openBus({ servers: url, identity: 'passover' })
  await bus.ensureTopology(options)
}

const jetstream =
  (more = '') =>
  (store: string) =>
    `jetstream {\n store_dir: "${store}"\n ${more}\n}`
const found = (name: string, state: string, text: string) =>
  expect.arrayContaining([expect.objectContaining({ name, state, text: expect.stringContaining(text), mend: expect.stringMatching(/\S/) })])

type Row = [what: string, config: (store: string) => string, spoil: (server: RawServer) => Promise<unknown>, expected: unknown]
const nothing = async () => undefined
const spoilStream = (change: object) => (server: RawServer) => byHand([server.url], ({ streams }) => streams.update('PASSOVER', change))

const ROWS: Row[] = [
  ['an unquoted sync_interval', jetstream('sync_interval: 2m'), nothing, found('durability', 'broken', 'two million seconds')],
  ['one replica, synced now and then', jetstream(), nothing, found('durability', 'look', 'synced every 2 min')],
  ['a stream that forgets', jetstream(), spoilStream({ max_age: 3_600_000_000_000 }), found('durability', 'broken', 'max_age')],
  [
    'a bucket that forgets, and limits of messages',
    jetstream(),
    (server) =>
      byHand([server.url], async ({ streams }) => {
        await streams.update('KV_passes', { max_age: 3_600_000_000_000 })
        await streams.update('PASSOVER', { max_msgs: 1_000, max_msgs_per_subject: 5 })
      }),
    expect.arrayContaining(
      ['KV_passes: max_age', 'PASSOVER: max_msgs is', 'PASSOVER: max_msgs_per_subject'].map((text) =>
        expect.objectContaining({ name: 'topology', state: 'broken', text: expect.stringContaining(text) }),
      ),
    ),
  ],
  ['a full stream that drops', jetstream(), spoilStream({ discard: 'old' }), found('durability', 'broken', 'drops its oldest')],
  [
    'a stream without a limit',
    jetstream('max_file_store: 2GB'),
    spoilStream({ max_bytes: -1 }),
    found('limits', 'look', 'grows until 2.0 GiB of server'),
  ],
  ['a domain', jetstream('domain: leaf'), nothing, found('domain', 'look', 'leaf')],
]

describe('doctor names what a really misconfigured server risks', () => {
  it.each(ROWS)('%s', async (_, config, spoil, expected) => {
    await using server = await rawServer(config)
    await topology(server.url)
    await spoil(server)
    expect(await doctor(server.url, '--monitor', server.monitor)).toEqual(expected)
  })

  it('a stream in memory', async () => {
    await using server = await rawServer(jetstream())
    await byHand([server.url], ({ streams }) => streams.add({ name: 'PASSOVER', subjects: ['request.*.*'], storage: 'memory' as never }))
    expect(await doctor(server.url)).toEqual(found('storage', 'broken', 'stored in memory only: PASSOVER'))
  })

  it('limits of the account, and no limit that is not there', async () => {
    const limited = (limits: string) => (store: string) =>
      `jetstream { store_dir: "${store}" }\naccounts { A { jetstream: { ${limits} }, users: [ { user: a, password: a } ] } }\nno_auth_user: a`
    await using tight = await rawServer(limited('max_streams: 18, max_ack_pending: 20000, max_bytes_required: true'))
    await topology(tight.url)
    const checks = await doctor(tight.url)
    expect(checks).toEqual(found('account', 'look', 'streams used'))
    expect(checks).toEqual(found('account', 'broken', 'max_ack_pending is 20000'))
    // What no client can see is said to be so.
    expect(checks).toEqual(found('durability', 'look', 'cannot be read from here'))
    expect(await doctor(tight.url, '--monitor', 'http://127.0.0.1:1')).toEqual(found('monitor', 'look', 'cannot read http://127.0.0.1:1'))
  })

  it.runIf(existsSync('/dev/shm'))('a store in memory', async () => {
    await using server = await rawServer(jetstream('sync_interval: always'), '/dev/shm')
    await topology(server.url)
    const checks = await doctor(server.url, '--monitor', server.monitor)
    expect(checks).toEqual(found('disk', 'broken', 'in memory (tmpfs)'))
    expect(checks).toContainEqual(
      expect.objectContaining({ name: 'durability', state: 'ok', text: expect.stringContaining('every write is synced') }),
    )
  })

  it('one replica in a cluster; a replica that is offline', async () => {
    await using nats = await natsFixture({ nodes: 3 })
    await topology(nats.servers.join(','), { replicas: 1 })
    expect(await doctor(nats.url)).toEqual(found('replicas', 'look', 'one replica'))
    await byHand(nats.servers, ({ streams }) => streams.update('PASSOVER', { num_replicas: 3 }))
    await nats.untilSettled()
    expect(await doctor(nats.url)).toEqual(found('replicas', 'look', 'fewer replicas than the stream'))
  })
})

describe('doctor of a gateway', () => {
  it('says how it is, that it is no gateway, or that none is there', async () => {
    await using project = await openProject(['--http', '0'])
    await project.up.printed('openapi.json')
    const http = /HTTP API at (http:[^ ]+)\/openapi.json/.exec(project.up.stdout)?.[1] ?? ''
    const look = async (address: string) => {
      const { code, document } = await json<{ checks: Checks }>(['doctor', '--gateway', address], { cwd: project.cwd })
      return { code, checks: document.checks.filter(({ name }) => name === 'gateway') }
    }
    await until('it is ready', async () => (await look(http)).code === 0)
    expect(await look(http)).toEqual({ code: 0, checks: [{ name: 'gateway', state: 'ok', text: 'gateway is ready' }] })
    await using other = createServer((_, response) => response.end('{}'))
    await new Promise<void>((listening) => other.listen(0, '127.0.0.1', listening))
    const port = (other.address() as AddressInfo).port
    expect(await look(`http://127.0.0.1:${port}`)).toMatchObject({
      code: 1,
      checks: [{ state: 'broken', text: expect.stringContaining('is not a Passover gateway') }],
    })
    expect(await look('http://127.0.0.1:1')).toMatchObject({
      code: 1,
      checks: [{ state: 'broken', mend: 'to start one: passover gateway' }],
    })
  })
})

describe('doctor of a running up', () => {
  it('says that it is ready, what it mended, and which pair has all its open passes', async () => {
    await using project = await openProject()
    const { url, user, password } = serverFile(project.cwd)
    const look = async () => (await json<{ checks: Checks }>(['doctor'], { cwd: project.cwd })).document.checks
    await until('it is ready', async () => (await look()).some(({ name, state }) => name === 'up' && state === 'ok'))
    expect(await look()).toContainEqual(expect.objectContaining({ name: 'up', state: 'ok', text: 'up is ready' }))
    await byHand({ servers: [url], user, pass: password }, ({ streams }) => streams.delete('KV_budgets'))
    for (let mended = false; !mended; ) {
      const up = (await look()).find(({ name }) => name === 'up')
      mended = up?.text.includes('recreated budgets') === true
    }
    const passover = (...args: string[]) => json<{ error?: object; checks: Checks }>(args, { cwd: project.cwd })
    expect((await passover('agents', 'add', 'audit')).code).toBe(0)
    expect((await passover('policy', 'set', 'max_open', '1', '--pair', 'alice->audit')).code).toBe(0)
    expect((await passover('request', '--from', 'alice', 'audit', 'x', '--hold', '--no-wait')).code).toBe(0)
    const queue = async () => (await look()).filter(({ name }) => name === 'queue')
    await until('the audit has indexed it', async () => (await queue()).length === 1)
    const end = 'passover cancel --from alice --to audit --all'
    const text = expect.stringContaining('1 pass from alice to audit is open; the limit is 1 (max_open)')
    expect(await queue()).toMatchObject([{ state: 'look', text, mend: expect.stringContaining(end) }])
    expect((await passover('request', '--from', 'alice', 'audit', 'x')).document).toMatchObject({ error: { code: 'E014' } })
    expect((await passover(...end.split(' ').slice(1), '--yes')).document).toMatchObject({ ended: 1, still_open: 0 })
  })
})
