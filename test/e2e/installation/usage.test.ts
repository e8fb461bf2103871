import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { PassRow } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { BIN, cleanEnvironment, Folder, json, openProject, ROOT, run } from '../../support/fixtures/cli.js'

/** What every command keeps, tried without a server. */

describe('the command line', () => {
  it('explains itself, exit codes included', async () => {
    using folder = new Folder()
    const { code, stdout, stderr } = await run(['--help'], { cwd: folder.path })
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    for (const text of ['up', 'request', 'doctor', '124  the time limit was reached', '130  interrupted', '--json'])
      expect(stdout).toContain(text)
  })

  it('prints help without a command, and of each command', async () => {
    using folder = new Folder()
    expect(await run([], { cwd: folder.path })).toMatchObject({ code: 0, stdout: expect.stringContaining('Commands:') })
    expect(await run(['help', 'work'], { cwd: folder.path })).toMatchObject({ code: 0, stdout: expect.stringContaining('E011') })
    expect(await run(['agents', 'add', '--help'], { cwd: folder.path })).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('--originates'),
    })
  })

  it('answers a misspelt command with exit 2 and a suggestion, on stderr alone', async () => {
    using folder = new Folder()
    const { code, stdout, stderr } = await run(['shwo', 'x'], { cwd: folder.path })
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toContain('Did you mean show?')
    expect(await run(['shwo', '--help'], { cwd: folder.path })).toMatchObject({ code: 2, stdout: '', stderr })
  })

  it('answers a wrong line of a command with the command whose help explains it', async () => {
    using folder = new Folder()
    expect((await run(['show'], { cwd: folder.path })).stderr).toContain('passover show --help explains it')
    expect((await run(['help', 'shwo'], { cwd: folder.path })).stderr).toContain('Did you mean show?')
    const env = { npm_command: 'exec' }
    expect((await run(['--help'], { cwd: folder.path, env })).stdout).toContain('Usage: npx passover [options]')
    const deny = (await run(['deny', '--help'], { cwd: folder.path })).stdout
    expect(deny).not.toContain('--digest')
    const completion = await run(['completion', 'ksh'], { cwd: folder.path })
    expect(completion.stderr).toContain('expected one of: bash, zsh, fish')
  })

  it('says mistakes as one JSON document with --json, wherever the flag stands', async () => {
    using folder = new Folder()
    for (const args of [
      ['--json', 'lst'],
      ['request', '--to', 'echo'],
      ['list', '--limit', '0'],
      ['show'],
      ['work', 'echo'],
      ['dlq'],
      ['help', 'bogus'],
      ['watch', ''],
    ]) {
      const { code, document, stderr } = await json<{ error: { code: string; message: string; hint: string } }>(args, { cwd: folder.path })
      expect({ code, stderr }, args.join(' ')).toEqual({ code: 2, stderr: '' })
      expect(document.error).toMatchObject({ code: 'E042', message: expect.any(String), hint: expect.any(String) })
      expect(document.error.message).not.toContain('outputHelp')
    }
  })

  it('says that there is no server, what to do, and exits 5', async () => {
    using folder = new Folder()
    for (const args of [
      ['list'],
      ['show', 'x'],
      ['cancel', 'x'],
      ['approve', 'x'],
      ['agents'],
      ['watch'],
      ['request', '--to', 'a', '--objective', 'o'],
      ['work', 'a', '--', 'cat'],
    ]) {
      const { code, stdout, stderr } = await run(args, { cwd: folder.path })
      expect({ code, stdout }, args.join(' ')).toEqual({ code: 5, stdout: '' })
      expect(stderr).toContain('passover up')
    }
    expect((await json(['list'], { cwd: folder.path })).document).toMatchObject({
      error: { code: 'E040', hint: expect.stringContaining('passover up') },
    })
    const unreachable = await run(['list', '--server', 'nats://127.0.0.1:1'], { cwd: folder.path })
    expect(unreachable).toMatchObject({ code: 5, stderr: expect.stringContaining('set by --server') })
  })

  it('refuses impossible settings with exit 2', async () => {
    using folder = new Folder()
    const wrong = [
      ['list', '--as', 'a.b'],
      ['list', '--directory', '/nowhere/at/all'],
      ['list', '--server', 'http://['],
      ['request', '--to', 'a', '--objective', 'o', '--timeout', '30'],
      ['request', '--to', 'a', '--objective', 'o', '--file', 'missing.ts', '--server', 'nats://127.0.0.1:1'],
      ['request', '--to', 'a', '--objective', 'o', '--file', BIN, '--file', BIN, '--server', 'nats://127.0.0.1:1'],
      ['request', '--to', 'a', '--objective', 'o', '--timeout', '25h'],
      ['list', '--server', 'http://127.0.0.1:1'],
      ['agents', 'remove'],
      ['request', '--to', 'a', '--objective', ' ', '--server', 'nats://127.0.0.1:1'],
      ['work', 'a', '--server', 'nats://127.0.0.1:1', '--', 'no-such-program'],
    ]
    for (const args of wrong) expect(await run(args, { cwd: folder.path }), args.join(' ')).toMatchObject({ code: 2, stdout: '' })
  })

  it('says in words why a file or folder cannot be used', async () => {
    using folder = new Folder()
    symlinkSync('loop', join(folder.path, 'loop'))
    const file = ['request', '--to', 'a', '--objective', 'o', '--server', 'nats://127.0.0.1:1', '--file']
    const wrong: [string[], string][] = [
      [[...file, `${BIN}/x`], 'a component of the path is a file, not a folder'],
      [[...file, 'a'.repeat(300)], 'its name is too long'],
      [[...file, 'loop'], 'its symbolic links form a loop'],
      [[...file, '.'], 'not a file'],
      [['list', '--directory', 'loop'], 'its symbolic links form a loop'],
      [['list', '--directory', BIN], 'is not a folder'],
    ]
    for (const [args, why] of wrong)
      expect(await run(args, { cwd: folder.path })).toMatchObject({
        code: 2,
        stderr: expect.stringMatching(`✗ --(file|directory).*${why}`),
      })
    const script = `rmdir "$PWD"; "${process.execPath}" "${BIN}" list`
    mkdirSync(join(folder.path, 'gone'))
    const gone = spawnSync('bash', ['-c', script], { cwd: join(folder.path, 'gone'), encoding: 'utf8' })
    expect(gone).toMatchObject({ status: 2, stderr: expect.stringContaining('the working directory no longer exists') })
  })

  it.each([
    ['dispatcher', { NATS_URL: 'nats://a:s3%cret@h' }, /^NATS_URL: .* a % that is not percent-encoded\. .*\n$/],
    ['audit', { PASSOVER_ID_WINDOW_MS: 'soon' }, /^a setting is wrong: id_window_ms: must be a number, not NaN\n$/],
    [
      'notifier',
      { PASSOVER_WEBHOOK_URL: 'http://h:6000/s3cret', PASSOVER_WEBHOOK_SECRET: 'x'.repeat(16) },
      /^a setting is wrong: url: has a port .* 6000\n$/,
    ],
  ])('has services that say in one line which setting is wrong: %s', (service, env, line) => {
    const main = join(ROOT, 'services', service, 'dist', 'main.js')
    const { status, stderr } = spawnSync(process.execPath, [main], { env: cleanEnvironment(env), encoding: 'utf8' })
    expect({ status, stderr }).toEqual({ status: 2, stderr: expect.stringMatching(line) })
    expect(stderr).not.toContain('s3')
  })

  it.runIf(existsSync('/dev/full'))('says that its output cannot be written', () => {
    using folder = new Folder()
    const script = `"${process.execPath}" "${BIN}" completion zsh >/dev/full`
    const { status, stderr } = spawnSync('bash', ['-c', script], { cwd: folder.path, encoding: 'utf8' })
    expect({ status, stderr }).toEqual({ status: 1, stderr: '✗ the output cannot be written: no space left on the device (E014)\n' })
  })

  it('types its commands as they were typed, also in JSON, and names the variable that is wrong', async () => {
    using folder = new Folder()
    const npx = { npm_command: 'exec' }
    expect(await json(['list'], { cwd: folder.path, env: npx })).toMatchObject({
      document: { error: { hint: expect.stringContaining('npx passover up') } },
    })
    expect(await run(['list'], { cwd: folder.path, env: { PASSOVER_SERVER: 'http://localhost:4222' } })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('PASSOVER_SERVER: http://localhost:4222 is not a NATS address'),
    })
    expect(await run(['doctor'], { cwd: folder.path })).toMatchObject({ code: 5 })
    expect((await run(['doctor', '--help'], { cwd: folder.path })).stdout).toContain('5 if the server cannot be reached')
    expect((await run(['list', '--help'], { cwd: folder.path })).stdout).toMatch(
      /waiting_for_return +it waits for a worker[\s\S]*stored → dispatched/,
    )
    expect((await run(['work', '--help'], { cwd: folder.path })).stdout).toContain('default: 5s')
  })

  it('has no colour when not a terminal, and none of a terminal’s with NO_COLOR', async () => {
    using folder = new Folder()
    const { stderr } = await run(['nope'], { cwd: folder.path, env: { FORCE_COLOR: '1' } })
    expect(stderr).not.toContain('\u001b[')
  })

  it('ends quietly when its pipe is closed', () => {
    using folder = new Folder()
    const { status, stderr } = spawnSync(
      'bash',
      ['-c', `set -o pipefail; "${process.execPath}" "${BIN}" completion zsh | head -c 1 >/dev/null`],
      { cwd: folder.path, encoding: 'utf8' },
    )
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  })

  it('completes in bash', () => {
    using folder = new Folder()
    const offers = (...words: string[]) =>
      execFileSync(
        'bash',
        [
          '-c',
          `eval "$("${process.execPath}" "${BIN}" completion bash)"; COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 )); _passover; printf '%s\\n' "\${COMPREPLY[@]}"`,
          'bash',
          ...words,
        ],
        { cwd: folder.path, encoding: 'utf8' },
      )
        .split('\n')
        .filter(Boolean)
    expect(offers('passover', 'req')).toEqual(['request'])
    expect(offers('passover', 'agents', 'a')).toEqual(['add'])
    expect(offers('passover', 'request', '--obj')).toEqual(['--objective'])
    expect(offers('passover', 'request', '--priority', 'h')).toEqual(['high'])
    expect(offers('passover', '--as', 'list', 'sho')).toEqual(['show'])
  })

  it('completes names of agents and ids in bash, also after npx', async () => {
    await using project = await openProject()
    const { cwd } = project
    await run(['agents', 'add', 'echo'], { cwd })
    const asked = await json<PassRow>(['request', '--from', 'alice', '--to', 'echo', '--objective', 'o', '--no-wait'], { cwd })
    const { id } = asked.document
    // What npx and the shell would find.
    const bin = join(cwd, 'bin')
    mkdirSync(bin)
    const program = (name: string, args: string) =>
      writeFileSync(join(bin, name), `#!/bin/sh\n${args}exec "${process.execPath}" "${BIN}" "$@"\n`, { mode: 0o755 })
    program('passover', '')
    program('npx', '[ "$1 $2" = "--no passover" ] || exit 1; shift 2\n')
    const script = `eval "$(passover completion bash)"
      offers() { COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 )); COMPREPLY=(); "$(complete -p "$1" | sed 's/.*-F \\([^ ]*\\).*/\\1/')"; echo "\${COMPREPLY[@]}"; }
      offers passover show ${id.slice(0, 4)}; offers passover request --to e; offers passover agents show ec
      offers npx passover show ${id.slice(0, 4)}; offers npx passover li; offers npx other x`
    const env = cleanEnvironment({ PATH: `${bin}:${process.env.PATH}` })
    const { stdout, stderr } = spawnSync('bash', ['--norc', '-c', script], { cwd, encoding: 'utf8', env })
    expect(stdout.split('\n'), stderr).toEqual([id, 'echo', 'echo', id, 'list', '', ''])
  })

  // The schemas alone are 370 KB.
  it('loads neither the schemas nor the client before it prints', () => {
    using folder = new Folder()
    const env = cleanEnvironment({ PATH: process.env.PATH, NODE_V8_COVERAGE: folder.path })
    execFileSync(process.execPath, [BIN, '--help'], { cwd: folder.path, env, stdio: 'ignore' })
    const [file = ''] = readdirSync(folder.path)
    const { result } = JSON.parse(readFileSync(join(folder.path, file), 'utf8')) as { result: { url: string }[] }
    const loaded = result.flatMap(({ url }) => (url.startsWith('file:') ? statSync(new URL(url)).size : []))
    expect(loaded.length).toBeGreaterThan(5)
    expect(loaded.reduce((sum, size) => sum + size, 0)).toBeLessThan(400_000)
  })
})
