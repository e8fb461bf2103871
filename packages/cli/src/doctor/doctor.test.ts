import type { Bus, Inspection } from '@passover/bus'
import picocolors from 'picocolors'
import { describe, expect, it } from 'vitest'
import { sandboxGuarantees } from '../sandbox/guarantees.js'
import { overdueSegments } from './audit.js'
import type { Check } from './check.js'
import { checkDurability } from './durability.js'
import { checkClocks, checkDomain, checkLimits } from './limits.js'
import { checkCredentials, checkNode, checkProject, checkSandbox } from './machine.js'
import { checkOpenPasses, checkQueue, inspectOpenPasses, inspectQueue } from './queue.js'
import { renderChecks } from './run.js'
import { checkServer, checkTopology } from './server.js'
import { doubtfulFileSystem } from './server-settings.js'

const NOW = 1_800_000_000_000

const stream: NonNullable<Inspection['stream']> = {
  name: 'PASSOVER',
  messages: 10,
  bytes: 1024 ** 2,
  first: 1,
  last: 10,
  max_bytes: -1,
  replicas: 1,
  discard: 'new',
  retention: 'limits',
  max_age_ms: 0,
  allow_direct: true,
  republish: true,
  sealed: false,
  storage: 'file',
  peers: [],
  subjects: [],
}
const inspection: Inspection = {
  server: { version: '2.15.1', name: 'n', id: 'i', max_payload: 1024 ** 2, jetstream: true, rtt_ms: 1 },
  clock_skew_ms: 3,
  stream,
  differences: [],
  consumers: ['dispatcher', 'dispatcher_decisions'],
  paused: [],
  unbounded: [],
  clocks: [],
  buckets: [{ name: 'agents', kind: 'kv', messages: 0, bytes: 0, max_bytes: -1, sealed: false, storage: 'file', replicas: 1 }],
}
const states = (checks: { state: string }[]) => checks.map(({ state }) => state)

describe('the queue of a subagent', () => {
  const delayed = (counts: Record<string, number>) => {
    const groups = Object.entries(counts).map(([name, count]) => ({ name, count, wall_ms: { count: 0 } }))
    const passes = groups.reduce((sum, { count }) => sum + count, 0)
    return { passes, by: { pair: { groups, left_out: 0 } } } as Parameters<typeof checkQueue>[1]
  }

  it('is named with the agent whose passes are most of what is delayed, and how to bound it', () => {
    expect(checkQueue('audit', delayed({ 'mallory->audit': 900, 'alice->audit': 20 }))).toMatchObject([
      {
        state: 'look',
        text: expect.stringContaining('900 of 920 open passes to audit that were requested more than 1 min ago are from mallory'),
        mend: expect.stringContaining("max_active <n> --pair 'mallory->audit'"),
      },
    ])
    expect(checkQueue('audit', delayed({ 'mallory->audit': 500, 'alice->audit': 400 }))).toEqual([])
    expect(checkQueue('audit', delayed({ 'mallory->audit': 99 }))).toEqual([])
  })

  it('is named with each pair that has nearly the open passes that max_open lets it have, held ones too', () => {
    const counted = [delayed({ 'alice->audit': 4_000, 'bob->audit': 8_999 }), delayed({ 'alice->audit': 5_000 })]
    const named = (policy: Parameters<typeof checkOpenPasses>[1]) => checkOpenPasses(counted, policy).map(({ text }) => text)
    const text = (of: string, limit: number) => expect.stringContaining(`passes from ${of} to audit are open; the limit is ${limit} `)
    expect(checkOpenPasses(counted, {})).toMatchObject([
      {
        state: 'look',
        text: expect.stringContaining('9000 passes from alice to audit are open; the limit is 10000 (max_open)'),
        mend: expect.stringContaining('passover cancel --from alice --to audit --all'),
      },
    ])
    expect(named({ defaults: { max_open: 100 } })).toEqual([text('alice', 100), text('bob', 100)])
    expect(named({ pairs: { 'alice->audit': { max_active: 9_500 }, 'bob->audit': { max_open: 9_000 } } })).toEqual([text('bob', 9_000)])
    expect(named({ pairs: { 'alice->audit': { max_open: 20_000 } } })).toEqual([])
  })

  // Fails where that failure ends the command: it would be reported as a server that cannot be reached.
  it('is left out where the audit does not answer in time', async () => {
    const bus = { now: () => 1_000_000, ask: async () => undefined } as unknown as Bus
    expect(await inspectQueue(bus, 'audit')).toEqual([])
    expect(await inspectOpenPasses(bus, { subagent: 'audit', open: 9_000 }, {})).toEqual([])
  })
})

describe('the last line', () => {
  it('counts what is broken and what to look at', () => {
    const view = { colors: picocolors.createColors(false) }
    const check = (state: Check['state']): Check => ({ name: 'x', state, text: 't', mend: 'm' })
    const sum = (...checks: Check['state'][]) => renderChecks(checks.map(check), view).split('\n').at(-1)
    expect(sum('ok')).toBe('no problems')
    expect(sum('look')).toBe('no problems, 1 warning')
    expect(sum('broken', 'look', 'look')).toBe('1 problem, 2 warnings')
  })
})

describe('the machine', () => {
  it('needs Node 20.19', () => {
    expect(['20.19.0', '22.0.0', '20.18.3', '18.20.0'].map((version) => checkNode(version).state)).toEqual(['ok', 'ok', 'broken', 'broken'])
  })

  it('keeps the password of a project to its owner, out of git, and on a disk with room', () => {
    const facts = { folder: '/p/.passover', mode: 0o100600, ignored: true, file_system: { type: 1, free_bytes: 10 * 1024 ** 3 } }
    expect(states(checkProject(facts, '/p'))).toEqual(['ok'])
    expect(checkProject({ ...facts, mode: 0o100644 }, '/p')[0]).toMatchObject({
      state: 'broken',
      mend: 'chmod 600 /p/.passover/server.json',
    })
    expect(states(checkProject({ ...facts, ignored: false }, '/p'))).toEqual(['ok', 'look'])
    expect(states(checkProject({ ...facts, file_system: { type: 0x01021994, free_bytes: 1 } }, '/p'))).toEqual(['ok', 'look', 'look'])
    expect(checkProject(undefined, '/p')).toMatchObject([{ state: 'look', mend: 'passover up' }])
  })

  it('knows when credentials end', () => {
    const creds = (exp?: number) => ({
      creds: `-----BEGIN NATS USER JWT-----\nh.${Buffer.from(JSON.stringify({ exp })).toString('base64url')}.s\n------END NATS USER JWT------`,
    })
    expect(checkCredentials({ user: 'u', pass: 'p' }, NOW).state).toBe('ok')
    expect(checkCredentials({ token: 't' }, NOW).state).toBe('ok')
    expect(checkCredentials(undefined, NOW).state).toBe('look')
    expect(checkCredentials(creds(), NOW).state).toBe('ok')
    expect(checkCredentials({ creds: 'none' }, NOW).state).toBe('ok')
    expect(checkCredentials(creds(NOW / 1000 + 90 * 86_400), NOW).state).toBe('ok')
    expect(checkCredentials(creds(NOW / 1000 + 3 * 86_400), NOW).state).toBe('look')
    expect(checkCredentials(creds(NOW / 1000 - 1), NOW).state).toBe('broken')
  })
})

describe('the sandbox of commands', () => {
  const none = { kind: 'none', why: 'bubblewrap is not installed' } as const

  it('is looked at constraint by constraint, and says how to enforce more', () => {
    const checks = checkSandbox({
      mechanism: none,
      guarantees: sandboxGuarantees({ mechanism: none, cgroup: undefined, platform: 'linux' }),
    })
    expect(states(checks)).toEqual(Array(5).fill('look'))
    expect(checks[1]).toMatchObject({
      text: expect.stringContaining('no_external_calls: not enforced'),
      mend: expect.stringContaining('bwrap'),
    })
    expect(checkSandbox({ mechanism: none, guarantees: [{ constraint: 'read_only', level: 'enforced', mechanism: 'x' }] })).toEqual([
      { name: 'sandbox', state: 'ok', text: 'read_only: enforced (x)' },
    ])
  })
})

describe('the server', () => {
  it('is new enough, has JetStream on, takes a mebibyte, and tells the same time', () => {
    expect(states(checkServer(inspection))).toEqual(['ok', 'ok', 'ok', 'ok'])
    const server = { ...inspection.server, version: '2.11.4', jetstream: false, max_payload: 65_536 }
    expect(states(checkServer({ ...inspection, server, clock_skew_ms: -5_000 }))).toEqual(['broken', 'broken', 'broken', 'look'])
    expect(states(checkServer({ ...inspection, clock_skew_ms: 70_000 }))[3]).toBe('broken')
  })

  it('has stream, consumers and buckets as they should be', () => {
    expect(states(checkTopology(inspection, undefined))).toEqual(['ok', 'ok', 'ok', 'ok'])
    const { stream: _stream, ...bare } = inspection
    expect(checkTopology(bare, undefined)).toMatchObject([{ name: 'stream', state: 'broken' }])
    expect(states(checkTopology({ ...inspection, differences: ['stream: max_age is 1'], consumers: [] }, undefined))).toEqual([
      'ok',
      'broken',
      'broken',
      'ok',
    ])
  })

  it('has room', () => {
    const usage = { messages: 1, bytes: 1, requests: 'open' as const }
    const full = (bytes: number) => ({ ...inspection, stream: { ...stream, max_bytes: 100, bytes } })
    expect(checkTopology(full(10), usage).at(-1)).toMatchObject({ name: 'room', state: 'ok' })
    expect(checkTopology(full(90), usage).at(-1)).toMatchObject({ name: 'room', state: 'look' })
    expect(checkTopology(full(90), { ...usage, requests: 'closed' }).at(-1)).toMatchObject({ name: 'room', state: 'broken' })
  })

  it('loses nothing that was acknowledged', () => {
    const check = (change: Partial<typeof stream>, sync_ms?: number) =>
      states(checkDurability({ ...inspection, stream: { ...stream, ...change } }, { sync_ms }))
    expect(check({}, 120_000)).toEqual(['look'])
    expect(check({})).toEqual(['look'])
    expect(check({}, 0)).toEqual(['ok'])
    expect(check({}, 2_000_000_000)).toEqual(['broken'])
    expect(check({ replicas: 3 }).at(-1)).toBe('ok')
    expect(check({ replicas: 3 }, 2_000_000_000).at(-1)).toBe('broken')
    expect(check({ max_age_ms: 1, discard: 'old' }, 0)).toEqual(['broken', 'broken', 'ok'])
    expect(check({ storage: 'memory' }, 0)).toEqual(['broken', 'ok'])
    const { stream: _stream, ...bare } = inspection
    expect(checkDurability(bare, {})).toEqual([])
  })

  it('has its replicas', () => {
    const peers = [
      { name: 'n2', current: true, offline: true },
      { name: 'n3', current: false, offline: false },
    ]
    const cluster = { ...inspection, server: { ...inspection.server, cluster: 'c' }, stream: { ...stream, replicas: 3, peers } }
    expect(checkDurability(cluster, { sync_ms: 0 }).map(({ name, state }) => `${name} ${state}`)).toEqual([
      'replicas broken',
      'replicas look',
      'replicas look',
      'durability ok',
    ])
    expect(states(checkDurability({ ...cluster, stream }, { sync_ms: 0 }))).toEqual(['look', 'ok'])
    // Both are needed for a majority.
    const two = checkDurability({ ...cluster, stream: { ...stream, replicas: 2 } }, { sync_ms: 0 })
    expect(two[0]).toMatchObject({ name: 'replicas', state: 'look', text: expect.stringContaining('the stream has 2 replicas') })
  })

  it('says what three replicas that sync now and then lose, where nothing is wrong', () => {
    const three = { ...inspection, stream: { ...stream, replicas: 3 } }
    const said = (sync_ms?: number) => checkDurability(three, { sync_ms }).at(-1)
    expect(said(120_000)).toMatchObject({
      state: 'ok',
      text: expect.stringContaining('synced every 2 min: a power failure of all of them at once'),
    })
    expect(said()).toMatchObject({ state: 'ok', text: expect.stringContaining('cannot be read from here') })
  })

  it('keeps its files on a local disk', () => {
    expect(doubtfulFileSystem(0xef53)).toBeUndefined()
    expect([0x6969, 0xfe534d42, -11317950, 0x01021994].map(doubtfulFileSystem)).toEqual(['NFS', 'SMB', 'CIFS', 'tmpfs'])
    const store = (file_system: string) => checkDurability(inspection, { sync_ms: 0, store: '/s', file_system }).at(-1)
    expect(store('NFS')).toMatchObject({ name: 'disk', state: 'look' })
    expect(store('tmpfs')).toMatchObject({ name: 'disk', state: 'broken' })
  })

  it('has all of the stream where it is monitored', () => {
    const check = (messages: number, copy: number, replicas = 3) =>
      checkDurability({ ...inspection, stream: { ...stream, messages, replicas } }, { sync_ms: 0, copies: { PASSOVER: copy } }).filter(
        ({ text }) => text.includes('the monitored server'),
      )
    expect([check(13_000, 13_000), check(13_000, 12_000), check(500_000, 496_000)]).toEqual([[], [], []])
    expect(check(13_000, 4_900)).toMatchObject([
      {
        name: 'replicas',
        state: 'broken',
        text: expect.stringContaining('has 4900 of the 13000 messages'),
        mend: expect.stringContaining('empty its store_dir'),
      },
    ])
    expect(check(13_000, 4_900, 1)).toEqual([])
  })

  it('has a disk with room, and more of it than it may use', () => {
    const gib = 1024 ** 3
    const disk = (total: number, free: number, max_storage?: number) =>
      checkDurability(inspection, { sync_ms: 0, store: '/s', disk: { total: total * gib, free: free * gib }, max_storage }).slice(1)
    expect(disk(100, 50, 80 * gib)).toEqual([])
    expect(disk(100, 50, 120 * gib)).toMatchObject([
      { name: 'disk', state: 'look', text: expect.stringMatching(/120.0 GiB, but the disk of \/s has 100.0 GiB/) },
    ])
    expect(disk(100, 0.5)).toMatchObject([{ name: 'disk', state: 'look', text: expect.stringContaining('512 MiB left on the disk of /s') }])
  })

  it('has room to grow', () => {
    const account = {
      streams: 12,
      consumers: 3,
      max_streams: -1,
      max_consumers: -1,
      max_storage: -1,
      max_ack_pending: -1,
      storage_max_stream_bytes: -1,
    }
    const bounded = { ...stream, max_bytes: 1024 ** 3 }
    const check = (change: Partial<typeof account>) => states(checkLimits({ stream: bounded, account: { ...account, ...change } }, {}))
    expect(check({})).toEqual(['ok'])
    expect(check({ max_streams: 20, max_consumers: 20 })).toEqual(['look', 'look'])
    expect(check({ max_ack_pending: 1_000 })).toEqual(['broken'])
    expect(check({ storage_max_stream_bytes: 1024 ** 2 })).toEqual(['look'])
    expect(check({ max_storage: 1_000 })).toEqual(['broken', 'ok'])
    expect(states(checkLimits({ stream: bounded }, { max_storage: 1024 }))).toEqual(['broken', 'look'])
    expect(checkLimits({ stream, account }, { max_storage: 1024 ** 3 })[0]?.text).toContain('1.0 GiB')
    expect(checkLimits({ account }, {})).toEqual([])
  })

  it('is of one domain and one time', () => {
    expect(checkDomain({})).toEqual([])
    expect(checkDomain({ domain: 'leaf' })).toMatchObject([{ state: 'look', text: expect.stringContaining('leaf') }])
    const clocks = (...skews: number[]) => states(checkClocks(skews.map((skew_ms, n) => ({ server: `n${n}`, skew_ms }))))
    expect([clocks(5_000), clocks(3, 9), clocks(0, 400), clocks(-900, 400)]).toEqual([[], ['ok'], ['look'], ['broken']])
  })
})

it('names archived segments that are older than the retention, and what keeps each', () => {
  const segments = [
    { segment: 2, why: 'stream' as const, sequence: 8_200, originator: 'mallory', subagent: 'audit', id: 'bad-000008199' },
    { segment: 3, why: 'stream' as const, sequence: 12_300, originator: 'alice', subagent: 'audit' },
    { segment: 4, why: 'hold' as const },
  ]
  const { state, text } = overdueSegments({ count: 5, segments })
  expect(state).toBe('look')
  expect(text).toBe(
    '5 archived segments are older than audit.retention_days and kept: segment 2 by a pass of mallory to audit (bad-000008199) in the stream (sequence 8200), ' +
      'segment 3 by a pass of alice to audit in the stream (sequence 12300), segment 4 by a legal hold or a pending erasure, and 2 more',
  )
})
