import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { handlerResult } from '../pass/output.js'
import { errorText, firstIssue, issueTexts } from './schema-issues.js'

describe('issueTexts', () => {
  const told = (given: unknown, limit = 10) => {
    const parsed = handlerResult.safeParse(given)
    return parsed.success ? [] : issueTexts(parsed.error.issues, limit)
  }

  it.each<[unknown, string[]]>([
    [{ status: 'finished' }, ['status: must be one of completed, failed, aborted, partial']],
    [{ summary: { decision: 'maybe' } }, ['summary.decision: must be one of approved, rejected, needs_modification, blocked']],
    [{ artifacts: [{ type: 'nope' }] }, [expect.stringMatching(/^artifacts\.0\.type: must be one of .*file_modification/)]],
    [{ summary: 5 }, ['summary: must be text or an object, not a number']],
    [42, ['output: must be text or an object, not a number']],
    [{ foo: 1 }, [expect.stringMatching(/^output: says nothing/)]],
  ])('names field and allowed values of %j', (given, texts) => {
    expect(told(given)).toEqual(texts)
  })

  it('tells the faults of the branch of a union that a value was meant for', () => {
    const either = z.union([z.object({ k: z.int(), size: z.int() }), z.object({ head: z.int() })])
    expect(issueTexts(either.safeParse({ head: 'x' }).error?.issues ?? [], 5)).toEqual(['head: must be a number, not text'])
    expect(issueTexts(either.safeParse({ k: 'x' }).error?.issues ?? [], 1)).toEqual(['k: must be a number, not text'])
    expect(issueTexts(either.safeParse({ k: 1 }).error?.issues ?? [], 5)).toEqual(['size: is missing: a number is needed'])
  })

  it('says in plain words what a thrown error of a schema has against a value', () => {
    expect(errorText(z.object({ a: z.string() }).safeParse({ a: 1 }).error)).toBe('a: must be text, not a number')
    expect(errorText(z.string().safeParse(1).error, 'the answer')).toBe('the answer: must be text, not a number')
    expect([errorText(new Error('full')), errorText('full')]).toEqual(['full', 'full'])
  })

  it('tells at most so many', () => {
    expect(told({ artifacts: [{ type: 'finding' }] }, 2)).toHaveLength(2)
  })

  it('cuts the path of what lies very deep', () => {
    const path = Array.from({ length: 40 }, (_, depth) => `k${depth}`)
    expect(issueTexts([{ path, message: 'x' }], 1)).toEqual([expect.stringMatching(/^k0\..*\.k11…: x$/)])
  })

  it.each<[string, z.ZodType, unknown, string]>([
    ['a missing value', z.string(), undefined, 'is missing: text is needed'],
    ['another kind', z.string(), Buffer.from(''), 'must be text, not a Buffer'],
    ['a list', z.object({}), [], 'must be an object, not a list'],
    ['a fraction', z.int(), 2.5, 'must be a whole number'],
    ['NaN', z.number(), Number.NaN, 'must be a number, not NaN'],
    ['1e999', z.int(), Number.POSITIVE_INFINITY, 'must be a number, not Infinity'],
    ['1e300', z.int(), 1e300, 'must be at most 9007199254740991'],
    ['too large a number', z.number().max(5), 7, 'must be at most 5'],
    ['a bound that is excluded', z.number().gt(5), 5, 'must be more than 5'],
    ['an empty text', z.string().min(1), '', 'must not be empty'],
    ['a long text', z.string().max(3), 'four', 'must have at most 3 characters'],
    ['a short list', z.array(z.string()).min(2), [], 'must have at least 2 entries'],
    ['another literal', z.literal('x'), 1, 'must be x'],
    ['an unknown field', z.strictObject({ a: z.number() }), { b: 1, a: 1 }, 'has an unknown field: b'],
    ['another form', z.string().regex(/a/), 'b', 'has the wrong form'],
    ['no URL', z.url(), 'x', 'is not a URL'],
    [
      'a key of the wrong form',
      z.record(z.string().min(3), z.number()),
      { a: 1 },
      'has a key that is not allowed: must have at least 3 characters',
    ],
    ['a rule without words', z.custom(() => false), 1, 'is not valid'],
    ['a rule of ours', z.string().refine(() => false, 'names no host'), 'x', 'names no host'],
  ])('says %s in plain words, not in those of the schema library', (_, schema, value, why) => {
    const parsed = schema.safeParse(value)
    expect(parsed.error && firstIssue(parsed.error).why).toBe(why)
  })
})
