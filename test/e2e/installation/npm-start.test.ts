import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type { PassRow } from '@passover/schemas'
import { afterAll, describe, expect, it } from 'vitest'
import { cleanEnvironment, json, ROOT, run, Spawned, until } from '../../support/fixtures/cli.js'

/** `npm start` uses the repository's own `.passover/`; these tests run one after the other. */
function start(...args: string[]): Spawned {
  const { NATS_URL, ...env } = process.env
  return new Spawned(
    spawn(process.execPath, [join(ROOT, 'infra', 'start', 'bootstrap.mjs'), ...args], {
      cwd: ROOT,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    }),
  )
}

/** Part of util-linux; gives a command a terminal. */
const SCRIPT = 'script'
const hasScript = spawnSync(SCRIPT, ['-qec', 'true', '/dev/null']).status === 0

function tracked(): string {
  return execFileSync('git', ['status', '--porcelain', '--', 'infra/start/project'], { cwd: ROOT, encoding: 'utf8' })
}

afterAll(() => {
  for (let n = 1; n <= 7; n++) rmSync(join(ROOT, '.passover', `demo-${n}`), { recursive: true, force: true })
})

/** What each run of the main job must show. */
function expectCycle(stdout: string): string {
  for (const text of [
    'Nobody can be asked here, so it answers by itself',
    '8 errors in 3 files',
    'needs_modification: 3 changes, 8 findings',
    'decision: needs_modification',
    'TS2724, TS2552: there is no `subtotl`',
    'TS2551',
    '--- a/src/basket.ts',
    '+++ b/src/receipt.ts',
    '2 approved, 1 rejected',
    'wrote src/basket.ts',
    'wrote src/discount.ts',
    'left src/receipt.ts as it is',
    '2 errors in 1 file',
    'alice applied the result',
  ]) {
    expect(stdout).toContain(text)
  }
  const [, id = ''] = /^ +id (\S+)$/m.exec(stdout) ?? []
  expect(id).toHaveLength(32)
  return id
}

describe('npm start', { timeout: 300_000 }, () => {
  it('-- --once runs the whole cycle, answering by itself, and ends; a second one does so too', async () => {
    const before = tracked()
    for (const _round of [1, 2]) {
      const { code, stdout, stderr } = await start('--once').ended
      expect(code, stderr).toBe(0)
      expect(stderr).toMatch(/^ {2}… building \(.*\)\n(?: {2}… still building \(\d+ s\)\n)* {2}✓ build up to date \([\d.]+ s\)$/m)
      expectCycle(stdout)
    }
    expect(tracked()).toBe(before)
  })

  it('runs its cycle to the end where another one, whose server it uses, ends in the middle of it', async () => {
    await using first = start()
    await first.printed('Press Ctrl-C to stop', 'stdout', 120_000)
    await using second = start('--once')
    await second.printed('Alice builds the project', 'stdout', 120_000)
    first.kill('SIGTERM')
    const { code, stdout, stderr } = await second.ended
    expect({ code, stderr }).toMatchObject({ code: 0, stderr: expect.stringContaining('starting again with one of its own') })
    expectCycle(stdout)
  })

  it('without a terminal stays up, and what it says to type works; SIGTERM drains', async () => {
    const before = tracked()
    await using started = start()
    const stdout = await started.printed('Press Ctrl-C to stop', 'stdout', 120_000)
    const id = expectCycle(stdout)
    const commands = stdout.split('\n').flatMap((line) => /^ {2}npx passover (.*)$/.exec(line)?.[1] ?? [])
    expect(commands.length).toBeGreaterThanOrEqual(3)
    for (const command of commands.filter((each) => !each.startsWith('work '))) {
      const typed = execFileSync('bash', ['-c', `npx --no-install passover ${command}`], {
        cwd: ROOT,
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
      })
      if (command.startsWith('show')) expect(typed).toContain(id)
      if (command.startsWith('request')) expect(typed).toContain("Property 'quantiy' does not exist")
      if (command.startsWith('request')) expect(typed).not.toContain('TS2307')
    }
    // The person who asked is the only one of this server, and may approve what came back.
    const { document: passes } = await json<PassRow[]>(['list', '--to', 'audit', '--limit', '1'], { cwd: ROOT })
    const asked = passes[0]?.id ?? ''
    const applied = await run(['apply', asked, '--yes'], { cwd: ROOT })
    const undone = await run(['undo', asked, '--yes'], { cwd: ROOT })
    expect(applied, applied.stderr).toMatchObject({ code: 0, stdout: expect.stringContaining('(self, local') })
    expect(undone).toMatchObject({ code: 0 })
    expect(tracked()).toBe(before)
    const shown = JSON.parse((await run(['show', id, '--json'], { cwd: ROOT })).stdout) as {
      decisions: { item: string; modifications: Record<string, string> }[]
      timeline: { kind: string }[]
      record: { entry: { applied: boolean } }
    }
    expect(shown.decisions).toMatchObject([{ item: 'apply', verdict: 'approve' }])
    expect(Object.values(shown.decisions[0]?.modifications ?? {}).sort()).toEqual(['rejected', 'taken', 'taken'])
    expect(shown.timeline.map(({ kind }) => kind)).toEqual(expect.arrayContaining(['request', 'work', 'return', 'decision', 'applied']))

    const second = await start('--once').ended
    expect(second, second.stderr).toMatchObject({ code: 0, stdout: expect.stringContaining('is up already') })

    // A policy that holds what Alice passes over: the demo says for whom it waits, and what to type.
    const hold = async (value: 'true' | 'false') =>
      expect(await run(['policy', 'set', 'hold_before_dispatch', value, '--pair', 'alice->audit'], { cwd: ROOT })).toMatchObject({
        code: 0,
      })
    await hold('true')
    try {
      await using held = start('--once')
      const [, id = ''] =
        /passover approve (\S+)/.exec(await held.printed(/Held until a person approves it .*inbox.*passover approve \S+/, 'stderr')) ?? []
      expect(await run(['approve', id, '--yes'], { cwd: ROOT })).toMatchObject({ code: 0 })
      expect(await held.ended).toMatchObject({ code: 0 })
    } finally {
      await hold('false')
    }

    await using other = start()
    await other.printed('Press Ctrl-C to stop', 'stdout', 120_000)
    started.kill('SIGTERM')
    expect(await started.ended).toMatchObject({ code: 0 })
    await other.printed('does not answer any more; waiting for it', 'stderr')
    other.kill('SIGINT')
    expect(await other.ended).toMatchObject({ code: expect.any(Number), signal: null })
    await until('nothing answers any more', async () => (await run(['list'], { cwd: ROOT })).code === 5)
  })

  it('ends with npm, whose shell passes no signal on', async () => {
    const { NATS_URL: _url, ...env } = process.env
    const npm = spawn('npm', ['start'], { cwd: ROOT, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true })
    const started = new Spawned(npm)
    await started.printed('Press Ctrl-C to stop', 'stdout', 120_000)
    npm.kill('SIGTERM')
    await started.ended
    await until('the server has stopped', async () => (await run(['list'], { cwd: ROOT })).code === 5)
  })

  it.skipIf(!hasScript)('asks the person at a terminal, and does what was answered; Ctrl-C drains', async () => {
    const { CI: _ci, NATS_URL: _url, ...env } = process.env
    const command = `stty cols 140 rows 50; exec '${process.execPath}' '${join(ROOT, 'infra', 'start', 'bootstrap.mjs')}'`
    const child = spawn(SCRIPT, ['-qfec', command, '/dev/null'], {
      cwd: ROOT,
      env: { ...env, TERM: 'xterm' },
      stdio: ['pipe', 'pipe', 'pipe'],
    })
    await using started = new Spawned(child)
    for (const [path, answer] of [
      ['src/basket.ts', 'n'],
      ['src/discount.ts', 'y'],
      ['src/receipt.ts', 'y'],
    ]) {
      await started.printed(`Apply this change to ${path}?`, 'stdout', 120_000)
      child.stdin.write(answer ?? '')
    }
    const stdout = await started.printed('Press Ctrl-C to stop', 'stdout', 120_000)
    expect(stdout).not.toContain('answers by itself')
    for (const text of ['2 approved, 1 rejected', 'left src/basket.ts as it is', 'wrote src/discount.ts', 'wrote src/receipt.ts'])
      expect(stdout).toContain(text)
    child.stdin.write('\u0003')
    expect(await started.ended).toMatchObject({ code: 0 })
  })

  it.skipIf(!hasScript)('says at Ctrl-C instead of an answer that nothing was applied', async () => {
    const { CI: _ci, NATS_URL: _url, ...env } = process.env
    const command = `stty cols 140 rows 50; exec '${process.execPath}' '${join(ROOT, 'infra', 'start', 'bootstrap.mjs')}'`
    const child = spawn(SCRIPT, ['-qfec', command, '/dev/null'], {
      cwd: ROOT,
      env: { ...env, TERM: 'xterm' },
      stdio: ['pipe', 'pipe', 'pipe'],
    })
    await using started = new Spawned(child)
    await started.printed('Apply this change to src/basket.ts?', 'stdout', 120_000)
    child.stdin.write('\u0003')
    const { code, stdout } = await started.ended
    expect(code).toBe(130)
    expect(stdout).toContain('Interrupted; nothing was applied.')
    expect(stdout).not.toContain('wrote src/')
  })

  it('says in one line that it may open too few files', async () => {
    const command = `ulimit -n 64; exec '${process.execPath}' '${join(ROOT, 'infra', 'start', 'bootstrap.mjs')}' --once`
    const limited = new Spawned(spawn('sh', ['-c', command], { cwd: ROOT, stdio: ['ignore', 'pipe', 'pipe'] }))
    expect(await limited.ended).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/\nno more files can be opened: .*ulimit -n 4096\n$/),
    })
  })

  it('says what it does not understand', async () => {
    expect(await start('--twice').ended).toMatchObject({ code: 2, stderr: expect.stringContaining('There is no --twice') })
  })
})

describe('npm test', () => {
  it('that Ctrl-C ends says that it was interrupted, and counts no test as failed', async () => {
    const args = [join(ROOT, 'infra', 'test', 'run.mjs'), '--project', 'unit', 'packages/core']
    const child = spawn(process.execPath, args, { cwd: ROOT, env: cleanEnvironment({ NODE_V8_COVERAGE: undefined }), detached: true })
    await using started = new Spawned(child)
    await started.printed('RUN', 'stdout', 120_000)
    // As a terminal does: to the whole group.
    process.kill(-(child.pid ?? 0), 'SIGINT')
    const { code, stdout } = await started.ended
    expect({ code, stdout }).toEqual({ code: 130, stdout: expect.stringContaining('Interrupted (SIGINT)') })
    expect(stdout).not.toMatch(/\d+ passed, \d+ failed/)
  }, 180_000)
})
