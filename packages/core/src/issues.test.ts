import { handlerResult } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { issueTexts } from './issues.js'

describe('issueTexts', () => {
  const told = (given: unknown, limit = 10) => {
    const parsed = handlerResult.safeParse(given)
    return parsed.success ? [] : issueTexts(parsed.error.issues, limit)
  }

  it.each<[unknown, string[]]>([
    [{ status: 'finished' }, ['status: Invalid option: expected one of "completed"|"failed"|"aborted"|"partial"']],
    [{ summary: { decision: 'maybe' } }, [expect.stringMatching(/^summary\.decision: .*"approved"\|"rejected"/)]],
    [{ artifacts: [{ type: 'nope' }] }, [expect.stringMatching(/^artifacts\.0\.type: .*'file_modification'/)]],
    [{ summary: 5 }, ['summary: expected string or object']],
    [42, ['output: expected string or object']],
    [{ foo: 1 }, [expect.stringMatching(/^output: says nothing/)]],
  ])('names field and allowed values of %j', (given, texts) => {
    expect(told(given)).toEqual(texts)
  })

  it('tells at most so many', () => {
    expect(told({ artifacts: [{ type: 'finding' }] }, 2)).toHaveLength(2)
  })
})
