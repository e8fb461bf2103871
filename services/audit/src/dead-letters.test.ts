import { encode, type Stored } from '@passover/bus'
import { type EventFact, type PassKey, SYSTEM } from '@passover/schemas'
import { expect, it } from 'vitest'
import { DeadLetters } from './dead-letters.js'

const headers = { get: () => undefined, last: () => undefined, pairs: () => [], text: () => '' }

function keyOf(originator: string, n: number): PassKey {
  return { originator, subagent: 'audit', id: `bad-${n}` }
}

function bury(dead: DeadLetters, key: PassKey, sequence: number): void {
  const data = encode(
    { v: 1, sequence: sequence - 1, error: { code: 'E005', message: 'malformed' }, bytes: new Uint8Array([1]) },
    'msgpack',
  )
  const stored: Stored = { subject: '', sequence, time: sequence, headers, data }
  const fact: EventFact = { type: 'event', kind: 'dead_letter', key, sender: SYSTEM, sequence, time: sequence }
  dead.take(stored, fact)
}

it('forgets, of too many letters, the oldest of whoever has most of them', () => {
  const dead = new DeadLetters(() => false, 10)
  for (const n of [1, 2]) bury(dead, keyOf('alice', n), n)
  for (let n = 3; n < 103; n += 1) bury(dead, keyOf('mallory', n), n)
  bury(dead, keyOf('bob', 200), 200)
  const left = dead.newest().map(({ key }) => `${key.originator} ${key.id}`)
  expect(left).toEqual(['bob bad-200', ...[102, 101, 100, 99, 98, 97, 96].map((n) => `mallory bad-${n}`), 'alice bad-2', 'alice bad-1'])
  expect(dead.complete).toBe(false)
  // A letter that is told anew takes its place again.
  bury(dead, keyOf('alice', 1), 201)
  expect(dead.newest()[0]?.key.id).toBe('bad-1')
  expect(dead.newest()).toHaveLength(10)
})

it('what was erased is told no more, before any restart', () => {
  const dead = new DeadLetters(() => false)
  for (const n of [1, 2, 3]) bury(dead, keyOf('alice', n), 10 * n)
  // The letter itself, or what died.
  dead.drop(new Set([10, 29]))
  expect(dead.newest().map(({ key }) => key.id)).toEqual(['bad-2'])
  expect(dead.keys('bad-1')).toEqual([])
})
