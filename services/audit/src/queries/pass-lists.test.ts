import { encode, readHeaders } from '@passover/bus'
import { ChurnMap } from '@passover/core'
import { type Fact, keyText, type PassKey, type PassRecord, type PassRow, type Step, SYSTEM } from '@passover/schemas'
import { pino } from 'pino'
import { describe, expect, it } from 'vitest'
import { UnansweredRequests } from '../pass/unanswered-requests.js'
import { Projector, type ProjectorDeps } from '../projection/projector.js'
import type { TrackedPass } from '../projection/record-writer.js'
import { isEmpty, seedRows } from '../projection/start-position.js'
import { rowOf } from '../records/build-record.js'
import { MAX_ROWS, RowCache } from '../records/row-cache.js'
import { indexEntryOf } from '../search/index/index-entry.js'
import { PassIndex } from '../search/index/pass-index.js'
import { MemoryListing } from '../search/memory-listing.js'
import { PassSearch, type SearchDeps } from '../search/pass-search.js'
import { PassLists, type PassListsDeps } from './pass-lists.js'

const ID = 'given-id-000000001'

function indexOf(keys: PassKey[]): PassIndex {
  const index = new PassIndex(1)
  const more = {
    session_id: undefined,
    status: 'returned',
    ended: 'ok',
    code: undefined,
    decided: '',
    created_at: 1,
    first: 1,
    ended_at: 2,
    returned: 2,
  }
  for (const [at, key] of keys.entries()) index.put({ ...more, key, revision: at + 1 }, 'old')
  return index
}

/** The passes that are found by an id, where nobody is registered any more; how often the bucket was asked. */
async function found(known: { memory?: PassKey[]; index: PassIndex; bucket?: PassKey[] }) {
  let asked = 0
  const table = {
    entries: async function* () {
      asked++
      for (const key of known.bucket ?? []) yield { value: { key } }
    },
  }
  const listing = { passes: { withId: () => known.memory ?? [] } }
  const archive = { keysOf: async () => [] }
  const rest = { listing, table, archive, index: known.index, indexing: { complete: true }, agents: new Map() }
  const keys = await new PassLists(rest as unknown as PassListsDeps).keys({ id: ID })
  return { keys: keys.map(keyText).sort(), asked }
}

describe('passes with an id', () => {
  // Who approves would else decide about the only one that memory happens to know.
  it('are all found, where the index speaks of too many agents to try each with each', async () => {
    const others = Array.from({ length: 65 }, (_, n) => ({ originator: `agent${n}`, subagent: 'audit', id: `other-id-${n}0000000` }))
    const memory = [{ originator: 'agent0', subagent: 'audit', id: ID }]
    const bucket = [...memory, { originator: 'agent1', subagent: 'audit', id: ID }]
    const { keys, asked } = await found({ memory, index: indexOf([...others, ...bucket]), bucket })
    expect([keys, asked]).toEqual([[`agent0/audit/${ID}`, `agent1/audit/${ID}`], 1])
  })

  it('are all found in the index, where an agent is no longer registered, and the server is asked for nothing', async () => {
    const memory = [{ originator: 'alice', subagent: 'audit', id: ID }]
    const gone = { originator: 'bob', subagent: 'scout', id: ID }
    const { keys, asked } = await found({ memory, index: indexOf([...memory, gone]), bucket: [...memory, gone] })
    expect([keys, asked]).toEqual([[`alice/audit/${ID}`, `bob/scout/${ID}`], 0])
  })
})

/** A record that was written when its pass began and again when it ended, so that the bucket has no first revision of it. */
function recordOf(number: number, originator: string, status = 'returned'): PassRecord {
  const sequences = { requests: [2 * number], work: 2 * number + 1, fences: [], last: 2 * number + 1 }
  const key = { originator, subagent: 'audit', id: `given-id-${number}` }
  return { v: 1, key, status, requested_at: number, sequences, decisions: [] } as unknown as PassRecord
}

/** What an audit says after a restart about a bucket with these records. `ms`: what each look at the clock costs. */
async function restarted(records: PassRecord[], ms = 0) {
  const revisionOf = (at: number) => 2 * at + 2
  const entry = (value: PassRecord, at: number) => ({ key: '', value, revision: revisionOf(at) })
  const table = {
    extent: async () => ({ first: 2, last: revisionOf(records.length - 1), entries: records.length }),
    entries: async function* () {
      yield* records.map(entry)
    },
    newest: async function* (count: number) {
      yield* records.map(entry).filter(({ revision }) => revision > revisionOf(records.length - 1) - count)
    },
    at: async (revision: number) => ({ value: records[revision / 2 - 1] }),
  }
  const projector = {
    young: new ChurnMap<string, TrackedPass>(),
    old: new ChurnMap<string, TrackedPass>(),
    notes: new UnansweredRequests(),
    unwritten: () => [],
    find: () => undefined,
  }
  const listing: MemoryListing = new MemoryListing({ projector: () => projector, rows: () => rows, index: () => index })
  const rows = new RowCache(MAX_ROWS, (text) => listing.note(text))
  const index = new PassIndex(3, (key) => listing.has(key))
  for (const [at, stored] of records.entries()) index.put(indexEntryOf({ stored, row: rowOf(stored) }, revisionOf(at)), 'old')
  await seedRows(table as never, rows)
  let now = 0
  const deps = {
    table,
    index,
    rows,
    listing,
    seeded: Promise.resolve(),
    clock: { monotonic: () => (now += ms) },
    projector,
    indexing: { complete: true, horizon: Number.NEGATIVE_INFINITY },
    acknowledged: { has: () => false },
    agents: new Map(['alice', 'bob', 'audit'].map((name) => [name, { name }])),
  }
  const search = new PassSearch(deps as unknown as SearchDeps)
  return { query: new PassLists({ ...deps, search } as unknown as PassListsDeps), rows }
}

describe('after a restart with more records than memory has room for', () => {
  const bobs = Array.from({ length: 7 }, (_, at) => recordOf(at, 'bob', 'held'))
  const alices = Array.from({ length: MAX_ROWS }, (_, at) => recordOf(at + bobs.length, 'alice'))

  // Fails where a look at the last 20,000 revisions that finds fewer records is taken for all of them.
  it('list tells the oldest pass too, and agents counts every open one', async () => {
    const { query } = await restarted([...bobs, ...alices])
    const listed = await query.list({ originator: 'bob' }, 50)
    expect([listed.passes.map(({ id }) => id), listed.more]).toEqual([bobs.map(({ key }) => key.id).reverse(), false])
    expect((await query.list({ status: 'held' }, 5)).more).toBe(true)
    expect((await query.list({ originator: 'alice', status: 'held' }, 5)).passes).toEqual([])
    expect((await query.list({}, 3)).passes.map(({ created_at }) => created_at)).toEqual([0, 1, 2].map((n) => MAX_ROWS + 6 - n))
    expect((await query.agents()).map(({ agent, originated, waiting }) => [agent.name, originated, waiting])).toEqual([
      ['alice', 0, 0],
      ['audit', 0, 7],
      ['bob', 7, 0],
    ])
  })

  // Fails where every record that the filter admits is read, whatever that takes.
  it('list ends when its time is used up, and says that there may be more', async () => {
    const { query } = await restarted([...bobs, ...alices], 30)
    const row = rowOf({ ...recordOf(0, 'bob'), key: { originator: 'bob', subagent: 'alice', id: 'given-id-top' } } as PassRecord)
    expect(await query.below({ row, own: {}, limit: 50 })).toEqual({ passes: [], more: true })
  })

  it('memory knows all of a bucket whose records were all written often', async () => {
    const { rows } = await restarted(alices)
    expect([rows.complete, [...rows.values()].length]).toEqual([true, MAX_ROWS])
    expect(await isEmpty({ extent: async () => ({ first: 5, last: 9, entries: 2 }) })).toBe(false)
  })
})

/** What an audit that has read a stream with these steps and requests says. */
function following() {
  const projector: Projector = new Projector(
    {
      log: pino({ level: 'silent' }),
      clock: { monotonic: () => 0, after: () => undefined },
      rules: { id_window_ms: 3_600_000 },
      records: { backpressure: () => undefined, send: () => undefined },
      rows: { get: (text: string) => rows.get(text), put: (row: PassRow) => rows.put(row) },
      ended: { note: () => undefined },
      reloader: { backpressure: () => undefined, knows: () => false, hear: () => undefined },
      violations: { backpressure: () => undefined },
      schemas: { backpressure: () => undefined },
      inbox: { backpressure: () => undefined, note: () => undefined },
      acknowledged: { backpressure: () => undefined },
      undelivered: { note: () => undefined },
      isAgent: () => false,
      changed: (text: string) => listing.note(text),
    } as unknown as ProjectorDeps,
    { writes: () => true, open_ms: 3_000, request_ms: 30_000, ended_bytes: 1 << 24 },
  )
  const index = new PassIndex(3, (key) => listing.has(key))
  const listing: MemoryListing = new MemoryListing({ projector: () => projector, rows: () => rows, index: () => index })
  const rows: RowCache = new RowCache(MAX_ROWS, (text) => listing.note(text))
  const headers = readHeaders('')
  const session = (id: string) => encode({ control: { session_id: id, policy: {} } }, 'msgpack')
  const steps = new Map<string, number>()
  let sequence = 0
  /** Stores a request, a held or work step, or the return of a pass. */
  const store = (kind: 'request' | Step['kind'], key: PassKey, more: { session?: string; parent?: PassKey } = {}) => {
    sequence += 1
    const at = { sequence, time: 1_000 + sequence }
    const stored = { subject: kind, ...at, headers, data: more.session === undefined ? new Uint8Array(8) : session(more.session) }
    const guard = { subject: `*.${key.originator}.${key.subagent}.${key.id}.*`, sequence: steps.get(keyText(key)) ?? 0 }
    if (kind !== 'request') steps.set(keyText(key), sequence)
    const by = kind === 'work' ? 'medium' : SYSTEM
    const step = { type: 'step', kind, key, by, ...at, attempt: 1, parent: more.parent, guard }
    const asked = { type: 'request', ...key, ...at, timeout_ms: undefined }
    void projector.take(stored, (kind === 'request' ? asked : step) as unknown as Fact)
  }
  const deps = {
    projector,
    rows,
    listing,
    index,
    rules: { id_window_ms: 3_600_000 },
    seeded: Promise.resolve(),
    acknowledged: { has: () => false },
    agents: new Map(['mallory', 'alice', 'audit'].map((name) => [name, { name }])),
    bus: { journal: { message: async () => undefined } },
    indexing: { complete: true, horizon: Number.NEGATIVE_INFINITY },
    clock: { monotonic: () => 0, now: () => 0 },
    table: { entries: async function* () {} },
    archive: { keysOf: async () => [] },
  }
  const search = new PassSearch(deps as unknown as SearchDeps)
  const lists = new PassLists({ ...deps, search } as unknown as PassListsDeps)
  const looks = () => listing.passes.looked + listing.unrecorded.looked
  return { store, query: lists, search, projector, looks, rows, index, listing }
}

const keyOf = (originator: string, number: number): PassKey => ({ originator, subagent: 'audit', id: `given-id-${number}` })

describe('a request that was stored twice', () => {
  // Fails where the second request is listed as a pass of its own until it is swept.
  it('is no second pass after the pass has ended, also when its row was forgotten', async () => {
    const { store, query, rows, index, listing, projector } = following()
    const key = keyOf('alice', 1)
    store('request', key)
    store('request', key)
    store('work', key, { session: 'once' })
    store('return', key)
    // A plain pass does not stay in memory after its end.
    projector.forget(new Set([3]))
    listing.note(keyText(key))
    const unrecorded = () => listing.unrecorded.newest({}, undefined, 5)
    expect([(await query.list({}, 5)).passes.map(({ status }) => status), unrecorded()]).toEqual([['returned'], []])
    index.put(indexEntryOf({ stored: recordOf(1, 'alice'), row: { ...rowOf(recordOf(1, 'alice')), ...key } }, 2), 'old')
    rows.remove(keyText(key))
    expect(unrecorded()).toEqual([])
  })
})

describe('with thousands of open passes', () => {
  const many = 6_000
  const open = () => {
    const all = following()
    for (let number = 0; number < many; number++) {
      const key = keyOf('mallory', number)
      if (number % 3 === 0) all.store('request', key)
      else all.store(number % 3 === 1 ? 'held' : 'work', key, { session: 'flood' })
    }
    const parent = keyOf('mallory', 1)
    all.store('work', keyOf('alice', 0), { session: 'small', parent })
    // Half of them is old, and written.
    for (let n = 0; n < many / 20; n++) all.projector.writeOpen(1_000_000)
    for (let number = 0; number < 100; number++) all.store('work', keyOf('mallory', many + number), { session: 'late' })
    return { ...all, parent }
  }

  // Fails where an answer walks what is open: one agent's questions then hold up the thread of dispatcher and audit.
  it('a question looks at about as many as it tells', async () => {
    const { query: lists, search, looks, parent } = open()
    const cost = async (ask: () => Promise<unknown>) => {
      const before = looks()
      await ask()
      return looks() - before
    }
    expect(await cost(() => lists.list({ party: 'mallory' }, 10))).toBeLessThanOrEqual(20)
    expect(await cost(() => lists.list({}, 100))).toBeLessThanOrEqual(120)
    const none = [
      { party: 'bob' },
      { party: 'mallory', subagent: 'bob' },
      { party: 'mallory', originator: 'bob', subagent: 'audit' },
      { party: 'mallory', status: 'refused' as const },
      { party: 'audit', originator: 'alice', status: 'held' as const },
    ]
    for (const filter of none) expect([filter, await cost(() => lists.list(filter, 10))]).toEqual([filter, 0])
    expect(await cost(() => lists.list({ session_id: 'small', status: 'waiting_for_return' }, 10))).toBeLessThanOrEqual(2)
    expect(await cost(() => lists.list({ originator: 'alice', parent: keyText(parent) }, 10))).toBeLessThanOrEqual(2)
    expect(await cost(() => lists.agents())).toBe(0)
    expect(await cost(() => lists.keys({ id: 'given-id-7' }))).toBe(0)
    expect(await cost(() => search.page({ party: 'mallory' }, 10))).toBeLessThanOrEqual(24)
    expect(await cost(() => search.page({ party: 'mallory', status: 'refused' }, 10))).toBe(0)
    // A request's session is in its body: only so many are looked at, and the answer says so.
    expect(await cost(() => lists.list({ session_id: 'nowhere' }, 10))).toBeLessThanOrEqual(300)
    expect(await lists.list({ session_id: 'nowhere' }, 10)).toEqual({ passes: [], more: true })
  })

  it('what is told is right, also after they have ended', async () => {
    const { query: lists, store, search, parent } = open()
    const ids = ({ passes }: { passes: PassRow[] }) => passes.map(({ id }) => id)
    const listed = async (filter: Parameters<PassLists['list']>[0]) => ids(await lists.list(filter, 3))
    const last = (n: number) => `given-id-${many + 100 - n}`
    expect(await listed({ party: 'mallory' })).toEqual([1, 2, 3].map(last))
    expect(await listed({ session_id: 'small' })).toEqual(['given-id-0'])
    expect(await listed({ originator: 'alice', parent: keyText(parent) })).toEqual(['given-id-0'])
    expect(await listed({ party: 'audit', status: 'held' })).toEqual([5_998, 5_995, 5_992].map((n) => `given-id-${n}`))
    expect(await listed({ status: 'requested' })).toEqual([5_997, 5_994, 5_991].map((n) => `given-id-${n}`))
    expect(await lists.keys({ id: 'given-id-0' })).toEqual([keyOf('mallory', 0), keyOf('alice', 0)])
    const page = await search.page({ party: 'mallory' }, 2)
    expect(page?.entries.map(({ row }) => row.id)).toEqual([1, 2].map(last))
    const counts = async () => (await lists.agents()).map(({ agent, open, waiting, originated }) => [agent.name, open, waiting, originated])
    expect(await counts()).toEqual([
      ['alice', 0, 0, 1],
      ['audit', 2_101, 4_000, 0],
      ['mallory', 0, 0, 6_100],
    ])
    for (let number = 2; number < many; number += 3) store('return', keyOf('mallory', number))
    store('work', keyOf('mallory', 1))
    expect(await counts()).toEqual([
      ['alice', 0, 0, 1],
      ['audit', 102, 3_999, 0],
      ['mallory', 0, 0, 4_100],
    ])
    expect((await lists.list({ status: 'waiting_for_return' }, 1_000)).passes).toHaveLength(102)
  })
})
