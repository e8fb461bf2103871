import { expect, it } from 'vitest'
import { passEnvironment } from './environment.js'

const PASS = {
  id: '0aaaaaaa0mx0cwybj_zMF7GAZVaBGDxq',
  subagent: 'audit',
  originator: 'alice',
  reason: 'review',
  objective: 'check it',
  priority: 'medium',
  session_id: 's-1',
  attempt: 2,
  deadline: 0,
  chain_depth: 1,
  ancestors: ['alice'],
  rights: { can_modify_files: false, can_run_tools: true, constraints: ['read_only'] },
  parent: { originator: 'alice', subagent: 'audit', id: '0aaaaaaa0mx0cwybj_zMF7GAZVaBGDxq', return_id: 'r', proof: 7 },
} as const

it('tells a command what its pass is about', () => {
  const env = passEnvironment({ ...PASS, ancestors: [...PASS.ancestors], rights: { ...PASS.rights, constraints: ['read_only'] } })
  expect(env).toMatchObject({
    PASSOVER_OBJECTIVE: 'check it',
    PASSOVER_CHAIN: 'alice,audit',
    PASSOVER_ATTEMPT: '2',
    PASSOVER_CONSTRAINTS: 'read_only',
    PASSOVER_ENFORCED: '',
    PASSOVER_CAN_MODIFY_FILES: 'false',
    PASSOVER_CAN_RUN_TOOLS: 'true',
  })
  expect(env.PASSOVER_TOOLS).toBeUndefined()
  expect(env).not.toHaveProperty('TRACEPARENT')
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
  expect(passEnvironment({ ...PASS, ancestors: [], rights: { ...PASS.rights, constraints: [] }, traceparent }).TRACEPARENT).toBe(
    traceparent,
  )
  expect(env.PASSOVER_DEADLINE).toBe('1970-01-01T00:00:00.000Z')
})

it('holds no text that would keep the command from starting', () => {
  const env = passEnvironment({
    ...PASS,
    ancestors: [],
    rights: { ...PASS.rights, constraints: [] },
    objective: `a\0${'b'.repeat(200_000)}`,
  })
  expect(env.PASSOVER_OBJECTIVE).toHaveLength(30_000)
  expect(env.PASSOVER_OBJECTIVE).not.toContain('\0')
})

it('tells which tools may run, and what holds', () => {
  const rights = { can_modify_files: true, can_run_tools: true, tools: ['ls', 'git'], constraints: ['no_external_calls'] }
  expect(passEnvironment({ ...PASS, ancestors: [], rights }, ['no_external_calls'])).toMatchObject({
    PASSOVER_TOOLS: 'ls,git',
    PASSOVER_ENFORCED: 'no_external_calls',
    PASSOVER_CAN_MODIFY_FILES: 'true',
  })
})
