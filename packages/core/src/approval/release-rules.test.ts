import type { WorkArtifact, WorkOutput } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { control, output } from '../../testing/samples.js'
import { evaluateRelease, hasBlocker, hasCritical, hasIssue, mayAutoApply, shouldNotify } from './release-rules.js'

const finding = (severity: 'error' | 'warning' | 'info'): WorkArtifact => ({ type: 'finding', severity, category: 'c', message: 'm' })
const summary = (more: Partial<WorkOutput['summary']>): WorkOutput['summary'] => ({ ...output().summary, ...more })

const CLEAN = output()
const CRITICAL = output({ artifacts: [finding('warning'), finding('error')] })
const BLOCKED = output({ summary: summary({ decision: 'blocked' }) })
const REJECTED = output({ summary: summary({ decision: 'rejected' }) })
const WARNED = output({ artifacts: [finding('warning')] })
const PARTIAL = output({ status: 'partial' })
const NONE = { auto_review: false, auto_return: false }

describe('what an output is', () => {
  it.each<[string, WorkOutput, boolean, boolean, boolean]>([
    ['clean', CLEAN, false, false, false],
    ['with an error', CRITICAL, true, true, true],
    ['with a warning', WARNED, false, false, true],
    ['blocked', BLOCKED, false, true, false],
    ['rejected', REJECTED, false, true, false],
    ['approved', output({ summary: summary({ decision: 'approved' }) }), false, false, false],
    ['that needs modification', output({ summary: summary({ decision: 'needs_modification' }) }), false, false, false],
    ['partial', PARTIAL, false, false, true],
    ['with findings in words', output({ summary: summary({ findings: ['x'] }) }), false, false, true],
  ])('%s', (_, given, critical, blocker, issue) => {
    expect([hasCritical(given), hasBlocker(given), hasIssue(given)]).toEqual([critical, blocker, issue])
  })
})

describe('releaseOf', () => {
  it('delivers at once what completed without blockers (1)', () => {
    expect(evaluateRelease(CLEAN, NONE, false)).toEqual({ deliver: true, because: 'completed_without_blockers' })
    expect(evaluateRelease(WARNED, NONE, false)).toEqual({ deliver: true, because: 'completed_without_blockers' })
  })

  it('delivers what passes an automatic review (2)', () => {
    const review = { auto_review: true, auto_return: false }
    expect(evaluateRelease(PARTIAL, review, false)).toEqual({ deliver: true, because: 'review_passed' })
    expect(evaluateRelease(BLOCKED, review, false)).toEqual({ deliver: true, because: 'review_passed' })
    expect(evaluateRelease(CRITICAL, review, false)).toMatchObject({ deliver: false })
  })

  it.each(['failed', 'aborted'] as const)('delivers what %s: only work that was done can wait (3)', (status) => {
    expect(evaluateRelease(output({ status, artifacts: [finding('error')] }), NONE, false)).toEqual({
      deliver: true,
      because: 'not_releasable',
    })
  })

  it('delivers what a person approved (4)', () => {
    expect(evaluateRelease(CRITICAL, NONE, true)).toEqual({ deliver: true, because: 'approved' })
    expect(evaluateRelease(PARTIAL, NONE, true)).toEqual({ deliver: true, because: 'approved' })
  })

  it('delivers what policy returns by itself (5)', () => {
    expect(evaluateRelease(CRITICAL, { auto_review: false, auto_return: true }, false)).toEqual({ deliver: true, because: 'auto_return' })
  })

  it('keeps the rest, and says why', () => {
    expect(evaluateRelease(CRITICAL, NONE, false)).toEqual({ deliver: false, why: 'the output has a critical finding' })
    expect(evaluateRelease(REJECTED, NONE, false)).toEqual({ deliver: false, why: 'the subagent decided rejected' })
    expect(evaluateRelease(PARTIAL, NONE, false)).toEqual({ deliver: false, why: 'the work is only partly done' })
  })
})

describe('shouldNotify', () => {
  it.each<['always' | 'only_issues' | 'never', boolean, boolean]>([
    ['always', true, true],
    ['only_issues', false, true],
    ['never', false, false],
  ])('%s', (notify_on_return, clean, warned) => {
    expect(shouldNotify(CLEAN, { notify_on_return })).toBe(clean)
    expect(shouldNotify(WARNED, { notify_on_return })).toBe(warned)
  })
})

describe('mayAutoApply', () => {
  const base = control()
  const policy = { ...base.policy, auto_apply: true, require_user_approval: false }
  const allowed = { ...base, auto_apply_on_success: true, policy, rights: { ...base.rights, can_modify_files: true } }
  const willing = output({ auto_apply_allowed: true })

  it('applies when all agree', () => {
    expect(mayAutoApply(willing, allowed)).toBe(true)
  })

  it.each<[string, boolean]>([
    ['request', mayAutoApply(willing, { ...allowed, auto_apply_on_success: false })],
    ['policy', mayAutoApply(willing, { ...allowed, policy: { ...policy, auto_apply: false } })],
    ['output', mayAutoApply(CLEAN, allowed)],
    ['right', mayAutoApply(willing, { ...allowed, rights: base.rights })],
    ['critical finding', mayAutoApply({ ...CRITICAL, auto_apply_allowed: true }, allowed)],
    ['approval', mayAutoApply(willing, { ...allowed, policy: { ...policy, require_user_approval: true } })],
  ])('does not without the word of the %s', (_, applied) => {
    expect(applied).toBe(false)
  })
})
