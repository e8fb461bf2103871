import { PassOverError } from '@passover/core'
import { expect, it } from 'vitest'
import { problemOf } from './problem.js'

it('tells when to ask again, unless that never helps, and then what else to do', () => {
  expect(problemOf(new PassOverError('E014', 'full', { retry_after_ms: 23_934 }))).toMatchObject({
    problem: { code: 'E014', retry_after_ms: 23_934 },
    headers: { 'retry-after': '24' },
  })
  expect(problemOf(new PassOverError('E014', 'full')).headers).toEqual({ 'retry-after': '1' })
  const spent = problemOf(new PassOverError('E014', 'spent', { recoverable: false, mend: 'another session' }))
  expect(spent).toMatchObject({ problem: { code: 'E014', hint: 'another session', details: { recoverable: false } }, headers: {} })
  expect(spent.problem).not.toHaveProperty('retry_after_ms')
  expect(spent.headers).not.toHaveProperty('retry-after')
})
