import { PASS_STATUSES, type PassStatus } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { RULES, step } from '../testing/samples.js'
import { foldJournal } from './lifecycle.js'
import { passStatus, type StatusEvent, transition } from './status.js'

const EVENTS: StatusEvent[] = ['hold', 'admit', 'refuse', 'return', 'time_out', 'cancel', 'await_release', 'expire', 'process']

/** DESIGN §3, written out. */
const POSSIBLE: [PassStatus, StatusEvent, PassStatus][] = [
  ['requested', 'hold', 'held'],
  ['requested', 'admit', 'waiting_for_return'],
  ['requested', 'refuse', 'refused'],
  ['requested', 'time_out', 'timed_out'],
  ['requested', 'cancel', 'cancelled'],
  ['held', 'admit', 'waiting_for_return'],
  ['held', 'refuse', 'refused'],
  ['held', 'time_out', 'timed_out'],
  ['held', 'cancel', 'cancelled'],
  ['waiting_for_return', 'return', 'returned'],
  ['waiting_for_return', 'time_out', 'timed_out'],
  ['waiting_for_return', 'cancel', 'cancelled'],
  ['returned', 'await_release', 'awaiting_release'],
  ['returned', 'process', 'processed'],
  ['awaiting_release', 'process', 'processed'],
  ['awaiting_release', 'expire', 'expired'],
]

describe('transition', () => {
  it.each(PASS_STATUSES.flatMap((from) => EVENTS.map((event) => [from, event] as const)))('from %s by %s', (from, event) => {
    const to = POSSIBLE.find(([a, b]) => a === from && b === event)?.[2]
    const result = transition(from, event)
    if (to) expect(result).toEqual({ ok: true, status: to })
    else expect(result).toEqual({ ok: false, why: expect.stringContaining(from) })
  })
})

describe('passStatus', () => {
  const system = (code: 'E003' | 'E010' | 'E011' | 'E013' | 'E043') => step('return', 9, { by: 'passover', attempt: 0, code })
  const work = step('work', 2)

  it.each<[PassStatus, Parameters<typeof foldJournal>[0], Parameters<typeof passStatus>[1]]>([
    ['requested', [], {}],
    ['held', [step('held', 1)], {}],
    ['waiting_for_return', [work], {}],
    ['returned', [work, step('return', 3)], {}],
    ['awaiting_release', [work, step('return', 3)], { awaiting_release: true }],
    ['processed', [work, step('return', 3)], { awaiting_release: true, processed: true }],
    ['expired', [work, step('return', 3)], { expired: true, processed: true }],
    ['returned', [work, system('E011')], {}],
    ['refused', [system('E003')], {}],
    ['refused', [step('held', 1), system('E013')], {}],
    ['timed_out', [system('E010')], {}],
    ['timed_out', [work, system('E010')], { processed: true }],
    ['cancelled', [step('held', 1), system('E043')], {}],
  ])('is %s', (status, steps, delivery) => {
    expect(passStatus(foldJournal(steps, RULES).journal, delivery)).toBe(status)
  })

  it('needs no word about delivery', () => {
    expect(passStatus(foldJournal([work, step('return', 3)], RULES).journal)).toBe('returned')
  })
})
