import { foldJournal } from '@passover/core'
import type { Fact, Step } from '@passover/schemas'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { deletionOrder } from './deletion-order.js'

const rules = { id_window_ms: 3_600_000 }
const key = { originator: 'alice', subagent: 'audit', id: 'given-id-1' }
const request = (sequence: number): Fact => ({ type: 'request', originator: 'alice', subagent: 'audit', id: key.id, sequence, time: 0 })
const step = (sequence: number, kind: Step['kind'], by: string, attempt = 0): Step => ({
  type: 'step',
  kind,
  key,
  by,
  sequence,
  time: sequence,
  attempt,
})
const event = (sequence: number): Fact => ({ type: 'event', kind: 'progress', key, sender: 'audit', sequence, time: 0 })
const violation = (sequence: number): Fact => ({ type: 'event', kind: 'violation', key, sender: 'passover', sequence, time: 0 })
const decision = (sequence: number): Fact => ({ type: 'decision', key, item: 'apply', person: 'maria', sequence, time: 0 })

describe('deletionOrder', () => {
  it('what says that something does not count goes after it: it would be told again', () => {
    const facts = [
      request(1),
      step(2, 'work', 'medium'),
      step(3, 'return', 'audit', 1),
      step(4, 'fence', 'audit', 2),
      violation(5),
      event(6),
    ]
    expect(deletionOrder(facts, rules)).toEqual([1, 6, 4, 5, 2, 3])
  })

  it('requests, then events and decisions, then ignored steps, then the steps in order, the return last', () => {
    const facts = [
      request(1),
      step(2, 'work', 'medium'),
      event(3),
      step(4, 'fence', 'audit', 2),
      step(5, 'return', 'audit', 1),
      step(6, 'return', 'audit', 2),
      step(7, 'return', 'audit', 2),
      decision(8),
      request(9),
    ]
    expect(deletionOrder(facts, rules)).toEqual([1, 9, 3, 8, 5, 7, 2, 4, 6])
  })

  it('whatever was deleted before a crash, what is left never reads as another ending', () => {
    const journals = fc.array(
      fc.constantFrom<[Step['kind'], string, number]>(
        ['work', 'medium', 0],
        ['fence', 'audit', 2],
        ['fence', 'audit', 3],
        ['return', 'audit', 1],
        ['return', 'audit', 2],
        ['return', 'passover', 0],
      ),
      { maxLength: 8 },
    )
    fc.assert(
      fc.property(journals, (list) => {
        const steps = list.map(([kind, by, attempt], i) => step(i + 1, kind, by, attempt))
        const whole = foldJournal(steps, rules).journal
        if (whole.state !== 'done') return
        const order = deletionOrder(steps, rules)
        expect([...order].sort((a, b) => a - b)).toEqual(steps.map(({ sequence }) => sequence))
        expect(order.at(-1)).toBe(whole.return.sequence)
        for (let gone = 0; gone < order.length; gone++) {
          const left = steps.filter(({ sequence }) => !order.slice(0, gone).includes(sequence))
          const now = foldJournal(left, rules).journal
          // A second return that was ignored must not come to count once the first is gone.
          if (now.state === 'done') expect(now.return.sequence).toBe(whole.return.sequence)
        }
      }),
    )
  })
})
