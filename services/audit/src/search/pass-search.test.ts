import type { PassQuery, PassRecord } from '@passover/schemas'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { KEY, RULES, requestOf, returnOf, subjects, workOf } from '../../testing/samples.js'
import { sealed } from '../../testing/sealed.js'
import { rowOf } from '../records/build-record.js'
import { indexEntryOf } from './index/index-entry.js'
import { PassIndex } from './index/pass-index.js'
import { PassOrder } from './index/pass-order.js'
import { PassSearch, type SearchDeps } from './pass-search.js'

function record(number: number, more: Partial<PassRecord> = {}): PassRecord {
  const key = { originator: number % 3 === 0 ? 'alice' : 'scout', subagent: 'audit', id: `given-id-${number}` }
  return {
    v: 1,
    key,
    status: 'returned',
    session_id: `session-${number % 4}`,
    reason: `reason ${number}`,
    attempt: 1,
    requested_at: 1_000 + Math.floor(number / 3),
    ended_at: 2_000 + number,
    sequences: { requests: [number + 1], work: number + 2, return: number + 3, fences: [], last: number + 3 },
    decisions: [],
    ...more,
  } as PassRecord
}

/** A bucket with its index, and a search over them. `ms`: what each look at the clock costs. */
function searched(ms = 0, more: Partial<SearchDeps> = {}) {
  const bucket = new Map<number, PassRecord>()
  const index = new PassIndex(5)
  let revision = 0
  let now = 0
  const search = new PassSearch({
    clock: { now: () => 0, monotonic: () => (now += ms), after: () => ({ [Symbol.dispose]: () => undefined }) },
    table: { at: async (at: number) => (bucket.has(at) ? { key: '', value: bucket.get(at), revision: at } : undefined) },
    index,
    indexing: { complete: true, horizon: Number.NEGATIVE_INFINITY },
    projector: { unwritten: () => [], notes: new Map() },
    listing: { unrecorded: new PassOrder() },
    acknowledged: { has: () => false },
    archive: { messages: async () => [] },
    bus: { journal: { message: async () => undefined } },
    rules: { id_window_ms: 1_000 },
    check: undefined,
    ...more,
  } as unknown as SearchDeps)
  const write = (one: PassRecord) => {
    bucket.set(++revision, one)
    index.put(indexEntryOf({ stored: one, row: rowOf(one) }, revision), 'live')
  }
  const ids = async (query: PassQuery, between: () => void = () => undefined) => {
    const found: string[] = []
    const sizes: number[] = []
    for (let cursor: string | undefined; ; ) {
      const page = await search.page({ ...query, ...(cursor === undefined ? {} : { cursor }) }, query.limit ?? 50)
      if (!page) throw new Error('no page')
      found.push(...page.entries.map(({ row }) => row.id))
      sizes.push(page.entries.length)
      if (page.cursor === undefined) return { found, sizes }
      cursor = page.cursor
      between()
    }
  }
  return { write, ids, search }
}

describe('pages of a query', () => {
  it('are stable while writes go on: none twice, and none is missed that was there before the first page', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.record({
          before: fc.integer({ min: 0, max: 40 }),
          limit: fc.integer({ min: 1, max: 7 }),
          seeds: fc.array(fc.nat(80), { maxLength: 60 }),
        }),
        async ({ before, limit, seeds }) => {
          const { write, ids } = searched()
          for (let number = 0; number < before; number++) write(record(number))
          let next = before
          const { found } = await ids({ limit }, () => {
            const seed = seeds.pop()
            if (seed === undefined) return
            // A new one, or one that is there is written again.
            write(seed % 2 === 0 || before === 0 ? record(next++) : record(seed % before, { status: 'processed' }))
          })
          expect(new Set(found).size).toBe(found.length)
          for (let number = 0; number < before; number++) expect(found).toContain(`given-id-${number}`)
        },
      ),
      { numRuns: 200 },
    )
  })

  it('come newest first, and say when that was all', async () => {
    const { write, ids } = searched()
    for (let number = 0; number < 10; number++) write(record(number))
    const { found, sizes } = await ids({ limit: 4 })
    expect(found).toEqual(Array.from({ length: 10 }, (_, number) => `given-id-${9 - number}`))
    expect(sizes).toEqual([4, 4, 2])
    expect((await ids({ limit: 10 })).sizes).toEqual([10])
  })

  it('look for text within a time, and go on by the cursor', async () => {
    const { write, ids, search } = searched(200)
    for (let number = 0; number < 400; number++) write(record(number, number === 3 ? { reason: 'The Login FLOW' } : {}))
    const page = await search.page({ text: 'login flow' }, 50)
    expect(page).toMatchObject({ entries: [], scanned: { passes: 64 }, cursor: expect.any(String) })
    const { found, sizes } = await ids({ text: 'login flow' })
    expect(found).toEqual(['given-id-3'])
    expect(sizes).toEqual([0, 0, 0, 0, 0, 0, 1])
  })

  it('look for an agent in no summary that is withheld from it, and still in its reason', async () => {
    const { write, search } = searched()
    const entry = { summary: 'SECRET words', returned: true } as never
    const denied = [{ item: 'return', verdict: 'deny', person: 'ann', time: 1 }] as never
    const cases: [Partial<PassRecord>, number][] = [
      [{ status: 'awaiting_release', entry }, 3],
      [{ status: 'expired', entry }, 6],
      [{ decisions: denied, entry }, 9],
      [{ entry }, 12],
    ]
    for (const [more, number] of cases) write(record(number, more))
    const found = async (text: string, party?: string) =>
      (await search.page({ text, party }, 50))?.entries.map(({ row }) => row.id.slice('given-id-'.length))
    expect(await found('secret')).toEqual(['12', '9', '6', '3'])
    expect(await found('secret', 'alice')).toEqual(['12'])
    expect(await found('secret', 'audit')).toEqual(['12', '9', '6', '3'])
    expect(await found('reason', 'alice')).toEqual(['12', '9', '6', '3'])
    expect(await search.page({ text: 'secret', party: 'alice' }, 1)).toMatchObject({ entries: [{ row: { id: 'given-id-12' } }] })
  })

  it('take no longer than their time where each record is slow: what is not there yet comes with the next', async () => {
    const { write, ids } = searched(200)
    for (let number = 0; number < 20; number++) write(record(number))
    expect(await ids({})).toEqual({ found: Array.from({ length: 20 }, (_, at) => `given-id-${19 - at}`), sizes: [8, 8, 4] })
  })

  it('never grow beyond a message', async () => {
    const { write, ids } = searched()
    const summary = 'x'.repeat(100_000)
    for (let number = 0; number < 20; number++) write(record(number, { entry: { summary } as never }))
    const { found, sizes } = await ids({})
    expect(found).toHaveLength(20)
    expect(Math.max(...sizes)).toBeLessThanOrEqual(6)
  })

  it('are not complete while what fell out of the bucket is not known', async () => {
    let complete = false
    const older = { search: async () => ({ found: [], complete }) }
    const { write, search } = searched(0, { older, indexing: { complete: true, horizon: 1_500 } })
    write(record(3))
    expect(await search.page({}, 5)).toMatchObject({ entries: [{ row: { id: 'given-id-3' } }], complete: false })
    complete = true
    expect(await search.page({}, 5)).toMatchObject({ entries: [{ row: { id: 'given-id-3' } }], complete: true })
  })

  it('take only a cursor that one of them gave', async () => {
    const { search } = searched()
    for (const cursor of ['', 'x', '1', '-1', '1-', '1--2', '99999999999999999-1', '1e3-2'])
      expect(await search.page({ cursor }, 5), cursor).toBeUndefined()
  })

  it('leave out what the index took for a match and the record does not say', async () => {
    const { write, ids } = searched()
    write(record(1))
    expect((await ids({ status: 'processed' })).found).toEqual([])
    expect((await ids({ status: 'returned' })).found).toEqual(['given-id-1'])
  })
})

it('says that a page is incomplete if a pass on it needs indexes of the archive that are not read yet', async () => {
  const archive = sealed(2, [requestOf(1), workOf(2), returnOf(3)])
  const bus = {
    subjects,
    bounds: async () => ({ first: 1, last: 10 }),
    journal: { history: async () => [], message: async () => undefined },
  }
  const more = { archive, bus, rules: RULES, table: { at: async () => undefined } } as unknown as Partial<SearchDeps>
  const { write, search } = searched(0, more)
  write({ ...record(0), key: KEY, session_id: 'session-1' })
  expect(await search.page({}, 50)).toEqual({ entries: [], complete: false })
  await archive.finder.prepare()
  expect(await search.page({}, 50)).toMatchObject({ entries: [{ row: { id: KEY.id } }], complete: true })
})
