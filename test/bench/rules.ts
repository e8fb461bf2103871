import { cpus } from 'node:os'
import { type AdmitInput, admit, foldJournal, LimitCounters, OpenPasses, resolvePolicy, validateChain } from '@passover/core'
import { type AgentRecord, type PassOverPreferences, passOverPreferences, type RequestControl } from '@passover/schemas'

/**
 * `npm run bench -- --rules`: what the pure rules cost, without server or stream, in µs of CPU time a call. Each is measured in
 * several rounds: the machine is noisy, and the median is held against the goal. `--rounds N` (default 7).
 */

interface Measure {
  what: string
  /** Calls a round. */
  calls: number
  /** µs, where there is one. */
  goal?: number
  /** Work of call n; called a few times before it is measured. */
  run: (n: number) => unknown
}

const AGENTS = 50
const name = (n: number) => `agent-${n % AGENTS}`

/** A document as a busy team has one: every pair of fifty agents with next ones, and an entry for each of them. */
function document(): PassOverPreferences {
  const pairs: Record<string, object> = {}
  const subagents: Record<string, object> = {}
  for (let n = 0; n < AGENTS; n += 1) {
    subagents[name(n)] = { can_modify_files: n % 2 === 0, tools: ['read', 'grep', 'edit'], max_active: 100, max_compute_time_ms: 60_000 }
    for (let step = 1; step <= 20; step += 1) {
      pairs[`${name(n)}->${name(n + step)}`] = {
        enabled: true,
        auto_return: true,
        timeout_ms: 60_000,
        tools: ['read', 'grep'],
        max_passes_per_minute: 1_000,
      }
    }
  }
  return passOverPreferences.parse({ defaults: { timeout_ms: 45_000, budget: { passes: 100 } }, pairs, subagents })
}

function record(agent: string): AgentRecord {
  return {
    name: agent,
    roles: { originates: 'always', subagent: true },
    registered_by: 'pat',
    updated_at: 1,
    defaults: { max_attempts: 2 },
  }
}

function admission(policy: PassOverPreferences, change: Partial<RequestControl> = {}): AdmitInput {
  const now = Date.now()
  const request: RequestControl = {
    id: 'an-id-without-time-1',
    originating_agent_id: name(0),
    subagent_id: name(1),
    reason: 'review',
    return_required: true,
    ...change,
  }
  return {
    request,
    subject: { originator: request.originating_agent_id, subagent: request.subagent_id },
    request_sequence: 7,
    requested_at: now,
    now: now + 1,
    parts: ['context', 'messages', ...Array.from({ length: 10 }, (_, n) => `file:src/${n}.ts`)].map((part) => ({
      name: part,
      hash: 'a'.repeat(64),
      size: 1_000,
    })),
    digest: 'd'.repeat(64),
    session_id: 'session',
    reply_type: 'msgpack',
    agents: { originator: record(request.originating_agent_id), subagent: record(request.subagent_id), open: false },
    policy: { version: 3, document: policy },
    id_window_ms: 3_600_000,
    return_id: 'return-1',
    counts: COUNTING.for({ originator: name(0), subagent: name(1), id: 'an-id-without-time-1' }),
  }
}

const OPEN = new OpenPasses({ id_window_ms: 3_600_000, look_after_ms: 5_000 })
const COUNTING = new LimitCounters(() => ({ open: OPEN, ready: true }), 7_200_000)

/** The same within a parent that is open. */
function childAdmission(policy: PassOverPreferences): AdmitInput {
  const above = admit(admission(policy))
  if (above.kind !== 'admit') throw new Error(`the parent was not admitted: ${JSON.stringify(above)}`)
  const { control } = above
  const key = { originator: name(0), subagent: name(1), id: control.id }
  const work = { type: 'step', kind: 'work', key, by: 'medium', sequence: 20, time: Date.now(), attempt: 0, timeout_ms: 30_000 } as const
  const { journal } = foldJournal([work], { id_window_ms: 3_600_000 })
  const parent = { ...key, return_id: control.return_id, proof: 20 }
  const child = admission(policy, { id: 'an-id-without-time-2', originating_agent_id: name(1), subagent_id: name(2), parent })
  return { ...child, parent: { journal, control } }
}

function measures(): Measure[] {
  const policy = document()
  const agent = record('agent-1')
  const pair = (n: number) => ({ from: name(n), to: name(n + 1), agent })
  const root = admission(policy)
  const own = admission(policy, { timeout_ms: 20_000 })
  const overridden = admission(policy, { override: { timeout_ms: 20_000, pass_files: false } })
  const child = childAdmission(policy)
  const short = { originator: 'b', subagent: 'c', ancestors: ['a'], max_chain_depth: 3 }
  const long = { originator: 'y', subagent: 'z', ancestors: Array.from({ length: 30 }, (_, n) => `above-${n}`), max_chain_depth: 32 }
  return [
    // Resolution is cached by document, so that a copy is as cold as a new version.
    { what: 'config resolution, cold (a new document)', calls: 4_000, goal: 50, run: (n) => resolvePolicy({ ...policy }, pair(n)) },
    { what: 'config resolution, known pair', calls: 200_000, goal: 50, run: (n) => resolvePolicy(policy, pair(n)) },
    {
      what: 'config resolution, own timeout_ms',
      calls: 100_000,
      goal: 50,
      run: (n) => resolvePolicy(policy, { ...pair(n), request: { timeout_ms: 20_000 } }),
    },
    {
      what: 'config resolution, inline override',
      calls: 20_000,
      goal: 50,
      run: (n) => resolvePolicy(policy, { ...pair(n), override: { timeout_ms: 20_000, notify_on_return: 'never' } }),
    },
    { what: 'chain validation, depth 2', calls: 100_000, goal: 100, run: () => validateChain(short) },
    { what: 'chain validation, depth 31', calls: 50_000, goal: 100, run: () => validateChain(long) },
    { what: 'admit(), a root pass', calls: 20_000, run: () => admitted(root) },
    { what: 'admit(), its own timeout_ms', calls: 20_000, run: () => admitted(own) },
    { what: 'admit(), inline override', calls: 20_000, run: () => admitted(overridden) },
    { what: 'admit(), a child with parent and proof', calls: 20_000, run: () => admitted(child) },
  ]
}

/** A refusal would be quick: no figure is better than a wrong one. */
function admitted(input: AdmitInput): unknown {
  const admission = admit(input)
  if (admission.kind !== 'admit') throw new Error(`not admitted: ${JSON.stringify(admission)}`)
  return admission
}

/** CPU time of this process, its garbage collection included: what other programs do meanwhile does not count. */
function micros({ calls, run }: Measure, first: number): number {
  const before = process.cpuUsage()
  for (let n = first; n < first + calls; n += 1) run(n)
  const { user, system } = process.cpuUsage(before)
  return (user + system) / calls
}

const asked = process.argv.indexOf('--rounds')
const rounds = (asked > 0 && Number(process.argv[asked + 1])) || 7
console.log(`${cpus().length} cores, Node ${process.version}, ${rounds} rounds; µs of CPU a call`)
console.log(`  ${' '.repeat(44)} ${'quickest'.padStart(9)} ${'median'.padStart(9)} ${'slowest'.padStart(9)}`)
for (const measure of measures()) {
  micros({ ...measure, calls: Math.ceil(measure.calls / 4) }, 0)
  const figures = Array.from({ length: rounds }, (_, round) => micros(measure, (round + 1) * measure.calls)).sort((a, b) => a - b)
  const [quickest = 0, median = 0, slowest = 0] = [figures[0], figures[Math.floor(rounds / 2)], figures.at(-1)]
  const mark = measure.goal === undefined ? ' ' : median < measure.goal ? '✓' : '✗'
  const goal = measure.goal === undefined ? '' : `   (< ${measure.goal})`
  const shown = [quickest, median, slowest].map((one) => one.toFixed(2).padStart(9)).join(' ')
  console.log(`${mark} ${measure.what.padEnd(44)} ${shown}${goal}`)
}
