import { describe, expect, it } from 'vitest'
import { buildRequest } from './options.js'

const defaults = { id: 'some-given-id', originator: 'alice', session_id: 's1', directory: '/p' }
const options = { subagent: 'audit', reason: 'review', work_context: { objective: 'look' } }

describe('buildRequest', () => {
  it('fills in what an agent need not say', () => {
    expect(buildRequest(options, defaults)).toEqual({
      control: { id: 'some-given-id', originating_agent_id: 'alice', subagent_id: 'audit', reason: 'review', return_required: true },
      context: { objective: 'look', session_id: 's1', directory: '/p', files: [], messages: [] },
    })
  })

  it('keeps what it does say, and leaves the signal out', () => {
    const parent = { originator: 'root', subagent: 'alice', id: 'parent-id-1', return_id: 'r', proof: 7 }
    const built = buildRequest(
      {
        ...options,
        return_required: false,
        priority: 'high',
        work_context: { objective: 'look', session_id: 'own' },
        signal: new AbortController().signal,
      },
      { ...defaults, parent },
    )
    expect(built).toMatchObject({
      control: { return_required: false, priority: 'high', parent },
      context: { session_id: 'own', directory: '/p' },
    })
    expect(built.control).not.toHaveProperty('signal')
  })

  it('suggests the field of the request for an option in camelCase', () => {
    for (const [name, field] of [
      ['timeoutMs', 'timeout_ms'],
      ['workContext', 'work_context'],
      ['autoApplyOnSuccess', 'auto_apply_on_success'],
    ])
      expect(() => buildRequest({ ...options, [`${name}`]: 1 }, defaults)).toThrow(`${name}: unknown option; did you mean ${field}?`)
  })

  it('names the field of what is wrong, in the words of the options', () => {
    const field = (change: object) => {
      try {
        buildRequest({ ...options, ...change } as never, defaults)
      } catch (error) {
        return (error as { code: string; context: { field: string } }).context.field
      }
      return undefined
    }
    expect(field({ subagent: 'no/name' })).toBe('subagent')
    expect(field({ reason: 5 })).toBe('reason')
    expect(field({ timeout_ms: -1 })).toBe('timeout_ms')
    expect(field({ work_context: null })).toBe('work_context')
    expect(field({ work_context: { objective: 'x', files: [{ path: '' }] } })).toBe('work_context.files.0.path')
    expect(field({ override: { nonsense: 1 } })).toMatch(/^override/)
    expect(field({ prority: 'high' })).toBe('prority')
    expect(field({ work_context: { objective: '\ud800' } })).toBe('work_context.objective')
    expect(field({ signal: 'x' })).toBe('signal')
    const meta = (a: unknown) => ({ work_context: { objective: 'x', meta: { a } } })
    for (const value of [1n, new Date(0), Object.assign([1], { 2: 3 }), JSON.parse('{"__proto__":1}'), new Map(), () => 1])
      expect(field(meta(value))).toMatch(/^work_context\.meta\.a/)
    expect(field(JSON.parse('{"work_context":{"objective":"x","files":[{"path":"a","__proto__":1}]}}'))).toBe(
      'work_context.files.0.__proto__',
    )
  })
})
