import { type WorkControl, workControl } from '@passover/schemas'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { childInput, childRequest, PARENT_WORK, parent, refusal } from '../../testing/admissions.js'
import { control, KEY, request, step, T0 } from '../../testing/samples.js'
import type { AdmitInput } from './types.js'

describe('admission below a parent', () => {
  it('bounds a child by its rest', () => {
    const child = control(childInput())
    expect(child).toMatchObject({
      parent: KEY,
      proof: 20,
      parent_deadline: T0 + 30_000,
      timeout_ms: 29_000,
      chain_depth: 2,
      ancestors: ['alice', 'audit'],
      root: KEY,
      origination_chain: [
        { agent_id: 'alice', action: 'initiated' },
        { agent_id: 'audit', timestamp: T0 + 900, action: 'delegated' },
      ],
    })
    expect(workControl.parse(child)).toEqual(child)
    expect(control(childInput({ request: childRequest({ timeout_ms: 500 }) })).timeout_ms).toBe(500)
    expect(control(childInput({ parent: parent({ user_id: 'bob', trace_id: 't' }) }))).toMatchObject({ user_id: 'bob', trace_id: 't' })
  })

  const wrong = { originator: 'alice', subagent: 'audit', id: KEY.id, return_id: 'return-1', proof: 20 }
  it.each<[string, Partial<AdmitInput>, string]>([
    [
      'a parent that works for someone else',
      { request: childRequest({ parent: { ...wrong, subagent: 'mallory' } }) },
      'only its subagent may request child passes',
    ],
    ['an unknown parent', { parent: undefined }, 'it does not exist'],
    ['another parent than the one read', { parent: parent({ id: 'another-one' }) }, 'it does not exist'],
    ['another originator of it', { parent: parent({ originating_agent_id: 'bob' }) }, 'it does not exist'],
    ['another subagent of it', { parent: parent({ subagent_id: 'bob' }) }, 'it does not exist'],
    ['a parent that has ended', { parent: parent({}, [PARENT_WORK, step('return', 21)]) }, 'it is not open'],
    ['a parent that is held', { parent: parent({}, [step('held', 20)]) }, 'it is not open'],
    ['a wrong return_id', { request: childRequest({ parent: { ...wrong, return_id: 'guessed' } }) }, 'wrong return_id'],
    ['a wrong proof', { request: childRequest({ parent: { ...wrong, proof: 19 } }) }, 'the proof does not belong to its newest attempt'],
    ['an earlier attempt', { parent: parent({}, [PARENT_WORK, step('fence', 22)]) }, 'the proof does not belong to its newest attempt'],
    ['a parent past its deadline', { now: T0 + 30_000, requested_at: T0 + 29_000 }, 'its deadline has passed'],
  ])('refuses %s with E013', (_, more, why) => {
    expect(refusal(childInput(more))).toMatchObject({ code: 'E013', details: { why } })
  })

  it('takes the proof of the newest attempt, also where an ignored step came after it', () => {
    const journal = [PARENT_WORK, step('fence', 22), step('fence', 23)]
    expect(control(childInput({ request: childRequest({ parent: { ...wrong, proof: 22 } }), parent: parent({}, journal) })).proof).toBe(22)
  })
})

describe('the rights of an admitted pass', () => {
  const modify = {
    version: 1,
    document: { subagents: { audit: { can_modify_files: true, tools: ['read', 'edit'] }, scout: { can_modify_files: true } } },
  }

  it('are what pair and subagent allow, narrowed by constraints', () => {
    expect(control({ policy: modify }).rights).toEqual({
      can_modify_files: true,
      can_run_tools: true,
      tools: ['read', 'edit'],
      constraints: [],
    })
    expect(control({ policy: modify, request: request({ constraints: ['read_only', 'no_tools', 'read_only'] }) }).rights).toEqual({
      can_modify_files: false,
      can_run_tools: false,
      tools: ['read', 'edit'],
      constraints: ['read_only', 'no_tools'],
    })
  })

  it("never exceed the parent's", () => {
    const rights = { can_modify_files: false, can_run_tools: false, tools: ['edit', 'bash'], constraints: ['no_external_calls'] }
    const document = { subagents: { scout: { can_modify_files: true, tools: ['read', 'edit'] } } }
    expect(control(childInput({ parent: parent({ rights }), policy: { version: 1, document } })).rights).toEqual({
      ...rights,
      tools: ['edit'],
    })
    expect(control(childInput({ parent: parent({ rights }) })).rights.tools).toEqual(['edit', 'bash'])
    const readOnly = { can_modify_files: true, can_run_tools: true, constraints: ['read_only'] }
    expect(control(childInput({ parent: parent({ rights: readOnly }), policy: modify })).rights).toEqual({
      ...readOnly,
      can_modify_files: false,
    })
  })

  it('only ever narrow along a chain', () => {
    const tools = fc.option(fc.subarray(['read', 'edit', 'bash']), { nil: undefined })
    const some = fc.record({ can_modify_files: fc.boolean(), can_run_tools: fc.boolean(), tools }, { requiredKeys: [] })
    fc.assert(
      fc.property(some, some, some, fc.subarray(['read_only', 'no_tools', 'x']), (above, pair, subagent, constraints) => {
        const rights = { can_modify_files: true, can_run_tools: true, constraints: [], ...above }
        const document = { pairs: { 'audit->scout': pair }, subagents: { scout: subagent } } as AdmitInput['policy']['document']
        const given = control(
          childInput({
            parent: parent({ rights: rights as WorkControl['rights'] }),
            policy: { version: 1, document },
            request: childRequest({ constraints }),
          }),
        ).rights
        for (const limit of [above, pair, subagent]) {
          if (limit.can_modify_files === false) expect(given.can_modify_files).toBe(false)
          if (limit.can_run_tools === false) expect(given.can_run_tools).toBe(false)
          if (limit.tools) expect(given.tools?.every((tool) => limit.tools?.includes(tool))).toBe(true)
        }
        if (constraints.includes('read_only')) expect(given.can_modify_files).toBe(false)
        expect(given.constraints).toEqual(constraints)
      }),
    )
  })
})
