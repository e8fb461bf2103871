import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { decode } from '@passover/bus'
import {
  agentRecord,
  agentsAnswer,
  type PassKey,
  passAnswer,
  passOverAuditEntry,
  passOverMetadata,
  passOverRequest,
  workContext,
  workOutput,
} from '@passover/schemas'
import type { Pass, WorkOutput } from '@passover/sdk'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { CLOCK_MS } from '../../support/dispatcher/dispatcher.js'
import { until } from '../../support/processes/until.js'

/**
 * A row a field of the structures: what was put in comes out where it should. One real pass, alice → lead →
 * helper, in which every field of the second request and of its output is filled; looked at by the handler, the originator and the audit.
 */

const CONTEXT = {
  session_id: 'session-of-fields',
  directory: '/work/there',
  files: [{ path: 'a.ts', content: 'old', metadata: { size_bytes: 3, last_modified: 5, is_binary: false } }],
  messages: [
    { id: 'm1', role: 'user' as const, agent_name: 'alice', parts: [{ id: 'p1', type: 'text' as const, text: 'hi' }], timestamp: 7 },
  ],
  tool_results: [{ tool_name: 'grep', call_id: 'c1', status: 'completed' as const, input: { q: 1 }, output: 'x', timestamp: 9 }],
  todos: [{ id: 't1', content: 'mend it', status: 'open' }],
  errors: [{ type: 'TS2322', message: 'not assignable' }],
  objective: 'mend a.ts',
  background: 'the build fails',
  model: 'big-one',
  permissions: { edit: 'ask' },
  user_id: 'maria',
  tools: ['grep', 'edit'],
}
const ASKED = {
  id: 'an-id-given-by-lead-1',
  reason: 'structure_fields',
  priority: 'high' as const,
  timeout_ms: 20_000,
  return_required: true,
  auto_apply_on_success: false,
  constraints: ['be_brief'],
  expected_output_type: 'mixed' as const,
  override: { auto_return: true, notify_on_return: 'never' as const },
  retry_of: 'an-earlier-pass-1',
  attempts_made: 1,
  budget: { passes: 3, tokens: 50_000 },
  user_id: 'maria',
  trace_id: '0af7651916cd43dd8448eb211c80319c',
}
const RETURNED = {
  status: 'partial' as const,
  completion_reason: 'one file of two',
  artifacts: [
    { type: 'file_modification' as const, path: 'a.ts', old_content: 'old', new_content: 'new', reason: 'r', confidence: 'high' as const },
    { type: 'finding' as const, severity: 'warning' as const, category: 'style', message: 'a name' },
  ],
  summary: {
    decision: 'needs_modification' as const,
    decision_reason: 'see findings',
    recommendations: ['again'],
    generated_summary: 'half done',
  },
  auto_apply_allowed: true,
  output: 'in words',
}
/** By two clocks. */
const CLOCKS_MS = 2 * CLOCK_MS
const POLICY = { pairs: { 'lead->helper': { require_user_approval: false } } }

let world: AgentWorld
let directory: string
/** What each party saw. */
let seen: Pick<
  Pass,
  | 'id'
  | 'originator'
  | 'subagent'
  | 'reason'
  | 'priority'
  | 'timeout_ms'
  | 'rights'
  | 'expected_output_type'
  | 'budget'
  | 'context'
  | 'chain_depth'
  | 'ancestors'
  | 'session_id'
>
let output: WorkOutput
let stored: Record<string, unknown>
let control: Record<string, unknown>
let priority: string
let entry: Record<string, unknown>
let metadata: Record<string, unknown>
let agents: Record<string, unknown>[]
const key: PassKey = { originator: 'lead', subagent: 'helper', id: ASKED.id }

beforeAll(async () => {
  world = await AgentWorld.start({ dispatchers: [{ policy: { version: 1, document: POLICY } }] })
  directory = await mkdtemp(join(tmpdir(), 'structures-'))
  await writeFile(join(directory, 'a.ts'), 'old')
  const { bus } = world.world
  await world.world.agentRecord('helper', { originates: 'never', description: 'helps', skills: ['ts'], defaults: { lease_ms: 7_000 } })
  const [alice, lead, helper] = [await world.agent('alice'), await world.agent('lead'), await world.agent('helper')]
  await helper.onPass((pass) => {
    const { id, originator, subagent, reason, priority, timeout_ms, rights, expected_output_type, budget, context } = pass
    const { chain_depth, ancestors, session_id } = pass
    seen = {
      id,
      originator,
      subagent,
      reason,
      priority,
      timeout_ms,
      rights,
      expected_output_type,
      budget,
      context,
      chain_depth,
      ancestors,
      session_id,
    }
    return RETURNED
  })
  await lead.onPass(async (pass) => {
    output = await pass.passOver({ subagent: 'helper', work_context: CONTEXT, ...ASKED })
    return 'passed on'
  })
  await alice.passOver({ subagent: 'lead', reason: 'above', work_context: { objective: 'pass it on' } })
  await lead.apply(output, { directory })
  const journal = await world.world.journal(key)
  if (journal.state !== 'done' || !journal.work) throw new Error('it did not end')
  priority = journal.work.by
  control = (await world.world.control(journal.work.sequence)) as unknown as Record<string, unknown>
  const message = await bus.journal.message(Number(control.request_sequence))
  const body = decode(message?.data ?? new Uint8Array(0))
  stored = (body.ok ? (body.value as { request: Record<string, unknown> }).request : {}) as Record<string, unknown>
  const asker = world.buses.get(lead)
  const record = await until(
    async () => {
      const answer = passAnswer.parse(await asker?.ask({ op: 'pass', id: key.id, originator: 'lead' }))
      const found = answer.ok ? answer.passes[0]?.record : undefined
      return (found?.entry as { applied?: boolean } | undefined)?.applied ? found : undefined
    },
    { what: 'the audit has it' },
  )
  entry = record.entry as Record<string, unknown>
  metadata = record.metadata as Record<string, unknown>
  // An agent is told its own record alone.
  const answers = await Promise.all(
    [lead, helper].map(async (one) => agentsAnswer.parse(await world.buses.get(one)?.ask({ op: 'agents' }))),
  )
  agents = answers.flatMap((answer) => (answer.ok ? answer.agents : [])).flatMap((row) => ('open' in row ? [row.agent] : []))
})
afterAll(async () => {
  await world?.[Symbol.asyncDispose]()
  await rm(directory, { recursive: true, force: true })
})

type Rows = Record<string, () => void | Promise<void>>
/** What comes out is what was put in. */
const same = (out: () => unknown, put: unknown) => () => expect(out()).toEqual(put)
const time = (of: () => unknown) => () => expect(of()).toBeGreaterThan(1_700_000_000_000)

function table(name: string, shape: object, rows: Rows) {
  describe(name, () => {
    it('has a row for each field', () => {
      expect(Object.keys(rows).sort()).toEqual(Object.keys(shape).sort())
    })
    it.each(Object.entries(rows))('%s', async (_, row) => {
      await row()
    })
  })
}

table('PassOverRequest', passOverRequest.shape, {
  id: same(() => [seen.id, output.work_id], [ASKED.id, ASKED.id]),
  originating_agent_id: same(() => seen.originator, 'lead'),
  subagent_id: same(() => seen.subagent, 'helper'),
  work_context: same(() => seen.context, CONTEXT),
  reason: same(() => [seen.reason, entry.reason], [ASKED.reason, ASKED.reason]),
  priority: same(() => [priority, seen.priority], ['high', 'high']),
  timeout_ms: () => {
    expect(seen.timeout_ms).toBe(20_000)
    expect(entry.policy_overrides).toMatchObject({ timeout_ms: 20_000 })
  },
  return_required: same(() => control.return_required, true),
  auto_apply_on_success: same(() => control.auto_apply_on_success, false),
  constraints: same(() => seen.rights.constraints, ['be_brief']),
  expected_output_type: same(() => [seen.expected_output_type, entry.expected_output_type], ['mixed', 'mixed']),
  override: () => {
    // A partial output is delivered at once only because of it.
    expect(output.status).toBe('partial')
    expect(entry.policy_overrides).toMatchObject(ASKED.override)
  },
  parent: same(() => [seen.chain_depth, seen.ancestors, control.parent !== undefined], [2, ['alice', 'lead'], true]),
  retry_of: same(() => metadata.retry_of, ASKED.retry_of),
  attempts_made: same(() => stored.attempts_made, 1),
  budget: () => {
    expect(seen.budget).toMatchObject({ tokens: expect.any(Number), passes: expect.any(Number) })
    expect(seen.budget?.tokens).toBeLessThanOrEqual(ASKED.budget.tokens)
  },
  user_id: same(() => entry.user_id, 'maria'),
  trace_id: same(() => [output.metadata.trace_id, metadata.trace_id], [ASKED.trace_id, ASKED.trace_id]),
})

const given: Rows = Object.fromEntries(
  Object.keys(workContext.shape).map((field) => [
    field,
    same(() => seen.context[field as keyof typeof CONTEXT], CONTEXT[field as keyof typeof CONTEXT]),
  ]),
)
table('WorkContext', CONTEXT, given)

table('WorkOutput', workOutput.shape, {
  work_id: same(() => output.work_id, ASKED.id),
  subagent_id: same(() => output.subagent_id, 'helper'),
  originating_agent_id: same(() => output.originating_agent_id, 'lead'),
  status: same(() => [output.status, entry.status], ['partial', 'partial']),
  completion_reason: same(() => output.completion_reason, RETURNED.completion_reason),
  artifacts: same(() => output.artifacts, RETURNED.artifacts),
  summary: () => {
    const counted = { findings: ['a name'], files_modified: 1, files_reviewed: 1, issues_found: 1, time_elapsed_ms: expect.any(Number) }
    expect(output.summary).toEqual({ ...RETURNED.summary, ...counted })
  },
  return_to: same(() => output.return_to, 'lead'),
  auto_apply_allowed: same(() => output.auto_apply_allowed, true),
  metadata: same(() => output.metadata.pass_over_id, ASKED.id),
  output: same(() => output.output, 'in words'),
})

table('PassOverMetadata, at the originator and in the audit', passOverMetadata.shape, {
  created_at: () => expect(output.metadata.created_at).toBe(metadata.created_at),
  started_at: () => expect(metadata.started_at).toBeGreaterThanOrEqual(Number(metadata.created_at) - CLOCKS_MS),
  completed_at: () => expect(metadata.completed_at).toBeGreaterThanOrEqual(Number(metadata.started_at)),
  returned_at: () => {
    expect(metadata.returned_at).toBeGreaterThanOrEqual(Number(metadata.completed_at) - CLOCKS_MS)
    expect(output.metadata.returned_at).toBeGreaterThanOrEqual(Number(output.metadata.completed_at) - CLOCKS_MS)
  },
  pass_over_id: same(() => metadata.pass_over_id, ASKED.id),
  trace_id: same(() => metadata.trace_id, ASKED.trace_id),
  chain_depth: same(() => [output.metadata.chain_depth, metadata.chain_depth], [2, 2]),
  origination_chain: () => {
    const chain = ['alice initiated', 'lead delegated', 'helper returned']
    for (const one of [output.metadata, metadata as unknown as WorkOutput['metadata']])
      expect(one.origination_chain.map(({ agent_id, action }) => `${agent_id} ${action}`)).toEqual(chain)
  },
  policy_name: same(() => metadata.policy_name, 'pair lead->helper'),
  policy_override: same(() => [output.metadata.policy_override, metadata.policy_override], [true, true]),
  policy_version: same(() => [output.metadata.policy_version, metadata.policy_version], [1, 1]),
  attempt: () => {
    expect(metadata.attempt).toBeGreaterThan(0)
    expect(output.metadata.attempt).toBe(metadata.attempt)
  },
  retry_of: same(() => output.metadata.retry_of, ASKED.retry_of),
  wall_time_ms: () => expect(metadata.wall_time_ms).toBe(Number(metadata.returned_at) - Number(metadata.created_at)),
  subagent_compute_ms: () => expect(metadata.subagent_compute_ms).toBe(output.metadata.subagent_compute_ms),
  applied: async () => {
    expect([output.metadata.applied, metadata.applied]).toEqual([true, true])
    expect(await readFile(join(directory, 'a.ts'), 'utf8')).toBe('new')
  },
  applied_at: () => expect(metadata.applied_at).toBe(output.metadata.applied_at),
  applied_by: same(() => [output.metadata.applied_by, metadata.applied_by], ['lead', 'lead']),
})

table('PassOverAuditEntry', passOverAuditEntry.shape, {
  pass_over_id: same(() => entry.pass_over_id, ASKED.id),
  session_id: same(() => [seen.session_id, entry.session_id], [CONTEXT.session_id, CONTEXT.session_id]),
  timestamp: () => expect(entry.timestamp).toBe(metadata.created_at),
  originating_agent: same(() => entry.originating_agent, 'lead'),
  subagent: same(() => entry.subagent, 'helper'),
  user_id: same(() => entry.user_id, 'maria'),
  reason: same(() => entry.reason, ASKED.reason),
  work_context_size_bytes: () => expect(entry.work_context_size_bytes).toBe(control.context_bytes),
  expected_output_type: same(() => entry.expected_output_type, 'mixed'),
  started_at: () => expect(entry.started_at).toBe(metadata.started_at),
  completed_at: () => expect(entry.completed_at).toBe(metadata.completed_at),
  duration_ms: () => expect(entry.duration_ms).toBe(Number(entry.completed_at) - Number(entry.started_at)),
  status: same(() => entry.status, 'partial'),
  artifacts_count: same(() => entry.artifacts_count, 2),
  files_modified_count: same(() => entry.files_modified_count, 1),
  issues_found_count: same(() => entry.issues_found_count, 1),
  returned: same(() => entry.returned, true),
  returned_at: () => expect(entry.returned_at).toBe(metadata.returned_at),
  applied: same(() => entry.applied, true),
  applied_by: same(() => entry.applied_by, 'lead'),
  policy_applied: same(() => entry.policy_applied, 'pair lead->helper v1'),
  policy_overrides: same(() => entry.policy_overrides, { timeout_ms: 20_000, auto_apply: false, ...ASKED.override }),
  summary: same(() => entry.summary, 'half done'),
})

const record = (name = 'helper') => agents.find((one) => one.name === name)
table('AgentRecord', agentRecord.shape, {
  name: same(() => record()?.name, 'helper'),
  roles: async () => {
    const code = (ask: { from: string; to: string }) =>
      world.world.ask(ask).then(async (asked) => (await world.world.end(asked)).error?.code)
    expect(await code({ from: 'helper', to: 'lead' })).toBe('E013')
    await world.world.agentRecord('clerk', { subagent: false })
    await until(async () => (await code({ from: 'alice', to: 'clerk' })) === 'E001', { what: 'clerk is refused' })
  },
  description: same(() => record()?.description, 'helps'),
  skills: same(() => record()?.skills, ['ts']),
  defaults: same(() => control.lease_ms, 7_000),
  // The dispatcher makes the consumer in which its returns wait.
  durable_returns: async () => {
    await world.world.agentRecord('waiter', { subagent: false, durable_returns: { from: 1 } })
    const { bus } = world.world
    const made = async () => (await bus.inspect()).consumers.includes(bus.subjects.returnsConsumer('waiter'))
    await until(made, { what: 'returns wait for waiter' })
  },
  parts_bytes: async () => {
    await world.world.agentRecord('storer', { parts_bytes: 4_000_000 })
    const limited = async () => (await world.world.bus.partsUsage('storer'))?.max_bytes === 4_000_000
    await until(limited, { what: 'the bucket of storer has its limit' })
  },
  // Mallory was revoked; asking for more is refused, and the mark is in the record.
  revoked_at: async () => {
    const at = Date.now()
    await world.world.agentRecord('mallory', { subagent: false, revoked_at: at })
    const code = () => world.world.ask({ from: 'mallory', to: 'helper' }).then(async (asked) => (await world.world.end(asked)).error?.code)
    await until(async () => (await code()) === 'E013', { what: 'mallory is refused' })
  },
  registered_by: same(() => [record()?.registered_by, record('lead')?.registered_by], ['ops', 'lead']),
  updated_at: time(() => record()?.updated_at),
})
