import { randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openBus } from '@passover/bus'
import type { HandlerResult } from '@passover/schemas'
import { createAgent } from '@passover/sdk/internal'
import { clockOf } from '../dispatcher/dispatcher.js'
import { until } from '../processes/until.js'
import { type Bench, outcomeOf, type Row } from './row.js'

/** Fields that decide what becomes of a return. */

/** Whether a return is delivered, or waits for a person. */
async function delivered(bench: Bench, result: HandlerResult): Promise<string> {
  await using _worker = await bench.works(() => result)
  const pass = bench.ask({ timeout_ms: 20_000 })
  let ended: string | undefined
  void outcomeOf(pass).then((outcome) => {
    ended = outcome
  })
  return await until(async () => ended ?? ((await pass.status()) === 'awaiting_release' ? 'awaiting_release' : undefined), {
    what: 'it returned',
  })
}

/** What became of a change that request and output want applied at once, in the originator's directory. */
async function autoApplied(bench: Bench): Promise<{ ended: string; file: string }> {
  const directory = await mkdtemp(join(tmpdir(), 'fields-'))
  const bus = await openBus({ servers: bench.all.world.nats.servers, identity: 'alice', onError: () => undefined })
  const random = { bytes: (n: number) => randomBytes(n) }
  await using alice = createAgent({ bus, clock: clockOf(bus), random }, { directory, autoApply: true })
  await using _worker = await bench.works(() => ({
    auto_apply_allowed: true,
    artifacts: [{ type: 'file_modification', path: 'a', old_content: 'old', new_content: 'new', reason: 'r', confidence: 'high' }],
  }))
  try {
    await writeFile(join(directory, 'a'), 'old')
    const work_context = { objective: 'change it' }
    const ended = await outcomeOf(alice.passOver({ subagent: bench.to, reason: 'row', work_context, auto_apply_on_success: true }))
    return { ended, file: await readFile(join(directory, 'a'), 'utf8') }
  } finally {
    await rm(directory, { recursive: true })
  }
}

/** Of two returns, one with a finding and one without, those that the originator is told of. */
async function told(bench: Bench): Promise<string[]> {
  const bus = await openBus({ servers: bench.all.world.nats.servers, identity: 'alice', onError: () => undefined })
  const random = { bytes: (n: number) => randomBytes(n) }
  const heard: string[] = []
  const alice = createAgent(
    { bus, clock: clockOf(bus), random },
    { directory: '/p', notify: ({ output }) => void heard.push(String(output?.output)) },
  )
  await using _worker = await bench.works(({ objective }) => ({
    output: objective,
    artifacts: objective === 'found' ? [{ type: 'finding', severity: 'info', category: 'c', message: 'm' }] : [],
  }))
  for (const objective of ['found', 'fine']) await alice.passOver({ subagent: bench.to, reason: 'row', work_context: { objective } })
  // A closing agent has told what was to be told.
  await alice[Symbol.asyncDispose]()
  return heard
}

/** All that auto-apply takes, but for what a row sets. */
const AT_ONCE = { auto_apply: true, require_user_approval: false, can_modify_files: true }
const without = (field: keyof typeof AT_ONCE) => {
  const { [field]: _, ...pair } = AT_ONCE
  return { pair, subagent: { can_modify_files: true } }
}

export const RETURNING: Row[] = [
  {
    field: 'auto_return',
    what: 'true: delivered also with something critical in it',
    set: { pair: { auto_return: true } },
    run: (bench) => delivered(bench, { artifacts: [{ type: 'finding', severity: 'error', category: 'c', message: 'critical' }] }),
    standard: 'awaiting_release',
    changed: 'completed',
  },
  {
    field: 'auto_review',
    what: 'true: delivered also when rejected, if nothing critical was found',
    set: { pair: { auto_review: true } },
    run: async (bench) => [
      await delivered(bench, { summary: { decision: 'rejected' } }),
      await delivered(bench, { artifacts: [{ type: 'finding', severity: 'error', category: 'c', message: 'critical' }] }),
    ],
    standard: ['awaiting_release', 'awaiting_release'],
    changed: ['completed', 'awaiting_release'],
  },
  {
    field: 'auto_apply',
    what: 'a request may ask for application at once only where it is true',
    base: without('auto_apply'),
    set: { pair: { auto_apply: true } },
    run: autoApplied,
    standard: { ended: 'E013', file: 'old' },
    changed: { ended: 'completed', file: 'new' },
  },
  {
    field: 'require_user_approval',
    what: 'false: nobody has to be asked before changes are applied',
    base: without('require_user_approval'),
    set: { pair: { require_user_approval: false } },
    run: autoApplied,
    standard: { ended: 'completed', file: 'old' },
    changed: { ended: 'completed', file: 'new' },
  },
  {
    field: 'can_modify_files',
    what: 'false: changes are proposals and never applied at once',
    base: { pair: without('can_modify_files').pair },
    set: { pair: { can_modify_files: true }, subagent: { can_modify_files: true } },
    run: autoApplied,
    standard: { ended: 'completed', file: 'old' },
    changed: { ended: 'completed', file: 'new' },
  },
  {
    field: 'notify_on_return',
    what: 'only_issues: of a return without findings nobody is told',
    set: { pair: { notify_on_return: 'only_issues' } },
    run: told,
    standard: ['found', 'fine'],
    changed: ['found'],
  },
  {
    field: 'notify_on_return',
    what: 'never',
    set: { pair: { notify_on_return: 'never' } },
    run: told,
    standard: ['found', 'fine'],
    changed: [],
  },
]
