import { fileURLToPath } from 'node:url'
import type { Handler } from '@passover/sdk'
import { startProcess } from '../processes/processes.js'
import { until } from '../processes/until.js'
import { type Bench, outcomeOf, type Row, slow } from './row.js'

/** Fields that bound the work itself and what may come of it. */

const tool =
  (tool_name: string): Handler =>
  () => ({ artifacts: [{ type: 'tool_result', tool_name, call_id: 'c1', input: {}, output: 'ok', status: 'success' }] })

const NUMBERED = { type: 'object', required: ['output'], properties: { output: { type: 'string', pattern: '^[0-9]+$' } } }

/** Others use this machine too: what is missed sooner must be so by more than a process waits for its turn. */
const LONG_LEASE_MS = 9_000

/** A worker takes the pass and is lost; another one is there. What became of it, and after how long it began anew. */
async function lost(bench: Bench): Promise<{ ended: string; attempt: number | undefined; soon: boolean }> {
  const first = await bench.all.agent(bench.to)
  let began = 0
  await first.onPass(() => {
    began = performance.now()
    return new Promise(() => undefined)
  })
  const pass = bench.ask({ timeout_ms: 120_000 })
  await until(() => began > 0, { what: 'the first worker began' })
  await bench.all.die(first)
  let again = 0
  await using _second = await bench.works(() => {
    again = performance.now()
    return 'done'
  })
  const ended = await pass.then(
    ({ status, metadata }) => ({ ended: status, attempt: metadata.attempt }),
    ({ code, context }) => ({ ended: code as string, attempt: context?.attempts as number | undefined }),
  )
  return { ...ended, soon: (again || performance.now()) - began < LONG_LEASE_MS - 500 }
}

const COMMAND = fileURLToPath(new URL('../../../packages/cli/bin/passover.js', import.meta.url))
const HOLDS_200_MB = 'const held = Buffer.alloc(200 << 20, 1); setTimeout(() => console.log(held.length), 1500)'

/** What became of a pass that a command with that script works on. */
async function commanded(bench: Bench, script: string): Promise<string> {
  const args = ['work', bench.to, '--server', bench.all.world.nats.url, '--', process.execPath, '-e', script]
  await using worker = startProcess(COMMAND, { args })
  await until(() => worker.stderr.includes('Working as'), { what: 'the command worker is there' })
  return await outcomeOf(bench.ask())
}

export const WORK: Row[] = [
  {
    field: 'max_compute_time_ms',
    what: 'the handler has no longer: E010',
    set: { subagent: { max_compute_time_ms: 300 } },
    run: (bench) => bench.outcome(slow(1_500)),
    standard: 'completed',
    changed: 'E010',
  },
  {
    field: 'max_memory_mb',
    what: 'a command that holds more is ended: E014',
    set: { subagent: { max_memory_mb: 150 } },
    run: (bench) => commanded(bench, HOLDS_200_MB),
    standard: 'completed',
    changed: 'E014',
  },
  {
    field: 'lease_ms',
    what: 'a lost worker is missed sooner',
    base: { subagent: { lease_ms: LONG_LEASE_MS } },
    set: { subagent: { lease_ms: 1_500 } },
    run: async (bench) => lost(bench),
    standard: { ended: 'completed', attempt: 2, soon: false },
    changed: { ended: 'completed', attempt: 2, soon: true },
  },
  {
    field: 'max_attempts',
    what: '1: a lost worker is the end (E011)',
    base: { subagent: { lease_ms: 500 } },
    set: { subagent: { max_attempts: 1 } },
    run: async (bench) => (await lost(bench)).ended,
    standard: 'completed',
    changed: 'E011',
  },
  {
    field: 'can_run_tools',
    what: 'false: a tool’s result is E013',
    set: { subagent: { can_run_tools: false } },
    run: (bench) => bench.outcome(tool('bash')),
    standard: 'completed',
    changed: 'E013',
  },
  {
    field: 'tools',
    what: 'a result of a tool that is not among them is E013',
    set: { subagent: { tools: ['read'] } },
    run: async (bench) => [await bench.outcome(tool('bash')), await bench.outcome(tool('read'))],
    standard: ['completed', 'completed'],
    changed: ['E013', 'completed'],
  },
  {
    field: 'output_schema',
    what: 'an output that fails it is E021',
    set: { subagent: { output_schema: NUMBERED } },
    run: async (bench) => [await bench.outcome(() => 'words'), await bench.outcome(() => '42')],
    standard: ['completed', 'completed'],
    changed: ['E021', 'completed'],
  },
  {
    field: 'validate_output',
    what: 'false: the schema is not applied',
    base: { subagent: { output_schema: NUMBERED } },
    set: { subagent: { validate_output: false } },
    run: (bench) => bench.outcome(() => 'words'),
    standard: 'E021',
    changed: 'completed',
  },
]
