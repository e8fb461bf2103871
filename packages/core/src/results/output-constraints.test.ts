import type { WorkArtifact } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { control, KEY, output } from '../../testing/samples.js'
import { outputConstraints, schemaToCheck, toolFault } from './output-constraints.js'
import { acceptReturn } from './validate-return.js'

const ran = (tool_name: string): WorkArtifact => ({
  type: 'tool_result',
  tool_name,
  call_id: 'c1',
  input: {},
  output: '',
  status: 'success',
})

describe('what rights forbid in an output', () => {
  it.each([
    ['any tool where none may run', { can_run_tools: false }, ['grep'], { field: 'can_run_tools', tool: 'grep' }],
    ['a tool that is not listed', { can_run_tools: true, tools: ['ls'] }, ['ls', 'rm'], { field: 'tools', tool: 'rm', allowed: ['ls'] }],
    ['every tool where the list is empty', { can_run_tools: true, tools: [] }, ['ls'], { field: 'tools', tool: 'ls' }],
  ])('is %s: E013 that names field and tool', (_, rights, tools, details) => {
    const accepted = acceptReturn(output({ artifacts: tools.map(ran) }), KEY, { rights })
    expect(accepted).toMatchObject({ ok: false, error: { code: 'E013', details } })
  })

  it('is nothing where the tools may run, or none did', () => {
    expect(acceptReturn(output({ artifacts: [ran('ls')] }), KEY, { rights: { can_run_tools: true } }).ok).toBe(true)
    expect(acceptReturn(output({ artifacts: [ran('ls')] }), KEY, { rights: { can_run_tools: true, tools: ['ls'] } }).ok).toBe(true)
    expect(acceptReturn(output(), KEY, { rights: { can_run_tools: false, tools: [] } }).ok).toBe(true)
    expect(toolFault('ls', { can_run_tools: true })).toBeUndefined()
  })
})

describe('the output_schema of a pass', () => {
  const schema = { type: 'object' }
  const of = (policy: object) => ({ ...control(), policy: { ...control().policy, ...policy } })

  it('is applied unless validate_output is off', async () => {
    const check = async (asked: unknown, value: unknown) => ({ faults: [`${JSON.stringify(asked)} of ${String(value)}`] })
    expect(schemaToCheck(of({}))).toBeUndefined()
    expect(schemaToCheck(of({ output_schema: schema }))).toBe(schema)
    expect(schemaToCheck(of({ output_schema: schema, validate_output: false }))).toBeUndefined()
    expect(await outputConstraints('it', of({ output_schema: schema }), check)).toMatchObject({
      schema_faults: ['{"type":"object"} of it'],
    })
    expect(await outputConstraints('it', of({}), check)).toEqual({ rights: control().rights })
    expect(await outputConstraints('it', of({ output_schema: schema }), undefined)).toEqual({ rights: control().rights })
  })
})
