import type { PassFilter } from '@passover/schemas'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isBefore, type ListPosition } from '../../records/list-cursor.js'
import { decidedWord } from './index-filter.js'
import { type IndexEntry, PassIndex } from './pass-index.js'

const NAMES = ['alice', 'audit', 'scout']
const decided = (person: string, verdict: 'approve' | 'deny') =>
  decidedWord([{ item: 'dispatch', person, verdict, digest: 'd', sequence: 1, time: 1 } as never])

/** Few of everything, so that they meet. */
const entry = fc.record({
  key: fc.record({
    originator: fc.constantFrom(...NAMES),
    subagent: fc.constantFrom(...NAMES),
    id: fc.constantFrom('id-0', 'id-1', 'id-2'),
  }),
  session_id: fc.constantFrom(undefined, 's1', 's2'),
  status: fc.constantFrom('returned', 'refused', 'held'),
  ended: fc.constantFrom(undefined, 'completed', 'failed'),
  code: fc.constantFrom(undefined, 'E010', 'E011'),
  decided: fc.constantFrom('', decided('carol', 'approve'), decided('dave', 'deny')),
  created_at: fc.integer({ min: 0, max: 40 }),
  first: fc.integer({ min: 1, max: 10_000 }),
  ended_at: fc.constantFrom(undefined, 50),
  returned: fc.constantFrom(undefined, 70),
})
const filters: fc.Arbitrary<PassFilter & { party?: string }> = fc.record(
  {
    originator: fc.constantFrom(...NAMES, 'nobody'),
    subagent: fc.constantFrom(...NAMES),
    party: fc.constantFrom(...NAMES),
    session_id: fc.constantFrom('s1', 's3'),
    status: fc.constantFrom('returned', 'failed', 'held'),
    code: fc.constantFrom('E010', 'E020'),
    from: fc.integer({ min: 0, max: 40 }),
    to: fc.integer({ min: 0, max: 40 }),
    decision: fc.record({ person: fc.constantFrom('carol', 'dave'), verdict: fc.constantFrom('approve', 'deny') }, { requiredKeys: [] }),
  },
  { requiredKeys: [] },
)

function fits(one: IndexEntry, filter: PassFilter & { party?: string }): boolean {
  const { originator, subagent, party, session_id, status, code, from = 0, to = Number.POSITIVE_INFINITY, decision } = filter
  const { key } = one
  const of = one.decided === '' ? undefined : (JSON.parse(one.decided) as [[string, string, string]])[0]
  return (
    (originator ?? key.originator) === key.originator &&
    (subagent ?? key.subagent) === key.subagent &&
    (party === undefined || party === key.originator || party === key.subagent) &&
    (session_id === undefined || one.session_id === session_id) &&
    (status === undefined || one.status === status || one.ended === status) &&
    (code === undefined || one.code === code) &&
    (decision === undefined || (of !== undefined && (decision.person ?? of[2]) === of[2] && (decision.verdict ?? of[1]) === of[1])) &&
    one.created_at >= from &&
    one.created_at < to
  )
}

describe('index of passes', () => {
  it('finds what a list of all would find, whatever was written, written over and forgotten', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(entry, fc.boolean()), { maxLength: 60 }),
        filters,
        fc.record({
          below: fc.integer({ min: 0, max: 60 }),
          count: fc.integer({ min: 1, max: 20 }),
          after: fc.option(fc.integer({ min: 0, max: 40 })),
          covered: fc.subarray(['id-0', 'id-1', 'id-2']),
          uncovered: fc.subarray(['id-0', 'id-1', 'id-2']),
        }),
        (writes, filter, { below, count, after, ...covers }) => {
          const covered = new Set(covers.covered)
          const index = new PassIndex(7, ({ id }) => covered.has(id))
          const model = new Map<string, IndexEntry>()
          for (const [number, [one, old]] of writes.entries()) {
            const written = { ...one, revision: number + 1 } as IndexEntry
            index.put(written, old ? 'old' : 'live')
            model.set(JSON.stringify(one.key), written)
            if (number !== 30) continue
            for (const id of covers.uncovered) covered.delete(id)
            for (const { key } of model.values()) index.cover(key, covered.has(key.id))
          }
          index.forgetBelow(below)
          for (const [text, { revision }] of model) if (revision < below) model.delete(text)
          const place = (one: IndexEntry): ListPosition => ({ created_at: one.created_at, sequence: one.first })
          const from = after === null ? undefined : { created_at: after, sequence: 5_000 }
          const expected = [...model.values()]
            .filter((one) => fits(one, filter) && (!from || isBefore(from, place(one))))
            .sort((a, b) => (isBefore(place(a), place(b)) ? -1 : 1))
            .map((one) => ({ ...place(one) }))
            .slice(0, count)
          const found = index.newest(filter, from, count)
          expect(found.map(({ created_at, sequence }) => ({ created_at, sequence }))).toEqual(expected)
          expect(index.size).toBe(model.size)
          const held = [...model.values()].filter(({ key, status }) => status === 'held' && !covered.has(key.id))
          const counts = NAMES.map((name) => ({
            open: 0,
            waiting: held.filter(({ key }) => key.subagent === name).length,
            originated: held.filter(({ key }) => key.originator === name).length,
          }))
          expect(NAMES.map((name) => index.countsOf(name))).toEqual(counts)
          for (const one of writes) expect(index.has(one[0].key)).toBe(model.has(JSON.stringify(one[0].key)))
        },
      ),
      { numRuns: 300 },
    )
  })

  it('a record that is older than the one that is known changes nothing', () => {
    const index = new PassIndex(1)
    const one = {
      key: { originator: 'a', subagent: 'b', id: 'c' },
      session_id: 's',
      ended: undefined,
      code: undefined,
      decided: '',
      returned: 2,
    }
    index.put({ ...one, status: 'returned', created_at: 5, first: 1, ended_at: 6, revision: 9 }, 'live')
    index.put({ ...one, status: 'held', created_at: 5, first: 1, ended_at: undefined, revision: 3 }, 'old')
    expect(index.newest({ status: 'returned' }, undefined, 2)).toHaveLength(1)
    expect(index.newest({ status: 'held' }, undefined, 2)).toHaveLength(0)
  })

  it('holds its bound in blocks, also where a few of each live on', () => {
    const index = new PassIndex(3)
    const put = (number: number, revision: number) =>
      index.put(
        {
          key: { originator: 'a', subagent: 'b', id: `id-${number}` },
          session_id: `s${number % 50}`,
          status: 'returned',
          ended: 'completed',
          code: undefined,
          decided: '',
          created_at: number,
          first: number + 1,
          ended_at: number + 3,
          returned: number + 2,
          revision,
        },
        'live',
      )
    let revision = 0
    for (let number = 0; number < 60_000; number++) {
      put(number, ++revision)
      // One in a thousand is written again and again.
      if (number % 100 === 0) for (let kept = 0; kept < number; kept += 1_000) put(kept, ++revision)
      if (number % 5_000 === 4_999) index.forgetBelow(revision - 6_000)
    }
    index.forgetBelow(revision - 6_000)
    expect(index.size).toBeLessThan(6_500)
    expect(index.scan({}).blocks.length).toBeLessThan(6)
    expect(index.newest({}, undefined, 3).map(({ created_at }) => created_at)).toEqual([59_999, 59_998, 59_997])
    expect(index.newest({ to: 3_000 }, undefined, 9).map(({ created_at }) => created_at)).toEqual([2_000, 1_000, 0])
  })
})
