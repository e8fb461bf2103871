import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { WorkOutput } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { BIN, cli, Folder, isRunning, pathWithout, Spawned, until } from '../../support/fixtures/cli.js'

/** What a command's pass may do and use, held by the system itself: real processes, as root and as an ordinary user. */

const document = {
  subagents: {
    writer: { can_modify_files: true },
    eater: { max_memory_mb: 80 },
    herd: { max_memory_mb: 200 },
    slow: { max_compute_time_ms: 700 },
    tooled: { tools: ['ls', 'git'] },
  },
}
const isLinux = process.platform === 'linux'
const isRoot = process.getuid?.() === 0
const NOBODY = 65_534

let world: AgentWorld
let folder: Folder
let out: Folder
beforeAll(async () => {
  world = await AgentWorld.start({ dispatchers: [{ policy: { version: 1, document } }] })
  folder = new Folder()
  out = new Folder()
  for (const { path } of [folder, out]) chmodSync(path, 0o777)
  writeFileSync(join(folder.path, 'kept.txt'), 'as it was\n')
  chmodSync(join(folder.path, 'kept.txt'), 0o666)
})
afterAll(async () => {
  await world?.[Symbol.asyncDispose]()
  folder?.[Symbol.dispose]()
  out?.[Symbol.dispose]()
})

type Failure = { code: string; message: string; context?: Record<string, unknown> }

const server = () => [world.world.nats.servers].flat()[0] ?? ''

async function working(name: string, script: string, how: { env?: NodeJS.ProcessEnv; args?: string[] } = {}): Promise<Spawned> {
  const args = ['work', name, '--server', server(), ...(how.args ?? []), '--', 'bash', '-c', script]
  const started = cli(args, { cwd: folder.path, env: { OUT: out.path, ...how.env } })
  await started.printed(`Working as ${name}`, 'stderr')
  return started
}

async function ask(subagent: string, more: { constraints?: string[]; timeout_ms?: number } = {}) {
  const alice = await world.agent('alice')
  const handle = alice.passOver({ subagent, reason: 'x', work_context: { objective: 'y' }, ...more })
  return handle.then(
    (output: WorkOutput) => ({ id: handle.id, output, error: undefined }),
    (error: unknown) => ({ id: handle.id, output: undefined, error: error as Failure }),
  )
}

const pidIn = (file: string) => {
  const path = join(out.path, file)
  return existsSync(path) ? Number(readFileSync(path, 'utf8')) : 0
}

/** A machine without namespaces. */
const bareTools = () => pathWithout(['bwrap', 'unshare', 'setpriv'], out.path)
const hasBubblewrap = spawnSync('bwrap', ['--ro-bind', '/', '/', 'true']).status === 0

describe('files', () => {
  const WRITES = 'echo changed > kept.txt; echo new > new.txt; echo "$PASSOVER_ENFORCED"'

  it.runIf(isLinux)('cannot be changed by a command whose pass may not: the directory is read-only', async () => {
    await using worker = await working('reader', WRITES)
    const { output } = await ask('reader')
    expect(output?.output).toBe(hasBubblewrap ? 'read_only\n' : '\n')
    expect(readFileSync(join(folder.path, 'kept.txt'), 'utf8')).toBe('as it was\n')
    expect(existsSync(join(folder.path, 'new.txt'))).toBe(false)
    expect(worker.stderr).toMatch(hasBubblewrap ? /read_only +enforced +bubblewrap/ : /read_only +best effort +unshare/)
  })

  it.runIf(isLinux)('say why a command failed that could not write them', async () => {
    await using _worker = await working('surprised', 'set -e; echo x > new.txt')
    expect((await ask('surprised')).error).toMatchObject({ code: 'E011', message: expect.stringContaining('can_modify_files') })
  })

  it('that a command changed where they cannot be protected are E013, named, with what it said', async () => {
    await using worker = await working('free', 'cat kept.txt; echo changed > kept.txt; echo new > new.txt', { env: { PATH: bareTools() } })
    const { error } = await ask('free')
    expect(error).toMatchObject({
      code: 'E013',
      context: { field: 'can_modify_files', files: ['kept.txt', 'new.txt'], raw_output: 'as it was\n' },
    })
    expect(worker.stderr).toMatch(/read_only +best effort +changed files are detected afterwards/)
    writeFileSync(join(folder.path, 'kept.txt'), 'as it was\n')
  })

  it('may be changed by a command whose pass may, unless the request says read_only', async () => {
    await using _worker = await working('writer', 'echo changed > kept.txt; echo "[$PASSOVER_ENFORCED]"; cat kept.txt')
    expect((await ask('writer')).output?.output).toBe('[]\nchanged\n')
    writeFileSync(join(folder.path, 'kept.txt'), 'as it was\n')
    expect((await ask('writer', { constraints: ['read_only'] })).output?.output).toBe(`[${hasBubblewrap ? 'read_only' : ''}]\nas it was\n`)
  })
})

describe('the network', () => {
  const REACHES = `if (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null; then echo reached; else echo "cut off by $PASSOVER_ENFORCED"; fi`
  const port = () => new URL(server()).port

  it.runIf(isLinux)('is not there for a command whose pass may make no external calls', async () => {
    await using _worker = await working('caller', REACHES, { env: { PORT: port() } })
    expect((await ask('caller')).output?.output).toBe('reached\n')
    expect((await ask('caller', { constraints: ['no_external_calls'] })).output?.output).toBe(
      `cut off by ${hasBubblewrap ? 'read_only,no_external_calls' : ''}\n`,
    )
  })

  it('is left to the command where it cannot be cut, and the worker says so', async () => {
    await using worker = await working('trusted', REACHES, { env: { PORT: port(), PATH: bareTools() } })
    expect((await ask('trusted', { constraints: ['no_external_calls'] })).output?.output).toBe('reached\n')
    expect(worker.stderr).toMatch(/no_external_calls +not enforced/)
  })
})

describe.runIf(isLinux)('memory', () => {
  const EATS = (mb: number) =>
    `node -e "const held=[];for(let n=0;n<${mb};n++)held.push(Buffer.alloc(1<<20,1));setTimeout(()=>console.log('kept '+held.length),5000)"`

  it('over max_memory_mb ends the pass with E014, with limit and measure', async () => {
    await using _worker = await working('eater', EATS(300))
    const { error } = await ask('eater')
    expect(error).toMatchObject({ code: 'E014', context: { field: 'max_memory_mb', limit_mb: 80, measured_mb: expect.any(Number) } })
    expect(Number(error?.context?.measured_mb)).toBeGreaterThanOrEqual(80)
  })

  it('is that of all processes of the command together, also of one that left the group', async () => {
    const script = `setsid ${EATS(120)} & echo $! > $OUT/herd.pid; ${EATS(120)} & wait`
    await using _worker = await working('herd', script)
    expect((await ask('herd')).error).toMatchObject({ code: 'E014', context: { limit_mb: 200 } })
    await until('all of it is gone', () => !isRunning(pidIn('herd.pid'), out.path))
  })
})

describe('the end of a pass', () => {
  const STAYS = 'trap "" TERM; (trap "" TERM; sleep 300) & echo $! > $OUT/child.pid; echo $$ > $OUT/leader.pid; wait; sleep 300'
  const KILLS = 'sleep 300 & echo $! > $OUT/hasty-child.pid; echo $$ > $OUT/hasty.pid; kill -KILL $PPID; sleep 300'
  const gone = () =>
    until('command and child are gone', () => !isRunning(pidIn('leader.pid'), out.path) && !isRunning(pidIn('child.pid'), out.path))
  const there = () => until('the command runs', () => isRunning(pidIn('leader.pid'), out.path) && isRunning(pidIn('child.pid'), out.path))

  it('by max_compute_time_ms is E010, and reaches the whole group, SIGKILL after SIGTERM', async () => {
    await using _worker = await working('slow', STAYS, { args: ['--kill-after', '300ms'] })
    expect((await ask('slow')).error).toMatchObject({ code: 'E010' })
    await gone()
  })

  it('by a kill of the worker itself leaves no orphan', async () => {
    await using worker = await working('killed', STAYS)
    const asked = ask('killed', { timeout_ms: 120_000 })
    await there()
    worker.kill('SIGKILL')
    await gone()
    await using _again = await working('killed', 'echo again')
    expect((await asked).output?.output).toBe('again\n')
  })

  // Fails if a command starts before the guardian knows its group. In a PID namespace a command cannot kill its worker.
  it('by a kill of the worker in the moment in which its first command begins leaves no orphan either', async () => {
    const once = `if [ -e $OUT/hasty.pid ]; then echo again; else ${KILLS}; fi`
    await using _worker = await working('hasty', once, { env: { PATH: bareTools() } })
    const asked = ask('hasty', { timeout_ms: 120_000 })
    await until('it ran', () => existsSync(join(out.path, 'hasty.pid')))
    await until(
      'command and child are gone',
      () => !isRunning(pidIn('hasty.pid'), out.path) && !isRunning(pidIn('hasty-child.pid'), out.path),
    )
    await using _again = await working('hasty', once)
    expect((await asked).output?.output).toBe('again\n')
  })
})

it('a command is told which tools it may run', async () => {
  await using _worker = await working('tooled', 'cat; echo "$PASSOVER_CAN_RUN_TOOLS $PASSOVER_TOOLS"')
  const { output } = await ask('tooled')
  const [request = '', told] = output?.output?.split('\n') ?? []
  expect(JSON.parse(request)).toMatchObject({ rights: { can_run_tools: true, tools: ['ls', 'git'] } })
  expect(told).toBe('true ls,git')
})

/** What root may, an ordinary user does by a user namespace of its own. */
describe.runIf(isLinux && isRoot)('as an ordinary user', () => {
  it('files and network are held too', async () => {
    const script =
      'id -u; echo changed > kept.txt; if (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null; then echo reached; else echo "$PASSOVER_ENFORCED"; fi'
    const { spawn } = await import('node:child_process')
    const line = ['--reuid', `${NOBODY}`, '--regid', `${NOBODY}`, '--clear-groups', process.execPath, BIN]
    const child = spawn('setpriv', [...line, 'work', 'unprivileged', '--server', server(), '--', 'bash', '-c', script], {
      cwd: folder.path,
      env: { ...process.env, HOME: out.path, PORT: new URL(server()).port },
    })
    await using worker = new Spawned(child)
    await worker.printed('Working as unprivileged', 'stderr')
    const namespaces = spawnSync('setpriv', ['--reuid', `${NOBODY}`, '--clear-groups', 'unshare', '--user', 'true']).status === 0
    const { output, error } = await ask('unprivileged', { constraints: ['no_external_calls'] })
    const enforced = hasBubblewrap ? 'read_only,no_external_calls' : ''
    if (namespaces) expect(output?.output).toBe(`${NOBODY}\n${enforced}\n`)
    else expect(error).toMatchObject({ code: 'E013', context: { files: ['kept.txt'] } })
  })
})
