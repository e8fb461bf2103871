import { expect, it } from 'vitest'
import { mayDecide } from './answer-inbox.js'

it('an item is for its approvers, else for everybody, but never for who takes part in the pass', () => {
  const chain = ['alice', 'scout', 'audit']
  expect(['maria', 'alice', 'scout', 'audit'].map((name) => mayDecide({ chain }, name))).toEqual([true, false, false, false])
  const approvers = ['maria', 'scout']
  expect(['maria', 'scout', 'jonas'].map((name) => mayDecide({ chain, approvers }, name))).toEqual([true, false, false])
})
