import type { PassOverPreferences, RequestControl } from '@passover/schemas'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { type NaiveCase, type NaiveParent, naiveAdmission } from '../../testing/naive-admission.js'
import { level, someOf, VALUES } from '../../testing/naive-policy.js'
import { agent, control, part, RULES, request, step, T0, timedId, WINDOW } from '../../testing/samples.js'
import { foldJournal } from '../journal/state-machine.js'
import { countToken } from '../limits/session-counter.js'
import { admit } from './admit.js'
import type { AdmitInput, ParentPass } from './types.js'

const NOW = T0 + 2 * WINDOW
const PARENT_ID = 'the-id-of-the-parent'
const AGENTS = ['alice', 'audit', 'scout', 'critic', 'judge'] as const

const flag = fc.boolean()
/** Values that let about half of all cases through: what everything turns on is mostly as it has to be. */
const mostly = (value: boolean) => fc.constantFrom(...Array.from({ length: 19 }, () => value), !value)
const limit = fc.integer({ min: 1, max: 20 })
const budget = fc.record(
  { passes: fc.integer({ min: 0, max: 6 }), tokens: fc.constantFrom(0, 149, 150, 1_000), time_ms: fc.constantFrom(0, 700, 40_000) },
  { requiredKeys: [] },
)
const values = {
  ...VALUES,
  enabled: mostly(true),
  can_receive_passes: mostly(true),
  timeout_ms: fc.constantFrom(500, 30_000, 90_000, WINDOW * 2),
  max_timeout_ms: fc.constantFrom(90_000, WINDOW * 2),
  max_context_size_bytes: fc.constantFrom(300, 600, 601, 10_000),
  max_chain_depth: fc.integer({ min: 1, max: 6 }),
  max_passes_per_minute: limit,
  max_active: limit,
  max_passes_per_session: limit,
  max_held: limit,
  max_open: limit,
  approval_expires_ms: fc.constantFrom(1, 1_000, 604_800_000),
  budget,
}
const optional = <T>(of: fc.Arbitrary<T>) => fc.option(of, { nil: undefined })
const seldom = <T>(of: fc.Arbitrary<T>) => fc.oneof({ weight: 2, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: of })
/** Levels say little, so that most cases turn on one thing. */
const said = (letter: string) => seldom(level(letter, values).chain(someOf))

const policy = fc.record({
  pair: optional(level('p', values).chain(someOf)),
  subagent: said('s'),
  registry: said('s'),
  global: said('g'),
  override: said('o'),
  own: seldom(fc.record({ timeout_ms: fc.constantFrom(500, 30_000), auto_apply_on_success: flag }, { requiredKeys: [] })).map(
    (own) => own ?? {},
  ),
})

const rights = fc.record({
  can_modify_files: flag,
  can_run_tools: flag,
  tools: optional(fc.subarray(['read', 'edit', 'bash', 'make'])),
  constraints: fc.subarray(['read_only', 'no_external_calls']),
})
const parent: fc.Arbitrary<NaiveParent> = fc.record({
  known: mostly(true),
  state: fc.constantFrom(...Array.from({ length: 12 }, () => 'open' as const), 'held', 'done'),
  right_return_id: mostly(true),
  right_proof: mostly(true),
  right_subagent: mostly(true),
  rest_ms: fc.constantFrom(1, 20_000, 20_000, 20_000, 3_000_000, 3_000_000, 0, -1),
  ancestors: fc.uniqueArray(fc.constantFrom(...AGENTS, 'root', 'lead'), { minLength: 1, maxLength: 3 }),
  max_chain_depth: fc.integer({ min: 2, max: 6 }),
  rights,
  budget: seldom(budget),
})

const counted = fc.record({
  minute: fc.integer({ min: 0, max: 9 }),
  active: fc.integer({ min: 0, max: 9 }),
  held: fc.integer({ min: 0, max: 3 }),
})
const cases: fc.Arbitrary<NaiveCase> = fc.record({
  from: fc.constantFrom(...AGENTS),
  to: fc.constantFrom(...AGENTS),
  policy,
  forged: mostly(false),
  id_age_ms: fc.constantFrom(10, 10, 10, 10, 10, 10, 10, WINDOW, WINDOW, WINDOW + 1, -60_000, -60_001),
  timed_id: mostly(true),
  waited_ms: fc.constantFrom(0, 0, 10, 10, 10, 10, 10, 10, 499, 500, 29_999, 30_000, WINDOW, WINDOW + 1),
  open_registration: flag,
  originates: fc.constantFrom(...Array.from({ length: 12 }, () => 'always' as const), 'within_a_pass', 'within_a_pass', 'never', undefined),
  is_subagent: fc.constantFrom(...Array.from({ length: 16 }, () => true), false, undefined),
  parent: seldom(parent),
  constraints: fc.subarray(['read_only', 'no_tools', 'no_external_calls']),
  budget: seldom(budget),
  priority: optional(fc.constantFrom('low', 'medium', 'high')),
  sizes: fc.constantFrom({ context: 100, messages: 200, 'file:a.ts': 300 }, { context: 600 }, { context: 10, 'file:a.ts': 591 }),
  unnamed_session: seldom(fc.constant(true as const)),
  counts: fc.record({
    pair: counted,
    subagent: counted,
    session: fc.integer({ min: 0, max: 9 }),
    tree: fc.integer({ min: 0, max: 9 }),
    held: fc.integer({ min: 0, max: 9 }),
  }),
})

/** The same case as the product is given it. */
function inputOf(one: NaiveCase): AdmitInput {
  const { from, to, policy: said } = one
  const asked: RequestControl = request({
    id: one.timed_id ? timedId(NOW - one.id_age_ms) : 'an-id-without-a-time',
    originating_agent_id: from,
    subagent_id: to,
    constraints: one.constraints,
    ...said.own,
    ...(said.override && { override: said.override as RequestControl['override'] }),
    ...(one.budget && { budget: one.budget }),
    ...(one.priority && { priority: one.priority }),
    ...(one.parent && { parent: named(one, one.parent) }),
  })
  const document = {
    ...(said.global && { defaults: said.global }),
    pairs: { ...(said.pair && { [`${from}->${to}`]: said.pair }), 'other->audit': { enabled: false } },
    subagents: { ...(said.subagent && { [to]: said.subagent }), other: { can_receive_passes: false } },
  } as PassOverPreferences
  const defaults = said.registry && { defaults: said.registry }
  const root = { originator: asked.originating_agent_id, subagent: to, id: asked.id }
  const session = countToken({ root, originating_agent_id: from, session_id: 's' })
  return {
    request: asked,
    subject: one.forged ? { originator: 'mallory', subagent: to } : { originator: from, subagent: to },
    request_sequence: 7,
    requested_at: NOW - one.waited_ms,
    now: NOW,
    parts: Object.entries(one.sizes).map(([name, size]) => part(name, size)),
    digest: 'd'.repeat(64),
    session_id: 's',
    unnamed_session: one.unnamed_session,
    reply_type: 'msgpack',
    agents: {
      originator: one.originates && agent(from, { originates: one.originates }),
      subagent: one.is_subagent === undefined ? undefined : agent(to, { subagent: one.is_subagent }, defaults ?? {}),
      open: one.open_registration,
    },
    parent: one.parent && stored(one, one.parent),
    policy: { version: 3, document },
    id_window_ms: WINDOW,
    return_id: 'return-2',
    counts: {
      ready: true,
      rate(scope, field, most) {
        const { minute, active, held } = one.counts[scope === 'share' ? 'pair' : scope]
        const count = field === 'max_passes_per_minute' ? minute : scope === 'pair' ? active : active - held
        return count >= most ? { count } : undefined
      },
      session(token, most) {
        const count = token === session ? one.counts.session : one.counts.tree
        return count >= most ? { count } : undefined
      },
      held: (most) => (one.counts.held >= most ? { count: one.counts.held } : undefined),
    },
  }
}

const PROOF = 20

/** What the request says of its parent. */
function named({ from }: NaiveCase, above: NaiveParent): NonNullable<RequestControl['parent']> {
  return {
    originator: above.ancestors.at(-1) ?? '',
    subagent: above.right_subagent ? from : 'mallory',
    id: PARENT_ID,
    return_id: above.right_return_id ? 'return-1' : 'guessed',
    proof: above.right_proof ? PROOF : PROOF - 1,
  }
}

/** What the stream has of it. */
function stored({ from }: NaiveCase, above: NaiveParent): ParentPass | undefined {
  if (!above.known) return undefined
  const key = { originator: above.ancestors.at(-1) ?? '', subagent: above.right_subagent ? from : 'mallory', id: PARENT_ID }
  const first = step(above.state === 'held' ? 'held' : 'work', PROOF, { key, time: NOW - 1_000, timeout_ms: 1_000 + above.rest_ms })
  const steps = above.state === 'done' ? [first, step('return', PROOF + 1, { key, by: key.subagent })] : [first]
  const { ancestors, max_chain_depth, rights: allowed, budget: left } = above
  const { originator: originating_agent_id, subagent: subagent_id, id } = key
  const change = { id, originating_agent_id, subagent_id, ancestors, chain_depth: ancestors.length, max_chain_depth, rights: allowed }
  return { journal: foldJournal(steps, RULES).journal, control: { ...control(), ...change, ...(left && { budget: left }) } }
}

it('decides as a naive second implementation does, for thousands of policies, requests, parents and counts', () => {
  const seen: Record<string, number> = {}
  fc.assert(
    fc.property(cases, (one) => {
      const admission = admit(inputOf(one))
      const expected = naiveAdmission(one)
      if ('faults' in expected) {
        if (admission.kind !== 'refuse') throw new Error(`${admission.kind}, though ${[...expected.faults]}`)
        const { code, details = {} } = admission.error
        const at = details.scope ? `${details.scope}.${details.field}` : details.field
        const told = code === 'E014' || (code === 'E013' && details.field) ? `${code} ${at}` : code
        expect([...expected.faults]).toContain(told)
        seen[told] = (seen[told] ?? 0) + 1
        return
      }
      if (admission.kind === 'refuse' || admission.kind === 'later') throw new Error(`refused: ${JSON.stringify(admission)}`)
      seen[admission.kind] = (seen[admission.kind] ?? 0) + 1
      expect(admission.kind).toBe(expected.kind)
      const { control: decided } = admission
      for (const [field, value] of Object.entries(expected.control))
        expect([field, decided[field as keyof typeof decided]]).toEqual([field, value])
      if (admission.kind === 'hold') expect(admission.expires_ms).toBe(expected.expires_ms)
      else expect(Object.keys(one.sizes).filter((name) => admission.keep({ name }))).toEqual(expected.kept)
    }),
    { numRuns: 4_000 },
  )
  // Enough of each kind was compared.
  const times = (ending: string) => Object.entries(seen).reduce((sum, [told, n]) => sum + (told.startsWith(ending) ? n : 0), 0)
  for (const ending of ['E001', 'E002', 'E003', 'E005', 'E010', 'E012', 'E013 ', 'E014 ', 'hold'])
    expect([ending, times(ending) > 8]).toEqual([ending, true])
  // Counts only for pairs without a max_active of their own.
  expect(times('E014 pair.max_open')).toBeGreaterThan(0)
  expect(times('admit')).toBeGreaterThan(200)
}, 120_000)
