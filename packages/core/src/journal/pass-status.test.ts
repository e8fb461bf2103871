import { PASS_STATUSES, type PassStatus, type Step } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { RULES, step } from '../../testing/samples.js'
import { type Delivery, passStatus } from './pass-status.js'
import { foldJournal } from './state-machine.js'

/** What each status leads to. What is not here is impossible. */
const LEADS: Record<PassStatus, PassStatus[]> = {
  requested: ['held', 'waiting_for_return', 'refused', 'timed_out', 'cancelled'],
  held: ['waiting_for_return', 'refused', 'timed_out', 'cancelled'],
  waiting_for_return: ['returned', 'timed_out', 'cancelled'],
  returned: ['awaiting_release', 'processed'],
  awaiting_release: ['processed', 'expired'],
  processed: [],
  expired: [],
  refused: [],
  timed_out: [],
  cancelled: [],
}

const STEPS: Partial<Step>[] = [
  { kind: 'held' },
  { kind: 'work' },
  { kind: 'fence' },
  { kind: 'return' },
  ...(['E003', 'E010', 'E011', 'E013', 'E043'] as const).map((code) => ({ kind: 'return' as const, by: 'passover', attempt: 0, code })),
]

/** Every journal of so many steps, whether they are possible or not. */
function journals(length: number): Step[][] {
  if (length === 0) return [[]]
  return journals(length - 1).flatMap((steps) => STEPS.map(({ kind = 'work', ...more }) => [...steps, step(kind, length, more)]))
}

const awaiting: Delivery = { awaiting_release: true }
/** How a delivery goes on. */
const DELIVERIES: [Delivery, Delivery][] = [
  [{}, awaiting],
  [{}, { processed: true }],
  [awaiting, { ...awaiting, processed: true }],
  [awaiting, { ...awaiting, expired: true }],
]

it('a status leads to those of the table and to no others, whatever steps are stored and however delivery goes on', () => {
  const moves = new Set<string>()
  const note = (from: PassStatus, to: PassStatus) => from !== to && moves.add(`${from} → ${to}`)
  for (const steps of [1, 2, 3, 4].flatMap(journals)) {
    const { journal } = foldJournal(steps, RULES)
    note(passStatus(foldJournal(steps.slice(0, -1), RULES).journal), passStatus(journal))
    for (const [before, after] of DELIVERIES) note(passStatus(journal, before), passStatus(journal, after))
  }
  expect([...moves].sort()).toEqual(PASS_STATUSES.flatMap((from) => LEADS[from].map((to) => `${from} → ${to}`)).sort())
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

it('takes no code of a subagent for a timeout or a cancellation by the dispatcher', () => {
  for (const code of ['E010', 'E043'] as const) {
    const { journal } = foldJournal([step('work', 1), step('return', 2, { code })], RULES)
    expect(passStatus(journal)).toBe('returned')
  }
})
