import type { WorkOutput } from '@passover/sdk'
import { describe, expect, it } from 'vitest'
import { contents, withoutKnown } from './cycle.js'

const finding = (line: number, message: string) => ({
  type: 'finding' as const,
  severity: 'error' as const,
  category: 'typescript_TS1',
  message: `TS1 ${message}`,
  location: { path: 'a.ts', line, column: 1 },
})
const change = { type: 'file_modification', path: 'a.ts', old_content: 'a', new_content: 'b', reason: 'r', confidence: 'high' } as const
const output = {
  artifacts: [change, finding(1, 'wrong'), finding(2, 'new')],
  summary: { findings: ['a.ts:1:1 TS1 wrong', 'a.ts:2:1 TS1 new'] },
} as unknown as WorkOutput

describe('what audit returned', () => {
  it('is counted by kind', () => {
    expect(contents(output)).toBe('1 change, 2 findings')
  })

  it('is told without what the build has told', () => {
    const diagnostics = [{ path: 'a.ts', line: 1, column: 1, code: 'TS1', message: 'wrong' }]
    const told = withoutKnown(output, { diagnostics })
    expect(told.artifacts).toEqual([change, finding(2, 'new')])
    expect(told.summary.findings).toEqual(['a.ts:2:1 TS1 new'])
  })
})
