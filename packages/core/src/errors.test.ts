import { ERROR_CODES, type ErrorCode, LIMITS, passError as passErrorSchema } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { ERRORS, exitCode, PassOverError, passError } from './errors.js'

/** The error table, written out again: code, name, recoverable, exit. */
const TABLE: [ErrorCode, string, boolean, number][] = [
  ['E001', 'INVALID_SUBAGENT', false, 4],
  ['E002', 'CHAIN_DEPTH_EXCEEDED', false, 4],
  ['E003', 'CYCLE_DETECTED', false, 4],
  ['E004', 'DISABLED_PAIR', false, 4],
  ['E005', 'INVALID_REQUEST', false, 2],
  ['E010', 'SUBAGENT_TIMEOUT', true, 124],
  ['E011', 'SUBAGENT_CRASHED', true, 1],
  ['E012', 'CONTEXT_OVERFLOW', false, 4],
  ['E013', 'PERMISSION_DENIED', false, 4],
  ['E014', 'RESOURCE_EXHAUSTED', true, 1],
  ['E020', 'RETURN_CONTEXT_LOST', false, 3],
  ['E021', 'INVALID_WORK_OUTPUT', true, 1],
  ['E022', 'RETURN_TIMEOUT', true, 124],
  ['E030', 'CONFIG_INVALID', false, 2],
  ['E031', 'PREFERENCE_CONFLICT', false, 2],
  ['E040', 'UNREACHABLE', true, 5],
  ['E041', 'NOT_FOUND', false, 3],
  ['E042', 'USAGE', false, 2],
  ['E043', 'CANCELLED', false, 1],
]

describe('ERRORS', () => {
  it('has a row for each code', () => {
    expect(TABLE.map(([code]) => code)).toEqual([...ERROR_CODES])
    expect(Object.keys(ERRORS)).toEqual([...ERROR_CODES])
  })

  it.each(TABLE)('%s is %s', (code, name, recoverable, exit) => {
    expect(ERRORS[code]).toMatchObject({ name, recoverable, exit })
    expect(ERRORS[code].http).toBeGreaterThanOrEqual(400)
    expect(ERRORS[code].http).toBeLessThan(600)
    expect(ERRORS[code].action).toMatch(/^[A-Z].*\.$/)
    expect(ERRORS[code].sentence).toMatch(/^[A-Z].*\.$/)
    expect(exitCode({ code })).toBe(exit)
  })

  it('exits 6 for an approval that was denied or expired', () => {
    expect(exitCode(passError('E013', 'x', { approval: 'denied' }))).toBe(6)
    expect(exitCode(passError('E013', 'x', { approval: 'expired' }))).toBe(6)
    expect(exitCode(passError('E013', 'x', { approval: 'given' }))).toBe(4)
    expect(exitCode(passError('E010', 'x', { approval: 'expired' }))).toBe(124)
  })
})

describe('PassOverError', () => {
  it('travels and comes back', () => {
    const error = new PassOverError('E014', 'full', { retry_after_ms: 5 })
    expect(error).toMatchObject({ name: 'PassOverError', code: 'E014', message: 'full', recoverable: true, context: { retry_after_ms: 5 } })
    expect(error.suggestedAction).toBe(ERRORS.E014.action)
    // Who refused it may know better.
    const mend = 'to let it originate passes: passover agents add bob'
    expect(new PassOverError('E013', 'no', { mend }).suggestedAction).toBe('To let it originate passes: npx passover agents add bob')
    // A command is written as it is typed.
    expect(new PassOverError('E013', 'no', { mend: 'passover auth add agent bob' }).suggestedAction).toBe(
      'Run: npx passover auth add agent bob',
    )
    expect(new PassOverError('E013', 'no', { mend: 'ask maria' }).suggestedAction).toBe('Ask maria.')
    expect(new PassOverError('E013', 'no', { mend: 5 }).suggestedAction).toBe(ERRORS.E013.action)
    expect(new PassOverError('E014', 'spent', { recoverable: false }).recoverable).toBe(false)
    expect(new PassOverError('E013', 'no', { recoverable: true }).recoverable).toBe(false)
    expect(error.toWire()).toEqual({ code: 'E014', message: 'full', details: { retry_after_ms: 5 } })
    expect(PassOverError.from(error.toWire())).toEqual(error)
    expect(error).toBeInstanceOf(Error)
  })

  it('needs no facts', () => {
    expect(new PassOverError('E041', 'gone').toWire()).toEqual({ code: 'E041', message: 'gone' })
    expect(PassOverError.from({ code: 'E041', message: 'gone' }).context).toBeUndefined()
  })
})

describe('passError', () => {
  it('makes a message fit, however long or broken', () => {
    const long = passError('E011', `${'x'.repeat(LIMITS.page - 2)}\u{1f600}${'y'.repeat(99)}`)
    expect(long.message).toBe(`${'x'.repeat(LIMITS.page - 2)}…`)
    for (const error of [long, passError('E011', 'half \ud83d of one', { a: 1 })]) expect(passErrorSchema.parse(error)).toEqual(error)
    expect(passError('E011', 'x'.repeat(LIMITS.page)).message).toBe('x'.repeat(LIMITS.page))
  })
})
