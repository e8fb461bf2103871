import { describe, expect, it } from 'vitest'
import { type IndexedItem, IndexedSet } from './indexed-set.js'

interface Named extends IndexedItem {
  name: string
}

const named = (name: string): Named => ({ name, index: 0 })
const names = (roster: IndexedSet<Named>) =>
  roster
    .all()
    .map(({ name }) => name)
    .sort()

describe('Roster', () => {
  it('has each item once, and loses exactly the one that is removed', () => {
    const roster = new IndexedSet<Named>()
    const [a, b, c] = [named('a'), named('b'), named('c')]
    for (const one of [a, b, c, b]) roster.add(one)
    expect([names(roster), roster.size]).toEqual([['a', 'b', 'c'], 3])
    expect([roster.remove(a), roster.remove(a), roster.has(a)]).toEqual([true, false, false])
    expect(names(roster)).toEqual(['b', 'c'])
    expect([roster.remove(c), roster.has(b), roster.remove(b), roster.size]).toEqual([true, true, true, 0])
    roster.add(a)
    expect(names(roster)).toEqual(['a'])
  })

  it('does not take one for another that stands where it would', () => {
    const roster = new IndexedSet<Named>()
    roster.add(named('a'))
    expect([roster.has(named('a')), roster.remove(named('a')), roster.size]).toEqual([false, false, 1])
  })

  it('may change while its items are gone through', () => {
    const roster = new IndexedSet<Named>()
    for (const name of ['a', 'b', 'c', 'd']) roster.add(named(name))
    const seen: string[] = []
    for (const one of roster.all()) {
      seen.push(one.name)
      roster.remove(one)
    }
    expect([seen.sort(), roster.size]).toEqual([['a', 'b', 'c', 'd'], 0])
  })
})
