import type { WorkControl } from '@passover/schemas'
import { describe, expect, it, test } from 'vitest'
import type { ParsedRequest } from '../messages/parse-request.js'
import type { Context } from './context.js'
import { prepareAdmission } from './prepare-admission.js'

const NOW = 1_800_000_000_000
const AGENT = { roles: { originates: 'always', subagent: true }, registered_by: 'maria', updated_at: NOW }
const KEY = { originator: 'alice', subagent: 'scout', id: 'parent-id-1' }

/** A dispatcher whose counts say `full` or not, with a parent that has a budget; what was charged is noted. */
function begun({ time = NOW, budget = { passes: 1 } as object | null, parts = [] as object[], full = false } = {}) {
  const state = { full: true, charged: 0, uploaded: 0 }
  const control = {
    id: KEY.id,
    originating_agent_id: KEY.originator,
    subagent_id: KEY.subagent,
    return_id: 'r',
    ancestors: ['alice'],
    max_chain_depth: 3,
    rights: { can_modify_files: true, can_run_tools: true, constraints: [] },
    origination_chain: [],
    root: KEY,
    session_id: 's',
    ...(budget && { budget }),
  } as unknown as WorkControl
  const work = { kind: 'work', sequence: 7, time: NOW, timeout_ms: 60_000, key: KEY }
  const journal = { state: 'open', work, last: 7, valid: 7, attempt: 1, deadline: NOW + 20_000 }
  const context = {
    deps: {
      clock: { now: () => NOW },
      random: { bytes: () => new Uint8Array(16) },
      bus: {
        ensureAgent: async () => undefined,
        parts: {
          upload: async () => {
            state.uploaded++
            return []
          },
        },
      },
    },
    options: { registration: 'open', id_window_ms: 3_600_000 },
    registry: { get: (name: string) => ({ ...AGENT, name }), isUnknown: () => false },
    parents: { read: async () => ({ journal, control }) },
    policy: { current: () => ({ version: 0, document: {} }) },
    counters: {
      release: () => undefined,
      for: () => ({
        ready: true,
        rate: () => undefined,
        session: () => (state.full ? { count: 1_000 } : undefined),
        held: () => undefined,
      }),
    },
    budgets: {
      charge: async () => {
        state.charged++
        return { ok: true, grant: { time_ms: 1_000, rest: { passes: 0 } } }
      },
    },
  } as unknown as Context
  const request = {
    id: 'child-id-01',
    originating_agent_id: 'scout',
    subagent_id: 'audit',
    reason: 'x',
    return_required: true,
    parent: { ...KEY, return_id: 'r', proof: 7 },
  }
  const parsed = { request, parts, digest: 'd', session_id: 's', reply_type: 'msgpack' } as unknown as ParsedRequest
  const asked = { delivery: { sequence: 9, time } as never, parties: { originator: 'scout', subagent: 'audit' }, parsed, full }
  return { state, prepare: async () => await prepareAdmission(context, asked) }
}

describe('a child of a pass that has a budget', () => {
  it('takes of it before it begins', async () => {
    const { state, prepare } = begun()
    state.full = false
    const { decide } = await prepare()
    expect([decide(NOW).kind, state.charged]).toEqual(['admit', 1])
  })

  it('does not begin by a later look when it was refused, and took nothing, at the first', async () => {
    const { state, prepare } = begun()
    const { decide } = await prepare()
    expect([decide(NOW).kind, state.charged]).toEqual(['refuse', 0])
    state.full = false
    expect([decide(NOW).kind, state.charged]).toEqual(['later', 0])
  })
})

describe('a child', () => {
  it('has no more time than its parent had left when its request was stored, though the clock here is behind the server’s', async () => {
    const { state, prepare } = begun({ time: NOW + 32, budget: null })
    state.full = false
    const begin = await prepare()
    for (const now of [NOW, NOW + 32]) expect(begin.decide(now)).toMatchObject({ kind: 'admit', control: { timeout_ms: 19_968 } })
    expect(begin.decide(NOW + 1_000)).toMatchObject({ kind: 'admit', control: { timeout_ms: 19_000 } })
  })
})

test.each([
  [false, 'admit', 1, 1],
  [true, 'refuse', 0, 0],
] as const)(
  'of what comes at the high-water mark (%s) nothing is stored or charged before it is refused',
  async (full, kind, charged, uploaded) => {
    const parts = [{ name: 'context', data: new Uint8Array(2_000_000) }]
    const { state, prepare } = begun({ parts, full })
    state.full = false
    const { decide } = await prepare()
    expect([decide(NOW).kind, state.charged, state.uploaded]).toEqual([kind, charged, uploaded])
  },
)
