import type { AgentRecord, PassOverPreferences } from '@passover/schemas'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { PROMPT_TEMPLATES, readPromptTemplate, renderPrompt, templateFor } from './render.js'

/** Words in backticks that name something of ours and no agent or tool. Whatever else a prompt marks so has to exist. */
const OURS = new Set(
  `passOver() pass.passOver() passOverWithRetry self.apply(output) objective reason id override constraints read_only no_tools no_external_calls
  completed partial failed aborted completion_reason summary summary.recommendations decision decision_reason approved needs_modification
  rejected blocked old_content error unknown output_schema pass.signal pass.rights pass.deadline pass.ancestors
  passover_agents passover_up passover_doctor`.split(/\s+/),
)
const SHIPPED_NAMES = /\b(alice|audit|scout|inspector)\b/

function agent(name: string, more: Partial<AgentRecord['roles']> = {}, rest: Partial<AgentRecord> = {}): AgentRecord {
  return { name, roles: { originates: 'always', subagent: true, ...more }, registered_by: 'pat', updated_at: 1, ...rest }
}

function rendered(name: string, agents: AgentRecord[], policy: PassOverPreferences = {}, template?: (typeof PROMPT_TEMPLATES)[number]) {
  const sources = { agents, policy }
  return renderPrompt(readPromptTemplate(template ?? templateFor(name, sources)), name, sources)
}

/** Every name that a prompt claims to exist: what is in backticks outside of samples, and the agents that the samples name. */
function namesIn(prompt: string): string[] {
  const samples = [...prompt.matchAll(/```js\n([\s\S]*?)```/g)].map(([, code = '']) => code)
  const text = prompt.replace(/```js\n[\s\S]*?```/g, '')
  const marked = [...text.matchAll(/`([^`]*)`/g)].map(([, word = '']) => word.replaceAll(' ', '_'))
  const called = samples.flatMap((code) => [...code.matchAll(/(?:subagent: |connect\(|onPass\()'([^']*)'/g)].map(([, name = '']) => name))
  return [...marked.filter((word) => !OURS.has(word)), ...called]
}

const NAMES = ['zebra', 'okapi', 'gnu', 'tapir', 'constructor']
const TOOLS = ['grep', 'sed', 'make']
const roles = fc.record({ originates: fc.constantFrom('always', 'within_a_pass', 'never'), subagent: fc.boolean() } as const)
const entry = fc.record(
  {
    enabled: fc.boolean(),
    hold_before_dispatch: fc.boolean(),
    require_user_approval: fc.boolean(),
    pass_files: fc.boolean(),
    pass_context: fc.boolean(),
    can_modify_files: fc.boolean(),
    can_run_tools: fc.boolean(),
    tools: fc.subarray(TOOLS),
    max_passes_per_minute: fc.integer({ min: 1, max: 9 }),
    timeout_ms: fc.constantFrom(1, 1_500, 100_000, 5_000_000, 86_400_000),
  },
  { requiredKeys: [] },
)
const cases = fc.record({
  names: fc.subarray(NAMES, { minLength: 1 }),
  roles: fc.array(roles, { minLength: NAMES.length, maxLength: NAMES.length }),
  description: fc.constantFrom(undefined, 'knows `everything`', 'a\n# new heading\u202e', '{{first}} {{nothing}} $& $1', 'x'.repeat(4_000)),
  entries: fc.array(entry, { minLength: 25, maxLength: 25 }),
  template: fc.constantFrom(...PROMPT_TEMPLATES),
})

describe('renderPrompt', () => {
  it('names no agent and no tool that does not exist, for any registry, policy, agent and template', () => {
    let named = 0
    fc.assert(
      fc.property(cases, ({ names, roles: given, description, entries, template }) => {
        const agents = names.map((name, n) =>
          agent(name, given[n], description === undefined ? {} : { description, skills: [description.slice(0, 9)] }),
        )
        const pairs = Object.fromEntries(
          names
            .flatMap((from, i) => names.map((to, j) => [`${from}->${to}`, entries[i * 5 + j] ?? {}] as const))
            .filter((_, n) => n % 3 > 0),
        )
        for (const { name } of agents) {
          const prompt = rendered(name, agents, { pairs }, template)
          const mentioned = namesIn(prompt)
          named += mentioned.length
          for (const word of mentioned) expect([...names, ...TOOLS]).toContain(word)
          expect(prompt).not.toMatch(SHIPPED_NAMES)
          expect(prompt).not.toMatch(/\{\{[#^/]/)
          expect(prompt.split('\n').filter((line) => line.startsWith('# '))).toHaveLength(1)
        }
      }),
      { numRuns: 500 },
    )
    expect(named).toBeGreaterThan(2_000)
  }, 30_000)

  it.each(PROMPT_TEMPLATES)('%s has its four sections, in their order', (template) => {
    const headings = rendered('zebra', [agent('zebra'), agent('gnu')], {}, template).match(/^## .*$/gm)
    expect(headings).toEqual(['## When to pass over', '## How to call passOver()', '## How to handle the return', '## What to avoid'])
  })

  it('lists exactly the agents to which the policy and the registry let it pass, and each pair’s limits', () => {
    const agents = [
      agent('zebra', { subagent: false }),
      agent('gnu', {}, { description: 'checks types', skills: ['ts'] }),
      agent('okapi'),
      agent('tapir'),
      agent('lama', { subagent: false }),
    ]
    const policy: PassOverPreferences = {
      pairs: {
        'zebra->okapi': { enabled: false },
        'zebra->gnu': { timeout_ms: 90_000, hold_before_dispatch: true, tools: ['grep'], max_chain_depth: 2, pass_files: false },
      },
      subagents: { tapir: { can_receive_passes: false } },
    }
    const prompt = rendered('zebra', agents, policy)
    expect(namesIn(prompt).sort()).toEqual(['gnu', 'gnu', 'grep', 'zebra', 'zebra'])
    expect(prompt).toContain('describes itself as "checks types" (skills: ts)')
    expect(prompt).toContain('It has 90 s; the chain may be 2 passes long; the messages are passed')
    expect(prompt).toContain('a person approves each pass before it starts, within 24 h')
    expect(prompt).not.toContain('files: [')
  })

  it.each([
    [{}, 'changes are proposals, and a person must approve them'],
    [{ can_modify_files: true }, 'a person must approve its changes before they are applied'],
    [{ require_user_approval: false, auto_apply: true }, 'its changes are applied when you call apply'],
    [{ require_user_approval: false, can_modify_files: true }, 'its changes are applied when you call apply'],
    [{ require_user_approval: false, can_modify_files: true, auto_apply: true }, 'its changes may be applied automatically'],
  ])('tells what becomes of changes under %j', (pair, said) => {
    expect(rendered('zebra', [agent('zebra', { subagent: false }), agent('gnu')], { pairs: { 'zebra->gnu': pair } })).toContain(said)
  })

  it('tells a subagent who passes to it, and what it may do for each', () => {
    const agents = [agent('zebra', { subagent: false }), agent('gnu', { originates: 'never' }), agent('okapi', { originates: 'never' })]
    const policy: PassOverPreferences = {
      pairs: { 'zebra->gnu': { can_modify_files: true } },
      subagents: { gnu: { can_modify_files: true, max_compute_time_ms: 5_000, tools: ['make'], output_schema: { type: 'object' } } },
    }
    const prompt = rendered('gnu', agents, policy)
    expect(prompt).toContain('- `zebra`: You have 5 s;')
    expect(prompt).toContain(
      'you may change files; you may run `make` and no other tool; your output is checked against your output schema',
    )
    expect(prompt).toContain('Do not call it. Passover refuses every call.')
    expect(prompt).not.toContain('okapi')
  })

  it('shows only the codes that can happen', () => {
    const codes = (prompt: string) => [...new Set(prompt.match(/^\| E\d{3}/gm))].map((row) => row.slice(2))
    const root = [agent('zebra', { subagent: false }), agent('gnu')]
    const alone = codes(rendered('zebra', root))
    expect(alone).toEqual(['E001', 'E003', 'E005', 'E010', 'E011', 'E012', 'E013', 'E014', 'E021', 'E040', 'E043'])
    expect(codes(rendered('zebra', [...root, agent('okapi')], { pairs: { 'zebra->okapi': { enabled: false } } }))).toContain('E004')
    expect(codes(rendered('gnu', [agent('zebra'), agent('gnu')]))).toContain('E002')
    expect(codes(rendered('zebra', [agent('zebra', { subagent: false })]))).toEqual([])
  })

  it('chooses the template by what the agent does, and knows no agent that there is not', () => {
    const agents = [agent('zebra', { subagent: false }), agent('gnu'), agent('okapi', { originates: 'never' })]
    expect(agents.map(({ name }) => templateFor(name, { agents, policy: {} }))).toEqual(['alice', 'scout', 'audit'])
    expect(templateFor('audit', { agents: [...agents, agent('audit')], policy: {} })).toBe('audit')
    expect(() => rendered('nobody', agents)).toThrow(expect.objectContaining({ code: 'E041' }))
    expect(() => renderPrompt('{{nonsense}}', 'gnu', { agents, policy: {} })).toThrow('nonsense')
  })
})
