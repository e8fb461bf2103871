import type { PassKey } from '@passover/schemas'
import { expect, test } from 'vitest'
import { DecidedPasses } from './decided-passes.js'

const KEY: PassKey = { originator: 'alice', subagent: 'audit', id: 'pass-00000001' }
const held = () => true

test('a pass that stays held comes up again after twice as long each time, a minute at most', () => {
  const decided = new DecidedPasses(10_000)
  decided.note(KEY, 0)
  const at: number[] = []
  for (let now = 0; now <= 200_000; now += 1_000) if (decided.due(now, held).length > 0) at.push(now)
  expect(at).toEqual([10_000, 30_000, 70_000, 130_000, 190_000])
})

test('what is no longer held, or was settled, is forgotten', () => {
  const decided = new DecidedPasses(10)
  decided.note(KEY, 0)
  expect(decided.due(5, () => false)).toEqual([])
  expect(decided.size).toBe(0)
  decided.note(KEY, 0)
  decided.forget(KEY)
  expect(decided.due(100, held)).toEqual([])
})

test('any number of decisions about a pass are one', () => {
  const decided = new DecidedPasses(10)
  for (let n = 0; n < 100; n++) decided.note(KEY, n)
  expect(decided.due(10, held)).toEqual([KEY])
  expect(decided.due(11, held)).toEqual([])
})

test('what a snapshot names is tried at once; what is no name is left out', () => {
  const decided = new DecidedPasses(10_000)
  decided.note(KEY, 0)
  const again = new DecidedPasses(10_000)
  again.restore([...decided.names(), 'nonsense', 7, null])
  expect(again.due(1, held)).toEqual([KEY])
})
