import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { deliveredStatus, sendStatus } from '../journal/delivery-status.js'
import { packSequences, sequencesIn } from './sequence-list.js'

describe('a list of acknowledged returns', () => {
  it('reads as it was packed, each once', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 2 ** 45 }), { maxLength: 200 }), (given) => {
        const ascending = [...given].sort((a, b) => a - b)
        expect(sequencesIn({ v: 1, returns: packSequences(ascending) }, Number.MAX_SAFE_INTEGER)).toEqual([...new Set(ascending)])
      }),
    )
  })

  it('says nothing of what was not stored before it, and nothing at all where it is no such list', () => {
    expect(sequencesIn({ returns: [5, 2, 3] }, 10)).toEqual([5, 7])
    for (const returns of [[3, -1], [0], [1.5], ['7'], 'x', undefined, new Array(70_000).fill(1)]) {
      expect(sequencesIn({ returns }, 1_000_000)).toEqual([])
    }
    for (const body of [undefined, null, 7, [1, 2]]) expect(sequencesIn(body, 100)).toEqual([])
  })
})

describe('how far a pass is for its originator', () => {
  const of = (status: Parameters<typeof sendStatus>[0]['status'], acknowledged = false, undelivered = false) =>
    sendStatus({ status, acknowledged, undelivered })

  it.each([
    ['requested', 'stored'],
    ['held', 'stored'],
    ['waiting_for_return', 'dispatched'],
    ['awaiting_release', 'dispatched'],
    ['returned', 'delivered'],
    ['refused', 'delivered'],
    ['timed_out', 'delivered'],
    ['cancelled', 'delivered'],
  ] as const)('%s: %s', (status, send) => {
    expect(of(status)).toBe(send)
    expect(of(status, true)).toBe('acknowledged')
  })

  it('undelivered until it is acknowledged after all', () => {
    expect(of('returned', false, true)).toBe('undelivered')
    expect(of('returned', true, true)).toBe('acknowledged')
  })

  it('what a worker returned is processed then; what never got there stays what it is', () => {
    expect(deliveredStatus('returned', true)).toBe('processed')
    expect(deliveredStatus('returned', false)).toBe('returned')
    for (const status of ['refused', 'timed_out', 'cancelled', 'awaiting_release', 'expired'] as const)
      expect(deliveredStatus(status, true)).toBe(status)
  })
})
