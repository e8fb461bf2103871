import fc from 'fast-check'
import { expect, it } from 'vitest'
import { type ListedPass, type OrderFilter, PassOrder } from './pass-order.js'

const AGENTS = ['alice', 'bob', 'audit']
const STATUSES = ['requested', 'held', 'returned', 'processed', 'refused']
const WORDS = ['one', 'two']

const ordered = fc
  .record({
    originator: fc.constantFrom(...AGENTS),
    subagent: fc.constantFrom(...AGENTS),
    n: fc.nat(30),
    status: fc.constantFrom(...STATUSES),
    created_at: fc.nat(5),
    sequence: fc.nat(5),
    session_id: fc.option(fc.constantFrom(...WORDS), { nil: undefined }),
    parent: fc.option(fc.constantFrom(...WORDS), { nil: undefined }),
  })
  .map(({ originator, subagent, n, ...rest }): ListedPass => {
    const unread = rest.status === 'requested'
    const key = { originator, subagent, id: `id-${n}` }
    const told = unread ? { session_id: undefined, parent: undefined } : {}
    return { ...rest, ...told, key, text: `${originator}/${subagent}/${key.id}`, unread }
  })

const filter: fc.Arbitrary<OrderFilter> = fc.record(
  {
    originator: fc.constantFrom(...AGENTS),
    subagent: fc.constantFrom(...AGENTS),
    party: fc.constantFrom(...AGENTS),
    status: fc.constantFrom(...STATUSES),
    session_id: fc.constantFrom(...WORDS),
    parent: fc.constantFrom(...WORDS),
  },
  { requiredKeys: [] },
)

/** As said by each pass on its own. */
function fits({ key, status, session_id, parent, unread }: ListedPass, wanted: OrderFilter): boolean {
  const is = <T>(one: T | undefined, other: T) => one === undefined || one === other
  const isParty = is(wanted.party, key.originator) || is(wanted.party, key.subagent)
  const isStatus = is(wanted.status, status) || (wanted.status === 'processed' && status === 'returned')
  const isTold = unread || (is<string | undefined>(wanted.session_id, session_id) && is<string | undefined>(wanted.parent, parent))
  return is(wanted.originator, key.originator) && is(wanted.subagent, key.subagent) && isParty && isStatus && isTold
}

it('tells page by page exactly what matches, newest first, whatever came, changed and went before', () => {
  const changes = fc.array(fc.tuple(ordered, fc.boolean()), { maxLength: 120 })
  fc.assert(
    fc.property(changes, filter, fc.integer({ min: 1, max: 7 }), (all, wanted, page) => {
      const order = new PassOrder()
      const known = new Map<string, ListedPass>()
      for (const [one, stays] of all) {
        if (stays) {
          order.put(one)
          known.set(one.text, one)
        } else expect(order.delete(one.text)).toBe(known.delete(one.text))
      }
      const newest = (a: ListedPass, b: ListedPass) => b.created_at - a.created_at || b.sequence - a.sequence || (a.text < b.text ? -1 : 1)
      const right = [...known.values()].filter((one) => fits(one, wanted)).sort(newest)
      const told: ListedPass[] = []
      for (;;) {
        const some = order.newest(wanted, told.at(-1), page)
        told.push(...some)
        if (some.length < page) break
      }
      expect(told).toEqual(right)
      expect(order.size).toBe(known.size)
      const held = [...known.values()].filter(({ key, status }) => key.subagent === 'audit' && status === 'held')
      expect(order.count('subagent', 'audit', 'held')).toBe(held.length)
      const first = [...known.values()].filter(({ key }) => key.id === 'id-1').map(({ text }) => text)
      const found = order.withId('id-1').map(({ originator, subagent, id }) => `${originator}/${subagent}/${id}`)
      expect(found.sort()).toEqual(first.sort())
    }),
    { numRuns: 300 },
  )
})
