import { ERROR_CODES, type ErrorCode } from '@passover/schemas'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ERRORS } from '../errors.js'
import { attemptsOf, planRetry, RETRY_DEFAULTS, type Retry } from './retry-policy.js'

/** All retries of a call whose every try fails with the next of these errors. */
function run(errors: { code: ErrorCode; details?: Record<string, unknown> }[], options = {}): Retry[] {
  const plans: Retry[] = []
  let attempts_before = 0
  for (const [retries, error] of errors.entries()) {
    const plan = planRetry({ error, attempts_before, retries, options })
    plans.push(plan)
    if (!plan.retry) break
    attempts_before = plan.attempts_made
  }
  return plans
}

const E010 = { code: 'E010' as const }

describe('planRetry', () => {
  it('waits 1000, 2000, 4000 ms and then gives up', () => {
    const plans = run([E010, E010, E010, E010, E010])
    expect(plans.map((plan) => (plan.retry ? plan.delay_ms : plan.why))).toEqual([1000, 2000, 4000, 'attempts used up'])
  })

  it.each(ERROR_CODES.map((code) => [code]))('%s is retried only if it is recoverable', (code) => {
    const plan = planRetry({ error: { code }, attempts_before: 0, retries: 0 })
    expect(plan.retry).toBe(ERRORS[code].recoverable)
    if (!plan.retry) expect(plan.why).toBe('not recoverable')
  })

  it('counts the attempts that an E011 reports', () => {
    const crashed = { code: 'E011' as const, details: { attempts: 3 } }
    expect(run([crashed, crashed]).map(({ retry, attempts_made }) => [retry, attempts_made])).toEqual([
      [true, 3],
      [false, 6],
    ])
    expect(attemptsOf(crashed)).toBe(3)
    expect(attemptsOf({ code: 'E011', details: { attempts: 0 } })).toBe(1)
    expect(attemptsOf({ code: 'E011', details: { attempts: 'many' } })).toBe(1)
    expect(attemptsOf({ code: 'E010', details: { attempts: 3 } })).toBe(1)
  })

  it('reads the same id again after E022 only', () => {
    expect(planRetry({ error: { code: 'E022' }, attempts_before: 0, retries: 0 })).toMatchObject({ retry: true, same_id: true })
    expect(planRetry({ error: E010, attempts_before: 0, retries: 0 })).toMatchObject({ retry: true, same_id: false })
  })

  it('waits at least as long as an E014 says', () => {
    const full = { code: 'E014' as const, details: { retry_after_ms: 9_000 } }
    expect(planRetry({ error: full, attempts_before: 0, retries: 0 })).toMatchObject({ delay_ms: 9_000 })
    expect(planRetry({ error: { code: 'E014', details: { retry_after_ms: -1 } }, attempts_before: 0, retries: 0 })).toMatchObject({
      delay_ms: 1000,
    })
  })

  it('does not ask again where the error itself says that it never helps', () => {
    const spent = { code: 'E014' as const, details: { recoverable: false } }
    expect(planRetry({ error: spent, attempts_before: 0, retries: 0 })).toMatchObject({ retry: false, why: 'not recoverable' })
    // It narrows the table, and never widens it.
    const widened = { code: 'E013' as const, details: { recoverable: true } }
    expect(planRetry({ error: widened, attempts_before: 0, retries: 0 })).toMatchObject({ retry: false })
  })

  it('takes options', () => {
    const options = { max_retries: 1, retry_delay_ms: 10, backoff_multiplier: 5 }
    expect(run([E010, E010], options)).toEqual([
      { retry: true, delay_ms: 10, attempts_made: 1, same_id: false },
      { retry: false, attempts_made: 2, why: 'attempts used up' },
    ])
    expect(run([E010], { max_retries: 0 })).toMatchObject([{ retry: false }])
  })

  it('always ends, within the limit of attempts unless one error exceeds it, with delays that grow', () => {
    const errors = fc.array(
      fc.record({
        code: fc.constantFrom<ErrorCode>('E010', 'E011', 'E014', 'E021', 'E022'),
        details: fc.record({ attempts: fc.integer({ min: 1, max: 5 }) }),
      }),
      { minLength: 12, maxLength: 12 },
    )
    fc.assert(
      fc.property(errors, fc.integer({ min: 0, max: 6 }), (all, max_retries) => {
        const plans = run(all, { max_retries })
        const last = plans.at(-1)
        expect(last?.retry).toBe(false)
        expect(plans.length).toBeLessThanOrEqual(max_retries + 1)
        for (const [i, plan] of plans.slice(0, -1).entries()) {
          expect(plan.attempts_made).toBeLessThanOrEqual(max_retries)
          expect(plan).toMatchObject({ retry: true, delay_ms: RETRY_DEFAULTS.retry_delay_ms * 2 ** i })
        }
      }),
    )
  })
})
