import type { EffectivePolicy, PassKey, WorkControl } from '@passover/schemas'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { control, KEY, output, T0 } from '../../testing/samples.js'
import { SYSTEM_DEFAULTS } from '../policy/fields.js'
import { acceptReturn, completeOutput } from '../results/validate-return.js'
import { type FramedStep, openControl, packControl } from './control-codec.js'
import { openOutput, outputIn, packOutput } from './output-codec.js'
import { openPolicy, packPolicy } from './policy-codec.js'

const whole = (more: Partial<EffectivePolicy> = {}): EffectivePolicy => ({
  ...SYSTEM_DEFAULTS,
  allow_widening: [],
  max_compute_time_ms: 30_000,
  ...more,
})
const policies = fc
  .record(
    {
      auto_return: fc.boolean(),
      timeout_ms: fc.constantFrom(30_000, 1_000),
      max_compute_time_ms: fc.constantFrom(30_000, 1_000),
      max_chain_depth: fc.constantFrom(3, 7),
      max_held: fc.constantFrom(1_000, 7),
      max_open: fc.constantFrom(10_000, 7),
      tools: fc.array(fc.string(), { maxLength: 2 }),
      approvers: fc.array(fc.string(), { maxLength: 2 }),
      reason: fc.string(),
      allow_widening: fc.constantFrom<EffectivePolicy['allow_widening']>([], [...SYSTEM_DEFAULTS.allow_widening], ['auto_apply']),
    },
    { requiredKeys: [] },
  )
  .map((more) => whole(more))

/** What subject and headers of the step say, as the dispatcher writes them. */
function stepOf(control: WorkControl, kind: 'work' | 'held'): FramedStep {
  const { originating_agent_id: originator, subagent_id: subagent, id } = control
  return {
    key: { originator, subagent, id },
    by: kind === 'work' ? control.priority : 'passover',
    digest: control.digest,
    request: control.request_sequence,
    requested_at: control.requested_at,
    timeout_ms: kind === 'work' ? control.timeout_ms : undefined,
    parent: control.parent,
    proof: control.proof,
    reply: control.reply_type === 'json' ? 'json' : undefined,
  }
}

describe('a policy frame', () => {
  it('stands for the whole policy', () => {
    fc.assert(fc.property(policies, (policy) => void expect(openPolicy(packPolicy(policy))).toEqual(policy)))
  })

  it('says what the policy lacks of its base', () => {
    const { notify_on_return: _, ...lacking } = whole()
    expect(openPolicy(packPolicy(lacking as EffectivePolicy))).toEqual(lacking)
  })

  it('is small for the defaults, and the same object for the same policy', () => {
    const policy = whole({ allow_widening: [...SYSTEM_DEFAULTS.allow_widening] })
    expect(packPolicy(policy)).toEqual({ base: 1 })
    expect(packPolicy(policy)).toBe(packPolicy(policy))
  })

  it('without a base is the whole policy, with one that nobody knows none', () => {
    expect(openPolicy(whole())).toEqual(whole())
    expect(openPolicy({ base: 99 })).toBeUndefined()
  })

  it('has a base that never changes: stored steps are read by it', () => {
    expect(openPolicy({ base: 1 })).toMatchInlineSnapshot(`
      {
        "allow_widening": [
          "timeout_ms",
          "auto_return",
          "notify_on_return",
        ],
        "approval_expires_ms": 86400000,
        "auto_apply": false,
        "auto_return": false,
        "auto_review": false,
        "can_modify_files": false,
        "can_receive_passes": true,
        "can_run_tools": true,
        "enabled": true,
        "hold_before_dispatch": false,
        "lease_ms": 5000,
        "max_attempts": 3,
        "max_chain_depth": 3,
        "max_compute_time_ms": 30000,
        "max_context_size_bytes": 5242880,
        "max_held": 1000,
        "max_open": 10000,
        "max_passes_per_session": 1000,
        "max_timeout_ms": 86400000,
        "notify_on_return": "always",
        "pass_context": true,
        "pass_files": true,
        "require_user_approval": true,
        "return_deadline_ms": 86400000,
        "timeout_ms": 30000,
        "validate_output": true,
      }
    `)
  })
})

const PARENT: PassKey = { originator: 'root', subagent: 'alice', id: 'a-parent-of-it' }
const controls = fc
  .record(
    {
      policy: policies,
      priority: fc.constantFrom('high', 'medium', 'low'),
      timeout_ms: fc.constantFrom(30_000, 500),
      return_required: fc.boolean(),
      auto_apply_on_success: fc.boolean(),
      constraints: fc.constantFrom([], ['read_only']),
      max_chain_depth: fc.constantFrom(3, 2),
      ancestors: fc.constantFrom(['alice'], ['root', 'alice']),
      chain_depth: fc.constantFrom(1, 2),
      origination_chain: fc.constantFrom<WorkControl['origination_chain']>(
        [{ agent_id: 'alice', timestamp: T0, action: 'initiated' }],
        [
          { agent_id: 'root', timestamp: T0 - 5, action: 'initiated' },
          { agent_id: 'alice', timestamp: T0, action: 'delegated' },
        ],
        [{ agent_id: 'alice', timestamp: T0, action: 'initiated', more: 1 }],
      ),
      root: fc.constantFrom(KEY, PARENT),
      parent: fc.constant(PARENT),
      proof: fc.constant(12),
      rights: fc.constantFrom<WorkControl['rights']>(
        { can_modify_files: false, can_run_tools: true, constraints: [] },
        { can_modify_files: false, can_run_tools: true, constraints: [], tools: ['grep'] },
        { can_modify_files: true, can_run_tools: false, constraints: ['no_tools'] },
      ),
      policy_name: fc.constantFrom('system', 'pair alice->audit'),
      policy_override: fc.boolean(),
      policy_version: fc.nat(3),
      max_attempts: fc.constantFrom(3, 1),
      lease_ms: fc.constantFrom(5_000, 700),
      reply_type: fc.constantFrom('msgpack', 'json'),
      session_id: fc.constantFrom('', 's'),
      context_bytes: fc.nat(3),
      user_id: fc.constant('maria'),
    },
    { requiredKeys: [] },
  )
  .map((more): WorkControl => ({ ...control(), ...(more as unknown as Partial<WorkControl>) }))

describe('a control frame', () => {
  it('stands, with what subject and headers say, for the whole', () => {
    fc.assert(
      fc.property(controls, fc.constantFrom('work' as const, 'held' as const), (given, kind) => {
        expect(openControl(packControl(given, kind), stepOf(given, kind))).toEqual(given)
      }),
    )
  })

  it('keeps what it does not know of', () => {
    const given = { ...control(), later: { field: 1 }, rights: { ...control().rights, can_fly: true } } as WorkControl
    expect(openControl(packControl(given, 'work'), stepOf(given, 'work'))).toEqual(given)
  })

  it('says of an ordinary pass little more than its reason', () => {
    expect(Object.keys(packControl({ ...control(), policy_version: 0 }, 'work')).sort()).toEqual([
      'context_bytes',
      'policy',
      'reason',
      'return_id',
      'session_id',
    ])
  })

  it('may say everything itself', () => {
    const given = control()
    const elsewhere: FramedStep = { key: { originator: 'x', subagent: 'y', id: 'another-one' }, by: 'low' }
    expect(openControl(given, elsewhere)).toEqual(given)
  })
})

describe('a brief output', () => {
  it('of a base that is not known here is no output, and says so', () => {
    const facts = { control: { ...control(), policy_version: 0 }, attempt: 1, started_at: T0 + 5, completed_at: T0 + 7 }
    const brief = packOutput(completeOutput('done', facts), KEY) ?? {}
    expect(acceptReturn(outputIn({ v: 1, brief }, KEY), KEY)).toMatchObject({ ok: true })
    expect(acceptReturn(outputIn({ v: 1, brief, base: 1 }, KEY), KEY)).toMatchObject({ ok: true })
    const later = acceptReturn(outputIn({ v: 1, brief, base: 2 }, KEY), KEY)
    expect(later).toMatchObject({ ok: false, error: { code: 'E021', message: expect.stringContaining('base 2') } })
  })

  const results = fc.record(
    {
      status: fc.constantFrom('completed' as const, 'partial' as const),
      output: fc.string(),
      completion_reason: fc.string(),
      auto_apply_allowed: fc.boolean(),
      artifacts: fc.constantFrom([], [{ type: 'finding' as const, severity: 'info' as const, category: 'c', message: 'm' }]),
      summary: fc.constantFrom('text', { findings: ['f'], files_reviewed: 3 }, { recommendations: [], issues_found: 0 }),
      more: fc.jsonValue(),
    },
    { requiredKeys: ['output'] },
  )

  it('stands for the whole', () => {
    fc.assert(
      fc.property(results, controls, fc.nat(20), (given, frame, ms) => {
        const facts = {
          control: { ...frame, parent: undefined } as unknown as WorkControl,
          attempt: 1 + (ms % 2),
          started_at: T0 + 5,
          completed_at: T0 + 5 + ms,
        }
        const output = completeOutput(given as unknown as Parameters<typeof completeOutput>[0], { ...facts, compute_ms: ms % 3 })
        const brief = packOutput(output, KEY)
        expect(brief && openOutput(brief, KEY)).toEqual(output)
      }),
    )
  })

  it('says of plain text little more than that and its times', () => {
    const facts = { control: { ...control(), policy_version: 0 }, attempt: 1, started_at: T0 + 5, completed_at: T0 + 7 }
    const brief = packOutput(completeOutput('done', facts), KEY)
    expect(brief).toEqual({ output: 'done', metadata: { created_at: T0, started_at: T0 + 5, completed_at: T0 + 7 } })
  })

  it('is none of an output that lacks what would be filled in', () => {
    const { metadata } = output()
    expect(packOutput(output(), KEY)).toBeUndefined()
    expect(packOutput({ ...output(), metadata: { ...metadata, created_at: undefined } }, KEY)).toBeUndefined()
    expect(packOutput({ ...output(), summary: 'x' }, KEY)).toBeUndefined()
  })

  it('of whatever bytes is opened without a throw', () => {
    fc.assert(fc.property(fc.dictionary(fc.string(), fc.anything()), (frame) => void openOutput(frame, KEY)))
    expect(openOutput({ metadata: 3, summary: 'x' }, KEY)).toMatchObject({ summary: 'x', work_id: KEY.id })
  })
})
