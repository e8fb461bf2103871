import type { ReturnNotice } from '@passover/schemas'
import { expect, it } from 'vitest'
import { notificationText } from './watch.js'

const NOTICE: ReturnNotice = {
  v: 1,
  id: 'n',
  event: 'return',
  pass: { originator: 'alice', subagent: 'audit', id: 'id-of-pass' },
  root: { originator: 'alice', subagent: 'audit', id: 'id-of-pass' },
  reason: 'r',
  sequence: 1,
  time: 1,
  status: 'refused',
  outcome: 'failed',
  code: 'E001',
  summary: 'E001: Agent audit is not registered',
  issues: true,
  findings: { error: 0, warning: 0, info: 0 },
  changes: 0,
  applied: false,
}

it('says the code of what failed once', () => {
  expect(notificationText(NOTICE)).toBe('returned: E001: Agent audit is not registered')
  expect(notificationText({ ...NOTICE, summary: 'E010 was meant' })).toBe('returned: E001: E010 was meant')
})

it('says counts and summary of what came back', () => {
  const { code: _, ...returned } = NOTICE
  const findings = { error: 1, warning: 2, info: 0 }
  expect(notificationText({ ...returned, outcome: 'completed', summary: 'E001: is in the text', findings, changes: 3 })).toBe(
    'returned: completed (1 error, 2 warnings, 3 changes): E001: is in the text',
  )
})

it('says of what waits the command that means this pass only, also where another agent has one with that id', () => {
  const { v, id, pass, root, reason, sequence, time } = NOTICE
  const waits = { v, id, pass, root, reason, sequence, time, event: 'approval' as const, digest: 'd', expires_at: 2 }
  expect(notificationText({ ...waits, item: 'apply' })).toBe(
    'has changes that wait for approval: passover approve id-of-pass --item apply --from alice --to audit',
  )
})
