import { expect, test } from 'vitest'
import { deadLetterResolution } from './dead-letter-resolution.js'

const event = (sequence: number, sender: string, body: unknown) => ({
  kind: 'settled' as const,
  sender,
  sequence,
  time: sequence * 10,
  body,
})
const requeue = { v: 1, action: 'requeue', requeued_as: 'requeue-0123456789' }
const drop = { v: 1, action: 'drop', reason: 'no use' }
const anybody = () => true

test('the first that counts is what became of it, and nothing later changes it', () => {
  expect(deadLetterResolution([event(4, 'ann', drop), event(5, 'bob', requeue)], anybody)).toEqual({
    action: 'drop',
    by: 'ann',
    time: 40,
    reason: 'no use',
  })
  expect(deadLetterResolution([event(5, 'bob', requeue)], anybody)).toEqual({
    action: 'requeue',
    by: 'bob',
    time: 50,
    requeued_as: 'requeue-0123456789',
  })
})

test('what says nothing, and what no person said, is passed over', () => {
  const bad = [null, undefined, { v: 1, action: 'requeue' }, { ...drop, requeued_as: 'requeue-0123456789' }, { ...drop, v: 2 }]
  expect(deadLetterResolution([...bad.map((body, n) => event(n + 1, 'ann', body)), event(9, 'bob', drop)], anybody)).toMatchObject({
    by: 'bob',
  })
  expect(deadLetterResolution([event(1, 'passover', drop), event(2, 'audit', drop)], ({ sender }) => sender !== 'audit')).toBeUndefined()
  expect(deadLetterResolution([{ ...event(1, 'ann', drop), kind: 'cancel' }], anybody)).toBeUndefined()
})
