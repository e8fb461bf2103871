import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { chainText, firstRevoked, validateChain } from './chain.js'

describe('validateChain', () => {
  it('counts the passes of the chain, this one included', () => {
    expect(validateChain({ originator: 'alice', subagent: 'audit', ancestors: [], max_chain_depth: 3 })).toEqual({ ok: true, depth: 1 })
    expect(validateChain({ originator: 'b', subagent: 'c', ancestors: ['a'], max_chain_depth: 3 })).toEqual({ ok: true, depth: 2 })
    expect(validateChain({ originator: 'c', subagent: 'd', ancestors: ['a', 'b'], max_chain_depth: 3 })).toEqual({ ok: true, depth: 3 })
  })

  it('refuses depth 4 of 3 with E002, the offender marked', () => {
    const verdict = validateChain({ originator: 'd', subagent: 'e', ancestors: ['a', 'b', 'c'], max_chain_depth: 3 })
    expect(verdict).toEqual({
      ok: false,
      error: {
        code: 'E002',
        message: 'Chain too deep (4 of at most 3): a → b → c → d → [e]',
        details: { chain: ['a', 'b', 'c', 'd', 'e'], offender: 'e', depth: 4, max_chain_depth: 3 },
      },
    })
  })

  // opencode#18100 (self-pass), openclaw#37842 (A→B→C→A)
  it.each([
    ['a pass to itself', [], 'a', 'a', 'a may not pass work to itself: a → [a]'],
    ['ping-pong', ['a'], 'b', 'a', 'Ping-pong, a is already waiting for this agent: a → b → [a]'],
    ['a long loop', ['a', 'b'], 'c', 'a', 'Cycle, a is already waiting in this chain: a → b → c → [a]'],
    ['a loop in its middle', ['a', 'b', 'c'], 'd', 'b', 'Cycle, b is already waiting in this chain: a → b → c → d → [b]'],
  ])('refuses %s with E003', (_, ancestors, originator, subagent, message) => {
    const verdict = validateChain({ originator, subagent, ancestors, max_chain_depth: 3 })
    const details = { chain: [...ancestors, originator, subagent], offender: subagent }
    expect(verdict).toEqual({ ok: false, error: { code: 'E003', message, details } })
  })

  it('never accepts a loop or too deep a chain, and accepts all else', () => {
    const names = fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f')
    fc.assert(
      fc.property(
        fc.array(names, { maxLength: 6 }),
        names,
        names,
        fc.integer({ min: 1, max: 6 }),
        (ancestors, originator, subagent, max) => {
          const chain = [...ancestors, originator, subagent]
          const loop = chain.some((name, i) => chain.indexOf(name) !== i)
          const verdict = validateChain({ originator, subagent, ancestors, max_chain_depth: max })
          if (loop) expect(verdict).toMatchObject({ ok: false, error: { code: 'E003' } })
          else if (ancestors.length + 1 > max) expect(verdict).toMatchObject({ ok: false, error: { code: 'E002' } })
          else expect(verdict).toEqual({ ok: true, depth: ancestors.length + 1 })
        },
      ),
    )
  })
})

describe('chainText', () => {
  it('marks the offender', () => {
    expect(chainText(['alice', 'audit'], 'alice')).toBe('alice → audit → [alice]')
    expect(chainText([], 'alice')).toBe('[alice]')
  })
})

describe('firstRevoked', () => {
  it('returns the revoked agent that is nearest to the root, or undefined', () => {
    const revoked = new Map([
      ['scout', 7],
      ['audit', 9],
    ])
    expect(firstRevoked(['alice', 'audit', 'scout'], revoked)).toEqual({ agent: 'audit', at: 9 })
    expect(firstRevoked(['alice', 'bob'], revoked)).toBeUndefined()
  })
})
