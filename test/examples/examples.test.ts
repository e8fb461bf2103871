import { spawn } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { BIN, cleanEnvironment, cli, type Ended, ROOT, Spawned } from '../support/fixtures/cli.js'
import { freePorts } from '../support/servers/ports.js'

/** Runs the examples by the commands of their READMEs, on one server with `passover up --http` and a webhook. */

const SECRET = 'at-least-16-characters'
const WORKS = /waiting for work|Working as/
/** Below the repository, so that the packages are found as they are for a person who runs the examples there. */
let folder: string
let up: Spawned
let receiver: Spawned
const workers = new Map<string, Spawned>()

beforeAll(async () => {
  folder = mkdtempSync(join(ROOT, 'test', 'dist', 'examples-'))
  // A repository of its own: the server that another test runs for this one is not found from here.
  mkdirSync(join(folder, '.git'))
  cpSync(join(ROOT, 'examples'), folder, { recursive: true, filter: (path) => !path.endsWith('/dist') })
  const [port] = await freePorts(1)
  receiver = start(commandOf('webhook-receiver', 'receiver.mjs'), { PORT: String(port), PASSOVER_WEBHOOK_SECRET: SECRET })
  const env = { PASSOVER_WEBHOOK_URL: `http://127.0.0.1:${port}/`, PASSOVER_WEBHOOK_SECRET: SECRET }
  up = cli(['up', '--http', '0'], { cwd: folder, env })
  await Promise.all([up.printed('openapi.json', 'stdout', 120_000), receiver.printed('listening')])
})
afterAll(async () => {
  await Promise.all([...workers.values(), receiver].map((one) => one?.[Symbol.asyncDispose]()))
  await up?.[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
})

const read = (path: string) => readFileSync(join(folder, path), 'utf8')

/** The command of an example's README that contains this text. */
function commandOf(example: string, text: string): string {
  const [, block = ''] = /## Run\n[\s\S]*?```sh\n([\s\S]*?)```/.exec(read(`${example}/README.md`)) ?? []
  const found = block.split('\n').find((line) => line.includes(text))
  if (!found) throw new Error(`the README of ${example} has no command with ${text}`)
  return found.replace(/\s+#.*$/, '')
}

/** What an example prints according to its README. */
function outputOf(example: string): string {
  const [, block = ''] = /```text\n([\s\S]*?)```/.exec(read(`${example}/README.md`)) ?? []
  return block
}

/** `npx passover` is the command of this clone. A group of its own: a signal to the shell alone would leave its child. */
function start(command: string, env: NodeJS.ProcessEnv = {}): Spawned {
  const line = command.replaceAll('npx passover', `'${process.execPath}' '${BIN}'`)
  const child = spawn('sh', ['-c', line], { cwd: folder, env: cleanEnvironment(env), stdio: ['ignore', 'pipe', 'pipe'], detached: true })
  child.kill = (signal) => process.kill(-(child.pid ?? 0), signal)
  return new Spawned(child)
}

function run(command: string, env?: NodeJS.ProcessEnv): Promise<Ended> {
  return start(command, env).ended
}

/** Starts the worker of an example, if it does not run yet, and waits until it takes work. */
async function work(example: string, text: string): Promise<void> {
  const command = commandOf(example, text)
  const worker = workers.get(command) ?? start(command)
  workers.set(command, worker)
  await worker.printed(WORKS, 'stderr')
}

const lineOf = (output: string) => /^\S+/.exec(output)?.[0] ?? ''

it('has a test for each example, and lists each', () => {
  const source = readFileSync(join(ROOT, 'test', 'examples', 'examples.test.ts'), 'utf8')
  const folders = readdirSync(join(ROOT, 'examples'), { withFileTypes: true }).filter((one) => one.isDirectory())
  expect(folders.length).toBe(8)
  for (const { name } of folders) {
    expect(source).toContain(`it('${name}: `)
    expect(read('README.md')).toContain(`[${name}](${name}/README.md)`)
  }
})

it('hello: the subagent answers the agent, and both are those of the README of the repository', async () => {
  await work('hello', 'greeter.mjs')
  expect(await run(commandOf('hello', 'alice.mjs'))).toMatchObject({ code: 0, stdout: outputOf('hello') })
  const page = readFileSync(join(ROOT, 'README.md'), 'utf8')
  for (const name of ['greeter.mjs', 'alice.mjs']) expect(page).toContain(read(`hello/${name}`))
})

it('typescript-project: it compiles, and the findings arrive; without a reviewer it says what to do', async () => {
  const built = await run(commandOf('typescript-project', 'run build'))
  expect(built, built.stdout).toMatchObject({ code: 0 })
  const alice = commandOf('typescript-project', 'run alice')
  expect(await run(alice)).toMatchObject({ code: 1, stderr: expect.stringMatching(/^E001: .*reviewer.*passover agents/m) })
  await work('typescript-project', 'run reviewer')
  const { code, stdout } = await run(alice)
  expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringContaining(outputOf('typescript-project')) })
})

it('shell-worker: the script answers, and its exit code fails the pass', async () => {
  await work('shell-worker', 'passover work')
  const [heard, whispered] = await Promise.all([run(commandOf('shell-worker', 'be heard')), run(commandOf('shell-worker', '"whisper"'))])
  expect(heard).toMatchObject({ code: 0, stdout: expect.stringContaining('BE HEARD') })
  expect(whispered.code).toBe(1)
  expect(whispered.stdout + whispered.stderr).toMatch(/I cannot whisper.*E011/)
})

it('approval-and-apply: a change is written once a person approved it, and can be undone', async () => {
  const before = read('approval-and-apply/basket.js')
  await work('approval-and-apply', 'fixer.mjs')
  const asked = await run(commandOf('approval-and-apply', 'ask.mjs'))
  expect(asked, asked.stderr).toMatchObject({ code: 0, stdout: expect.stringMatching(/^\S+ proposes to change basket.js: typo\n$/) })
  const of = (text: string) => commandOf('approval-and-apply', text).replace('<id>', lineOf(asked.stdout))
  expect(await run(of('apply.mjs'))).toMatchObject({ code: 1, stdout: '', stderr: expect.stringMatching(/^E013 /m) })
  expect(read('approval-and-apply/basket.js')).toBe(before)
  // A person is asked at a terminal; this answers.
  const approved = await run(`${of('passover approve')} --yes`)
  expect(approved, approved.stderr).toMatchObject({ code: 0 })
  expect(await run(of('apply.mjs'))).toMatchObject({ code: 0, stdout: 'wrote basket.js\n' })
  expect(read('approval-and-apply/basket.js')).toBe(before.replace('lenght', 'length'))
  const undone = await run(of('passover undo'))
  expect(undone, undone.stderr).toMatchObject({ code: 0 })
  expect(read('approval-and-apply/basket.js')).toBe(before)
})

it('durable-returns: what came back while the agent was away arrives when it is back', async () => {
  await work('durable-returns', 'translator.mjs')
  const asked = await run(commandOf('durable-returns', 'ask.mjs'))
  expect(asked, asked.stderr).toMatchObject({ code: 0, stdout: expect.stringMatching(/^asked \S+\n$/) })
  const id = asked.stdout.trim().slice('asked '.length)
  const collected = await run(commandOf('durable-returns', 'collect.mjs'))
  expect(collected).toMatchObject({ code: 0, stdout: outputOf('durable-returns').replace('<id>', id) })
})

it('http-client: a program with a token passes work over HTTP', async () => {
  await work('hello', 'greeter.mjs')
  const added = await run(commandOf('http-client', 'token add'))
  const token = /pso_\S+/.exec(added.stdout)?.[0] ?? ''
  const [, url = ''] = /HTTP API at (http:\S+)\/openapi.json/.exec(up.stdout) ?? []
  const client = commandOf('http-client', 'client.mjs')
  expect(await run(client.replace('<token>', token), { GATEWAY_URL: url })).toMatchObject({ code: 0, stdout: outputOf('http-client') })
  expect(await run(client.replace('<token>', 'none'), { GATEWAY_URL: url })).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('E013'),
  })
})

it('webhook-receiver: it prints a signed notification, and refuses one without a signature', async () => {
  await work('hello', 'greeter.mjs')
  await run(commandOf('hello', 'alice.mjs'))
  const [before = '', after = ''] = outputOf('webhook-receiver').trim().split('<id>')
  await receiver.printed(new RegExp(`^${before}\\S+${after}$`, 'm'))
  const [, port] = /listening at port (\d+)/.exec(receiver.stdout) ?? []
  const forged = await fetch(`http://127.0.0.1:${port}/`, { method: 'POST', body: '{"event":"return"}' })
  expect({ status: forged.status, text: await forged.text() }).toEqual({ status: 401, text: 'no signature' })
})

it('fan-out: a subagent adds up what three children returned', async () => {
  await Promise.all([work('fan-out', 'counter.mjs'), work('fan-out', 'editor.mjs')])
  expect(await run(commandOf('fan-out', 'alice.mjs'))).toMatchObject({ code: 0, stdout: outputOf('fan-out') })
  const { stdout } = await cli(['list', '--to', 'counter', '--json'], { cwd: folder }).ended
  expect(JSON.parse(stdout)).toMatchObject(Array(3).fill({ originator: 'editor', subagent: 'counter' }))
})
