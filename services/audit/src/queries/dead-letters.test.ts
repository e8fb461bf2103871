import { encode, type StoredMessage } from '@passover/bus'
import { type EventFact, type PassKey, SYSTEM } from '@passover/schemas'
import { expect, it } from 'vitest'
import { answerDeadLetters, type DeadLetterDeps } from './answer-dead-letters.js'
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
  const stored: StoredMessage = { subject: '', sequence, time: sequence, headers, data }
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
  // Fails where one agent's letters make those of others incomplete.
  expect([undefined, 'mallory', 'alice'].map((name) => dead.hasForgotten(name))).toEqual([true, true, false])
  // A letter that is told anew takes its place again.
  bury(dead, keyOf('alice', 1), 201)
  expect(dead.newest()[0]?.key.id).toBe('bad-1')
  expect(dead.newest()).toHaveLength(10)
})

it('says whose letters come after a page, so that one agent hides nobody’s, and whose are forgotten', async () => {
  const dead = new DeadLetters(() => false, 10)
  for (const n of [1, 2]) bury(dead, keyOf('alice', n), n)
  for (let n = 3; n < 23; n += 1) bury(dead, keyOf('mallory', n), n)
  const deps = { dead, rules: {}, seesAll: (name: string) => name === 'maria' } as unknown as DeadLetterDeps
  const ask = async (asker: string, more: object) => {
    const answer = await answerDeadLetters(deps, asker, { op: 'dead_letters', ...more })
    return answer.ok && { ...answer, letters: answer.letters.map(({ id }) => id) }
  }
  expect(await ask('maria', { limit: 2 })).toEqual({
    ok: true,
    letters: ['bad-22', 'bad-21'],
    more: true,
    next: 21,
    rest: [
      { originator: 'mallory', letters: 6 },
      { originator: 'alice', letters: 2 },
    ],
    forgotten: true,
  })
  expect(await ask('maria', { originator: 'alice' })).toEqual({ ok: true, letters: ['bad-2', 'bad-1'], more: false })
  expect(await ask('alice', { limit: 1 })).toMatchObject({ letters: ['bad-2'], rest: [{ originator: 'alice', letters: 1 }] })
})

it('what was erased is told no more, before any restart', () => {
  const dead = new DeadLetters(() => false)
  for (const n of [1, 2, 3]) bury(dead, keyOf('alice', n), 10 * n)
  // The letter itself, or what died.
  dead.drop(new Set([10, 29]))
  expect(dead.newest().map(({ key }) => key.id)).toEqual(['bad-2'])
  expect(dead.keys('bad-1')).toEqual([])
})
