import { keyText, type PassKey, type PassRecord } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { rowOf } from './describe.js'
import { Query, type QueryDeps } from './query.js'
import { MAX_ROWS, Rows } from './rows.js'
import { indexedOf } from './search/indexed.js'
import { PassIndex } from './search/pass-index.js'
import { PassSearch, type SearchDeps } from './search/pass-search.js'
import { isEmpty, seed } from './start.js'

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
  const projector = { young: new Map(), old: new Map(), notes: new Map() }
  const rows = { values: () => known.memory ?? [] }
  const archive = { keysOf: async () => [] }
  const rest = { projector, rows, table, archive, index: known.index, indexing: { complete: true }, agents: new Map() }
  const keys = await new Query(rest as unknown as QueryDeps).keys({ id: ID })
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
  const index = new PassIndex(3)
  for (const [at, stored] of records.entries()) index.put(indexedOf({ stored, row: rowOf(stored) }, revisionOf(at)), 'old')
  const rows = new Rows()
  await seed(table as never, rows)
  let now = 0
  const deps = {
    table,
    index,
    rows,
    seeded: Promise.resolve(),
    clock: { monotonic: () => (now += ms) },
    projector: { young: new Map(), old: new Map(), notes: new Map(), unrecorded: () => [] },
    indexing: { complete: true, horizon: Number.NEGATIVE_INFINITY },
    acknowledged: { has: () => false },
    agents: new Map(['alice', 'bob', 'audit'].map((name) => [name, { name }])),
  }
  const search = new PassSearch(deps as unknown as SearchDeps)
  return { query: new Query({ ...deps, search } as unknown as QueryDeps), rows }
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
