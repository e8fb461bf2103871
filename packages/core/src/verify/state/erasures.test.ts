import type { PassKey, RequestFact, Step } from '@passover/schemas'
import { describe, expect, test } from 'vitest'
import { overdue } from '../rules/overdue.js'
import { Erasures } from './erasures.js'
import { PassRegistry } from './pass-registry.js'
import type { RecordedMessage } from './recorded-message.js'

const key: PassKey = { originator: 'alice', subagent: 'audit', id: 'pass-000000001' }
const text = 'alice/audit/pass-000000001'
const step = { type: 'step', kind: 'work', key, by: 'medium', sequence: 9, time: 1_000 } as Step

describe('what was erased', () => {
  test('is not to be seen, nor is what lies before the beginning', () => {
    const erasures = new Erasures(5)
    erasures.add(9, 'named')
    expect([4, 5, 9, 10].map((sequence) => erasures.unseen(sequence))).toEqual([true, false, true, false])
  })

  test('may have been of any pass where nothing says whose it was', () => {
    const erasures = new Erasures(1)
    erasures.add(9, 'named')
    expect(erasures.namelessSince(1)).toBe(false)
    erasures.add(12, 'nameless')
    erasures.add(11, 'nameless')
    expect([11, 12].map((sequence) => erasures.namelessSince(sequence))).toEqual([true, false])
  })

  test('is remembered of a pass that is open, and of one that has not begun', () => {
    const passes = new PassRegistry()
    const open = passes.begin(step, false)
    expect(open.erased).toBe(false)
    passes.erase(key)
    expect(open.erased).toBe(true)
    const later = { ...key, id: 'pass-000000002' }
    passes.erase(later)
    expect(passes.begin({ ...step, key: later }, false).erased).toBe(true)
  })
})

describe('what had to have an end', () => {
  const found = (change: (passes: PassRegistry, erasures: Erasures) => unknown) => {
    const passes = new PassRegistry()
    const erasures = new Erasures(1)
    change(passes, erasures)
    return [...overdue(passes, { now: 1_000_000, slack_ms: 0, erasures })].map(({ what }) => what)
  }
  const begin = (passes: PassRegistry) => {
    const pass = passes.begin(step, false)
    pass.journal = { state: 'open', last: 9, valid: 9, attempt: 1, work: step, deadline: 31_000 }
    return pass
  }
  const fact = { type: 'request', originator: 'alice', subagent: 'audit', id: key.id, sequence: 3, time: 900 } as RequestFact
  const recorded = { reading: () => ({ ok: false }) } as unknown as RecordedMessage
  const ask = (passes: PassRegistry) => {
    passes.asking.add({ fact, recorded, text, other: false })
    return true
  }

  test.each<[string, Parameters<typeof found>[0], string[]]>([
    ['an open pass', (book) => begin(book), ['has no return 969000 ms after its deadline']],
    ['one whose return may have been erased', (book) => book.erase(begin(book).key), []],
    ['one behind which somebody’s entry was erased', (book, erasures) => begin(book) && erasures.add(12, 'nameless'), []],
    ['a request', (book) => ask(book), ['was never answered: no step refers to it']],
    ['one whose answer was erased', (book) => ask(book) && book.erase(key), []],
    ['one behind which somebody’s entry was erased', (book, erasures) => ask(book) && erasures.add(4, 'nameless'), []],
  ])('%s', (_, change, what) => {
    expect(found(change)).toEqual(what)
  })
})
