import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type AgentRecord, agentRecord, type PassOverPreferences } from '@passover/schemas'
import { readPromptTemplate, renderPrompt, templateFor } from '@passover/sdk/internal'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { AgentWorld } from '../support/dispatcher/agents.js'
import { startProcess, type TestProcess } from '../support/processes/processes.js'
import { until } from '../support/processes/until.js'

/** The samples of the shipped prompts, rendered from a live registry and run to the letter: each agent a process on a real server. */

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
/** With it the first agent that alice may pass to is scout, whose first is audit. */
const POLICY: PassOverPreferences = { pairs: { 'alice->audit': { enabled: false } } }

let world: AgentWorld
let folder: string

beforeAll(async () => {
  world = await AgentWorld.start({ dispatchers: [{ policy: { version: 1, document: POLICY } }] })
  folder = mkdtempSync(join(ROOT, 'test', 'dist', 'prompts-'))
  await world.world.agentRecord('alice', { originates: 'always', subagent: false })
  for (const name of ['audit', 'scout']) await world.world.agent(name)
})
afterAll(async () => {
  await world?.[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true, force: true })
})

/** The prompt of an agent as the registry of this server makes it. */
async function promptOf(name: string): Promise<string> {
  const agents: AgentRecord[] = []
  for await (const { value } of (await world.world.bus.table('agents', agentRecord)).entries()) if (value) agents.push(value)
  const sources = { agents, policy: POLICY }
  return renderPrompt(readPromptTemplate(templateFor(name, sources)), name, sources)
}

/** Saves the samples of an agent's prompt, one after the other, as a program; gives its path. */
async function save(name: string): Promise<string> {
  const samples = [...(await promptOf(name)).matchAll(/```js\n([\s\S]*?)```/g)].map(([, code]) => code)
  const path = join(folder, `${name}.mjs`)
  writeFileSync(path, samples.join('\n'))
  return path
}

function run(path: string): TestProcess {
  return startProcess(path, { cwd: folder, env: { NATS_URL: world.world.nats.url, PASSOVER_AGENT: undefined } })
}

it('alice passes to scout, scout to audit, and what audit returns is told by alice, each by the samples of its own prompt', async () => {
  await using audit = run(await save('audit'))
  await using scout = run(await save('scout'))
  const { bus } = world.world
  const works = async (name: string) => (await bus.workload(name)).some(({ idle }) => idle > 0)
  await until(async () => (await works('audit')) && (await works('scout')), { what: `both work: ${audit.stderr} ${scout.stderr}` })
  await using alice = run(await save('alice'))
  expect(await alice.exited).toEqual({ code: 0, signal: null })
  expect(alice.stdout.trim().split('\n')).toEqual([
    'completed, needs_modification',
    'warning: sum subtracts',
    'proposes to change src/sum.ts: sum has to add',
  ])
})

it('a refusal reaches the sample as code, message and what to do', async () => {
  const path = await save('alice')
  await world.world.agentRecord('scout', { subagent: false })
  const refused = async () => (await world.world.end(await world.world.ask({ to: 'scout', timeout_ms: 1_000 }))).error?.code === 'E001'
  await until(refused, { what: 'the dispatcher knows it' })
  await using alice = run(path)
  expect(await alice.exited).toEqual({ code: 0, signal: null })
  expect(alice.stdout).toMatch(/^E001: .*To let it receive passes: (?:npx )?passover agents set scout --subagent$/m)
})
