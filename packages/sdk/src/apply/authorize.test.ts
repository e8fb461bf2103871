import { modificationsIn, SYSTEM_DEFAULTS } from '@passover/core'
import type { AnsweredDecision, FileModificationArtifact } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { type AuthorizationInput, authorizeApply, authorizeAutoApply } from './authorize.js'

const artifacts = ['a', 'b', 'c'].map(
  (path): FileModificationArtifact => ({
    type: 'file_modification',
    path,
    old_content: '',
    new_content: 'x',
    reason: 'r',
    confidence: 'high',
  }),
)
const all = modificationsIn({ artifacts })
const rights = { can_modify_files: true, can_run_tools: true, constraints: [] }
const policy = { ...SYSTEM_DEFAULTS, max_compute_time_ms: 30_000, auto_apply: true }
const asking: AuthorizationInput['control'] = { auto_apply_on_success: true, policy, rights }
const free: AuthorizationInput['control'] = { ...asking, policy: { ...policy, require_user_approval: false } }

function decided(verdict: 'approve' | 'deny', taken: number[] = []): AnsweredDecision {
  const modifications = Object.fromEntries(
    all.map(({ number, digest }) => [digest, taken.includes(number) ? ('taken' as const) : ('rejected' as const)]),
  )
  return { item: 'apply', person: 'maria', verdict, digest: 'd', sequence: 1, time: 0, modifications }
}
const judged = (more: Partial<AuthorizationInput> = {}): AuthorizationInput => ({
  key: { originator: 'alice', subagent: 'fixer', id: 'x'.repeat(32) },
  status: 'returned',
  control: asking,
  unacceptable: undefined,
  withheld: false,
  decision: undefined,
  all,
  ...more,
})
const taken = (one: AuthorizationInput, only?: number[]) => {
  const allowed = authorizeApply(one, only)
  return allowed.ok ? allowed.taken.map(({ number }) => number) : allowed.error.code
}

describe('authorizeApply', () => {
  it.each([
    ['nothing without a decision', judged(), undefined, 'E013'],
    ['nothing where the policy is not known', judged({ control: undefined }), undefined, 'E013'],
    ['everything where no approval is required', judged({ control: free }), undefined, [1, 2, 3]],
    ['of that what is named', judged({ control: free }), [2], [2]],
    ['what the decision took', judged({ decision: decided('approve', [1, 3]) }), undefined, [1, 3]],
    ['less of it', judged({ decision: decided('approve', [1, 3]) }), [3], [3]],
    ['no more than it', judged({ decision: decided('approve', [1, 3]) }), [2, 3], 'E013'],
    ['no more than it, where none was required', judged({ control: free, decision: decided('approve', [1]) }), undefined, [1]],
    ['nothing that was denied', judged({ decision: decided('deny', [1]) }), undefined, 'E013'],
    ['nothing that was denied, where no approval was required', judged({ control: free, decision: decided('deny') }), undefined, 'E013'],
    ['nothing that awaits its release', judged({ status: 'awaiting_release', decision: decided('approve', [1]) }), undefined, 'E013'],
    ['nothing that was not released', judged({ withheld: true, decision: decided('approve', [1]) }), undefined, 'E013'],
    ['nothing of a return that is none', judged({ control: free, unacceptable: { code: 'E021', message: 'm' } }), undefined, 'E021'],
    ['no number that there is not', judged({ control: free }), [4], 'E005'],
  ])('takes %s', (_, one, only, expected) => {
    expect(taken(one, only)).toEqual(expected)
  })

  it('says who denied, for the exit code', () => {
    const allowed = authorizeApply(judged({ decision: { ...decided('deny'), reason: 'not so' } }))
    expect(allowed).toMatchObject({
      ok: false,
      error: { message: 'maria denied the application: not so', context: { approval: 'denied' } },
    })
  })
})

describe('mayApplyItself', () => {
  const output = { artifacts, auto_apply_allowed: true }
  const itself = (one: AuthorizationInput) => authorizeAutoApply(one, output).map(({ number }) => number)

  it('takes everything under the whole conjunction, and what a decision took where one stands', () => {
    expect(itself(judged({ control: free }))).toEqual([1, 2, 3])
    expect(itself(judged({ control: free, decision: decided('approve', [2]) }))).toEqual([2])
    expect(itself(judged({ control: free, decision: decided('deny', [2]) }))).toEqual([])
  })

  it('takes nothing without it, nor of what is not delivered', () => {
    expect(itself(judged())).toEqual([])
    expect(itself(judged({ control: undefined }))).toEqual([])
    expect(itself(judged({ control: free, withheld: true }))).toEqual([])
    expect(itself(judged({ control: free, unacceptable: { code: 'E013', message: 'm' } }))).toEqual([])
  })
})
