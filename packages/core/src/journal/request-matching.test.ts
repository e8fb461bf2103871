import { LIMITS, SYSTEM } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { KEY, step, T0 } from '../../testing/samples.js'
import { answersRequest, isExpiry, isSystemStep, requestNamed, requestTime } from './request-matching.js'

const named = { request: 7, requested_at: T0 }

describe('the request that a step names', () => {
  it('is believed in the steps that only the dispatcher writes', () => {
    for (const one of [step('held', 9, named), step('work', 9, named), step('return', 9, { ...named, by: SYSTEM })]) {
      expect(requestNamed(one)).toStrictEqual({ sequence: 7, time: T0 })
      expect(requestTime(one)).toBe(T0)
    }
  })

  it('is not believed in a fence or a return of the subagent', () => {
    for (const one of [step('fence', 9, named), step('return', 9, named)]) {
      expect(isSystemStep(one)).toBe(false)
      expect(requestNamed(one)).toBeUndefined()
      expect(requestTime(one)).toBeUndefined()
    }
  })

  it('has no time if the step has none, or one that is no time', () => {
    expect(requestNamed(step('work', 9, { request: 7 }))).toStrictEqual({ sequence: 7 })
    expect(requestNamed(step('work', 9, { request: 7, requested_at: LIMITS.time + 1 }))).toStrictEqual({ sequence: 7 })
    expect(requestTime(step('work', 9, { requested_at: LIMITS.time }))).toBe(LIMITS.time)
    expect(requestNamed(step('work', 9, { requested_at: T0 }))).toBeUndefined()
  })
})

it('a step answers a request if it names it, is written by the dispatcher and is between the same agents', () => {
  const request = { originator: KEY.originator, subagent: KEY.subagent, sequence: 7 }
  expect(answersRequest(step('work', 9, named), request)).toBe(true)
  expect(answersRequest(step('work', 9, named), { ...request, sequence: 8 })).toBe(false)
  expect(answersRequest(step('work', 9, named), { ...request, originator: 'mallory' })).toBe(false)
  expect(answersRequest(step('work', 9, named), { ...request, subagent: 'mallory' })).toBe(false)
  expect(answersRequest(step('return', 9, named), request)).toBe(false)
})

it('only an E005 return by the dispatcher says that an id expired', () => {
  expect(isExpiry(step('return', 9, { by: SYSTEM, code: 'E005' }))).toBe(true)
  expect(isExpiry(step('return', 9, { by: SYSTEM, code: 'E010' }))).toBe(false)
  expect(isExpiry(step('return', 9, { by: KEY.subagent, code: 'E005' }))).toBe(false)
  expect(isExpiry(step('held', 9, { by: SYSTEM, code: 'E005' }))).toBe(false)
})
