import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { PassRow, WorkOutput } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  BIN,
  cli,
  Folder,
  isAlive,
  isRunning,
  json,
  openProject,
  type Project,
  pathWithout,
  run,
  type Spawned,
  until,
} from '../../support/fixtures/cli.js'

let project: Project
let cwd: string
/** Where commands may write: their directory is read-only for them, as their passes may not modify files. */
let out: Folder

beforeAll(async () => {
  out = new Folder()
  project = await openProject()
  cwd = project.cwd
})
afterAll(async () => {
  await project?.[Symbol.asyncDispose]()
  out[Symbol.dispose]()
})

async function worker(name: string, command: string[], args: string[] = []) {
  const started = cli(['work', name, ...args, '--', ...command], { cwd, env: { OUT: out.path } })
  await started.printed(`Working as ${name}`, 'stderr')
  return started
}

const ask = (to: string, objective: string, ...more: string[]) =>
  json<WorkOutput & { error: { code: string; message: string } }>(
    ['request', '--from', 'alice', '--to', to, '--objective', objective, ...more],
    { cwd },
  )

/** Does what the objective says, as a shell would. */
const SHELL = `objective=$(node -e "let t='';process.stdin.on('data',(c)=>t+=c).on('end',()=>process.stdout.write(JSON.parse(t).work_context.objective))"); eval "$objective"`

describe('a command as a subagent', () => {
  it('is told its pass on stdin and in its environment', async () => {
    await using _worker = await worker('envy', ['sh', '-c', 'cat; echo; env | grep ^PASSOVER_ | sort'])
    const { code, document } = await ask(
      'envy',
      'what do you know',
      '--reason',
      'curious',
      '--constraint',
      'read_only',
      '--priority',
      'high',
    )
    expect(code).toBe(0)
    const [line = '', ...rest] = document.output?.trim().split('\n') ?? []
    expect(JSON.parse(line)).toMatchObject({
      id: document.work_id,
      originating_agent_id: 'alice',
      subagent_id: 'envy',
      reason: 'curious',
      priority: 'high',
      constraints: ['read_only'],
      rights: { can_modify_files: false, can_run_tools: true, constraints: ['read_only'] },
      work_context: { objective: 'what do you know', files: [], messages: [] },
    })
    const env = Object.fromEntries(
      rest.filter(Boolean).map((pair) => [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)]),
    )
    expect(env).toMatchObject({
      PASSOVER_PASS_ID: document.work_id,
      PASSOVER_ORIGINATOR: 'alice',
      PASSOVER_AGENT: 'envy',
      PASSOVER_ATTEMPT: '1',
      PASSOVER_CHAIN: 'alice,envy',
      PASSOVER_CONSTRAINTS: 'read_only',
      PASSOVER_ENFORCED: expect.stringMatching(/^(read_only)?$/),
      PASSOVER_CAN_MODIFY_FILES: 'false',
      PASSOVER_CAN_RUN_TOOLS: 'true',
    })
  })

  it('ends its pass by how it ends', async () => {
    await using started = await worker('shell', ['bash', '-c', SHELL])
    expect(await ask('shell', 'echo plain text')).toMatchObject({ code: 0, document: { status: 'completed', output: 'plain text\n' } })
    expect(await ask('shell', `echo '{"status":"partial","summary":{"findings":["one"]}}'`, '--auto-return')).toMatchObject({
      code: 0,
      document: { status: 'partial', summary: { findings: ['one'] } },
    })
    expect(await ask('shell', `echo '{"status":"failed","completion_reason":"could not"}'; exit 3`)).toMatchObject({
      code: 1,
      document: { status: 'failed', completion_reason: 'could not' },
    })
    expect(await ask('shell', `echo '{"status":"done"}'`)).toMatchObject({ code: 1, document: { error: { code: 'E021' } } })
    const [unfit] = (await json<PassRow[]>(['list', '--to', 'shell', '--limit', '1'], { cwd })).document
    expect((await json(['show', unfit?.id ?? ''], { cwd })).document).toMatchObject({
      error: { code: 'E021', message: expect.stringContaining('status: must be one of completed') },
      raw_output: '{"status":"done"}\n',
    })
    const crashed = await ask('shell', 'echo half; echo the reason >&2; exit 7')
    expect(crashed).toMatchObject({
      code: 1,
      document: { error: { code: 'E011', message: expect.stringMatching(/exited with code 7: the reason/) } },
    })
    // The frames of the worker itself are not the command's.
    const [dead] = (await json<PassRow[]>(['list', '--to', 'shell', '--limit', '1'], { cwd })).document
    expect((await run(['show', dead?.id ?? ''], { cwd })).stdout).not.toMatch(/ at .*\.js/)
    expect(await ask('shell', 'kill -9 $$')).toMatchObject({
      code: 1,
      document: { error: { code: 'E011', message: expect.stringContaining('SIGKILL') } },
    })
    expect(await ask('shell', `echo '{"answer":42}'`)).toMatchObject({
      code: 0,
      document: { status: 'completed', output: '{"answer":42}\n' },
    })
    expect(started.stderr).toContain('| the reason')
  })

  it('is ended with all it started when its pass is: SIGTERM, then SIGKILL', async () => {
    await using _worker = await worker(
      'stubborn',
      ['bash', '-c', 'trap "" TERM; sleep 300 & echo $! > $OUT/child.pid; echo $$ > $OUT/shell.pid; wait; sleep 300'],
      ['--kill-after', '500ms'],
    )
    await using waiting = cli(
      ['request', '--from', 'alice', '--to', 'stubborn', '--objective', 'x', '--timeout', '120s', '--id', 'stubborn-pass-1'],
      { cwd },
    )
    const pid = (file: string) => Number(readFileSync(join(out.path, file), 'utf8') || 0)
    await until('the command runs', () => {
      try {
        return pid('shell.pid') > 0 && pid('child.pid') > 0
      } catch {
        return false
      }
    })
    expect(await run(['cancel', 'stubborn-pass-1'], { cwd })).toMatchObject({ code: 0 })
    expect(await waiting.ended).toMatchObject({ code: 1, stderr: expect.stringContaining('E043') })
    await until(
      'the command and its child are gone',
      () => !isRunning(pid('shell.pid'), out.path) && !isRunning(pid('child.pid'), out.path),
    )
  })

  /** The process ids that commands wrote to these files, once all are there. */
  async function pidsIn(...files: string[]): Promise<number[]> {
    let pids: number[] = []
    await until(`${files.join(', ')} say who runs`, () => {
      try {
        pids = files.map((file) => Number(readFileSync(join(out.path, file), 'utf8')))
        return pids.every((pid) => pid > 0)
      } catch {
        return false
      }
    })
    return pids
  }

  it('returns when it has ended, whatever it left running: that is killed, also where it ignores SIGTERM', async () => {
    await using _worker = await worker(
      'leaver',
      [
        'bash',
        '-c',
        '(trap "" TERM; echo $BASHPID > $OUT/left.pid; while :; do sleep 1; done) & while [ ! -s $OUT/left.pid ]; do sleep 0.05; done; echo done',
      ],
      ['--kill-after', '300ms'],
    )
    const { code, document } = await ask('leaver', 'x', '--timeout', '100s')
    expect(code, JSON.stringify(document)).toBe(0)
    expect(document.output).toBe('done\n')
    const [left = 0] = await pidsIn('left.pid')
    await until('what it left is gone', () => !isRunning(left, out.path))
  })

  it('ends with the pass above it: cancelling the root kills every command below, with all they started', async () => {
    const stays = (name: string) =>
      `(trap "" TERM; echo $BASHPID > $OUT/${name}.child; while :; do sleep 1; done) & trap "" TERM; echo $$ > $OUT/${name}.pid; wait; sleep 300`
    await using _lower = await worker('lower', ['bash', '-c', stays('lower')], ['--kill-after', '300ms'])
    const asking = `'${process.execPath}' '${BIN}' request --to lower --objective deeper --no-wait; ${stays('upper')}`
    await using _upper = await worker('upper', ['bash', '-c', asking], ['--kill-after', '300ms'])
    const asked = await json<{ id: string }>(
      ['request', '--from', 'alice', '--to', 'upper', '--objective', 'x', '--timeout', '100s', '--no-wait'],
      { cwd },
    )
    const pids = await pidsIn('upper.pid', 'upper.child', 'lower.pid', 'lower.child')
    expect(pids.every((pid) => isRunning(pid, out.path))).toBe(true)
    expect(await run(['cancel', asked.document.id, '--yes'], { cwd })).toMatchObject({ code: 0 })
    await until('all of them are gone', () => !pids.some((pid) => isRunning(pid, out.path)))
    const ended = async () => (await json<PassRow[]>(['list', '--to', 'lower'], { cwd })).document[0]
    await until('the one below has its end', async () => (await ended())?.status === 'cancelled')
    expect(await ended()).toMatchObject({ originator: 'upper', code: 'E043', parent: `alice/upper/${asked.document.id}` })
  })

  it('leaves no process behind when the worker is told to stop at once', async () => {
    await using started = await worker('sleeper', ['bash', '-c', 'echo $$ > $OUT/sleeper.pid; exec sleep 300'])
    await run(['request', '--from', 'alice', '--to', 'sleeper', '--objective', 'x', '--timeout', '120s', '--no-wait'], { cwd })
    await until('it runs', () => {
      try {
        return Number(readFileSync(join(out.path, 'sleeper.pid'), 'utf8')) > 0
      } catch {
        return false
      }
    })
    started.kill('SIGINT')
    await started.printed('Stopping: 1 pass running', 'stderr')
    await new Promise((again) => setTimeout(again, 200))
    started.kill('SIGINT')
    expect((await started.ended).code).toBe(130)
    await until('the command is gone', () => !isRunning(Number(readFileSync(join(out.path, 'sleeper.pid'), 'utf8')), out.path))
  })

  it('finishes what runs at the first Ctrl-C', async () => {
    await using started = await worker('finisher', [
      'bash',
      '-c',
      'touch $OUT/finisher.began; while [ ! -e $OUT/finisher.go ]; do sleep 0.05; done; echo finished',
    ])
    await using waiting = cli(['request', '--from', 'alice', '--to', 'finisher', '--objective', 'x', '--timeout', '120s'], { cwd })
    await started.printed('from alice', 'stderr')
    started.kill('SIGINT')
    await started.printed('Stopping', 'stderr')
    writeFileSync(join(out.path, 'finisher.go'), '')
    expect(await waiting.ended).toMatchObject({ code: 0, stdout: expect.stringContaining('finished') })
    expect(await started.ended).toMatchObject({ code: 0, stderr: expect.stringContaining('Stopped after 1 pass.') })
  })

  it('passes over in its turn as a child of its pass, and not without it', async () => {
    await using _leaf = await worker('leaf', ['sh', '-c', 'echo from the leaf'])
    const child = (extra: string) =>
      `${extra} '${process.execPath}' '${BIN}' request --from middle --to leaf --objective deeper --id "$PASSOVER_PASS_ID-c"`
    await using _middle = await worker('middle', ['bash', '-c', SHELL])
    const { code, document } = await ask('middle', child(''))
    expect(code).toBe(0)
    expect(document.output).toContain('from the leaf')
    const rows = (await json<PassRow[]>(['list', '--to', 'leaf'], { cwd })).document
    expect(rows).toMatchObject([{ originator: 'middle', subagent: 'leaf', chain_depth: 2, parent: `alice/middle/${document.work_id}` }])
    const forged = await ask('middle', child('env -u PASSOVER_PARENT'))
    expect(forged.document.error).toMatchObject({ code: 'E011', message: expect.stringContaining('E013') })
    const loop = await ask('middle', `'${process.execPath}' '${BIN}' request --to middle --objective again`)
    expect(loop.document.error).toMatchObject({ code: 'E011', message: expect.stringContaining('E003') })
  })

  it('works on several at a time when told so', async () => {
    await using _worker = await worker(
      'pair',
      ['bash', '-c', 'cd $OUT; touch "pair.$PASSOVER_PASS_ID"; while [ "$(ls pair.* | wc -l)" -lt 2 ]; do sleep 0.05; done; echo met'],
      ['--concurrency', '2'],
    )
    const both = await Promise.all([ask('pair', 'x', '--timeout', '120s'), ask('pair', 'x', '--timeout', '120s')])
    expect(both.map(({ document }) => document.output)).toEqual(['met\n', 'met\n'])
  })

  it('is told and counted as its pass ended, not as it did itself', async () => {
    const much = `JSON.stringify({ status: 'completed', summary: { findings: Array(40).fill('x'.repeat(60_000)) } })`
    const started = cli(['work', 'wordy', '--json', '--', process.execPath, '-e', `process.stdout.write(${much})`], { cwd })
    await started.printed('Working as wordy', 'stderr')
    expect(await ask('wordy', 'x')).toMatchObject({ code: 1, document: { error: { code: 'E014' } } })
    started.kill('SIGINT')
    expect(JSON.parse((await started.ended).stdout)).toEqual({
      agent: 'wordy',
      passes: 1,
      completed: 0,
      failed: 1,
      discarded: 0,
      sandbox: expect.arrayContaining([expect.objectContaining({ constraint: 'read_only', level: expect.any(String) })]),
    })
  })

  it('is spoken of in JSON lines on request', async () => {
    const started = cli(['work', 'liner', '--jsonl', '--', 'cat'], { cwd })
    await started.printed('Working', 'stderr')
    await ask('liner', 'x')
    started.kill('SIGINT')
    const events = (await started.ended).stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).event)
    expect(events).toEqual(['began', 'ended'])
  })
})

describe('a command of a worker without namespaces', () => {
  it('is blamed for what it writes to .passover, and not for what the server writes there', async () => {
    const env = { PATH: pathWithout(['bwrap', 'unshare', 'setpriv'], out.path) }
    // Its request is stored by the server before it ends.
    const asks = `unset PASSOVER_PARENT; exec '${process.execPath}' '${BIN}' request nobody x --from alice --timeout 1s --no-wait`
    await using bare = cli(['work', 'bare', '--', 'sh', '-c', asks], { cwd, env })
    await bare.printed(/read_only.* best effort +changed files are detected/, 'stderr')
    expect(await ask('bare', 'x')).toMatchObject({ code: 0, document: { status: 'completed' } })
    await using hostile = cli(['work', 'hostile', '--', 'sh', '-c', 'echo > .passover/planted'], { cwd, env })
    await hostile.printed(/read_only.* best effort/, 'stderr')
    expect(await ask('hostile', 'x')).toMatchObject({
      document: { error: { code: 'E013', message: expect.stringContaining('.passover/planted') } },
    })
  })
})

describe('several workers under one command', () => {
  const childrenOf = ({ child: { pid } }: Spawned) =>
    readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number)
  const start = async (name: string, ...args: string[]) => {
    const started = cli(['work', name, '--replicas', '2', ...args, '--', 'cat'], { cwd, env: { OUT: out.path } })
    for (const number of [1, 2]) await started.printed(new RegExp(`^${number} \\| Working as ${name}`, 'm'), 'stderr')
    return started
  }

  it('are counted, started again when they die, and end together', async () => {
    await using started = await start('twin', '--json')
    const up = async () =>
      (await json<{ name: string; up: number }[]>(['agents'], { cwd })).document.find(({ name }) => name === 'twin')?.up
    await until('both are counted', async () => (await up()) === 2)
    const [first = 0, second = 0] = childrenOf(started)
    process.kill(first, 'SIGKILL')
    await started.printed(/^(\d) \| ended \(SIGKILL\); restarting it in 500 ms$[\s\S]*^\1 \| Working as twin/m, 'stderr')
    expect(started.stderr.match(/Sandbox for commands/g)).toHaveLength(1)
    const now = childrenOf(started)
    expect(now).toHaveLength(2)
    expect(now).toContain(second)
    expect((await ask('twin', 'x')).code).toBe(0)
    started.kill('SIGTERM')
    const { code, stdout } = await started.ended
    expect({ code, document: JSON.parse(stdout) }).toMatchObject({
      code: 0,
      document: { agent: 'twin', replicas: 2, restarts: 1, passes: 1, completed: 1 },
    })
    expect(now.filter(isAlive)).toEqual([])
  })

  it('end when the command is killed', async () => {
    await using started = await start('orphan')
    const workers = childrenOf(started)
    started.kill('SIGKILL')
    await until('they are gone', () => workers.every((pid) => !isAlive(pid)))
  })

  it('are not started over and over where none can work: one error, and its exit code', async () => {
    const args = ['work', 'never', '--replicas', '2', '--server', 'nats://127.0.0.1:1', '--', 'cat']
    const { code, stdout } = await run(['--json', ...args], { cwd })
    expect({ code, document: JSON.parse(stdout) }).toMatchObject({ code: 5, document: { error: { code: 'E040' } } })
  })
})
