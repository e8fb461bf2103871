import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { AgentWorld } from '../support/dispatcher/agents.js'
import { startProcess, type TestProcess } from '../support/processes/processes.js'
import { until } from '../support/processes/until.js'

/** The README's examples, run to the letter: two processes on a real server. */

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const README = readFileSync(join(ROOT, 'README.md'), 'utf8')

function example(name: string): string {
  const found = new RegExp(`<!-- example: ${name} -->\\n\`\`\`js\\n([\\s\\S]*?)\`\`\``).exec(README)
  if (!found?.[1]) throw new Error(`the README has no example ${name}`)
  return found[1]
}

let world: AgentWorld
let folder: string

beforeAll(async () => {
  world = await AgentWorld.start()
  // Below the repository, so that the packages are found as they are for a person who saves the files there.
  folder = mkdtempSync(join(ROOT, 'test', 'dist', 'readme-'))
})
afterAll(async () => {
  await world[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true, force: true })
})

function run(name: string): TestProcess {
  const path = join(folder, name)
  writeFileSync(path, example(name))
  return startProcess(path, { cwd: folder, env: { NATS_URL: world.world.nats.url, PASSOVER_AGENT: undefined } })
}

it('the subagent of the README answers the agent of the README', async () => {
  await using greeter = run('greeter.mjs')
  await untilRegistered(greeter)
  await using alice = run('alice.mjs')
  expect(await alice.line(/\S/)).toBe('completed Hello, world!')
  expect(await alice.exited).toEqual({ code: 0, signal: null })
})

it('docs/getting-started/first-agent.md shows the examples of the README', () => {
  const page = readFileSync(join(ROOT, 'docs/getting-started/first-agent.md'), 'utf8')
  for (const name of ['greeter.mjs', 'alice.mjs']) expect(page).toContain(example(name))
})

async function untilRegistered(greeter: TestProcess): Promise<void> {
  const asker = await world.agent('asker')
  const registered = async () => {
    if (!greeter.running) throw new Error(greeter.stderr)
    return JSON.stringify((await world.buses.get(asker)?.ask({ op: 'agents' })) ?? '').includes('"greeter"')
  }
  await until(registered, { what: 'greeter is registered' })
}
