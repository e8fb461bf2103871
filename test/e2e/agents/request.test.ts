import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { PassRow, WorkOutput } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  atTerminal,
  BIN,
  cleanEnvironment,
  cli,
  ECHO,
  hasTerminal,
  json,
  openProject,
  type Project,
  run,
  type Shown,
  type Spawned,
  show,
  until,
} from '../../support/fixtures/cli.js'

let project: Project
let cwd: string
let echo: Spawned

beforeAll(async () => {
  project = await openProject()
  cwd = project.cwd
  echo = cli(['work', 'echo', '--concurrency', '4', '--', 'node', '-e', ECHO], { cwd })
  await echo.printed('Working as echo', 'stderr')
})
afterAll(async () => {
  await echo?.[Symbol.asyncDispose]()
  await project?.[Symbol.asyncDispose]()
})

const shown = (id: string) => show(id, cwd)

describe('request', () => {
  it('waits and prints what comes back', async () => {
    const { code, stdout, stderr } = await run(['request', '--from', 'alice', '--to', 'echo', '--objective', 'hello'], { cwd })
    expect(code).toBe(0)
    // On a busy machine, progress is reported too.
    const notes = stderr.split('\n').filter((line) => line !== '' && !line.startsWith('… '))
    expect(notes).toEqual([expect.stringMatching(/^Server: nats:\/\/127\.0\.0\.1:\d+ \(.*\.passover\/server\.json\)$/)])
    expect(stdout).toMatch(/^✓ completed by echo in .* {2}pass [A-Za-z0-9_-]{9,64}\nhello\n$/)
  })

  it('prints the WorkOutput as the one document, with priority medium and its own id', async () => {
    const id = 'asked-once-0001'
    const args = [
      'request',
      '--from',
      'alice',
      '--to',
      'echo',
      '--objective',
      'hello',
      '--session',
      'session-1',
      '--id',
      id,
      '--constraint',
      'read_only',
    ]
    const { code, document } = await json<WorkOutput>(args, { cwd })
    expect(code).toBe(0)
    expect(document).toMatchObject({
      work_id: id,
      status: 'completed',
      output: 'hello\n',
      originating_agent_id: 'alice',
      subagent_id: 'echo',
    })
    expect(await shown(id)).toMatchObject({ priority: 'medium', session_id: 'session-1', reason: 'request' })
    const again = await json<WorkOutput>(args, { cwd })
    expect(again.document.metadata.completed_at).toBe(document.metadata.completed_at)
    const other = await json<{ error: { code: string } }>([...args.slice(0, 6), 'something else', ...args.slice(7)], { cwd })
    expect(other).toMatchObject({ code: 2, document: { error: { code: 'E005' } } })
  })

  it('takes agent and objective without flags, and each only once', async () => {
    expect(await run(['request', 'echo', 'in short'], { cwd })).toMatchObject({ code: 0, stdout: expect.stringMatching(/\nin short\n$/) })
    expect(await run(['request', 'echo', '-'], { cwd, input: 'by pipe' })).toMatchObject({ stdout: expect.stringMatching(/\nby pipe\n$/) })
    for (const args of [['echo'], ['echo', 'x', '--to', 'echo'], ['echo', 'x', '--objective', 'x'], []])
      expect(await json(['request', ...args], { cwd }), args.join(' ')).toMatchObject({ code: 2, document: { error: { code: 'E042' } } })
  })

  it('takes the objective from stdin and files from disk', async () => {
    writeFileSync(join(cwd, 'one.txt'), 'first')
    writeFileSync(join(cwd, 'two.txt'), 'second')
    const { code, stdout } = await run(['request', '--to', 'echo', '--objective', '-', '--file', 'one.txt', '--file', 'two.txt'], {
      cwd,
      input: 'from stdin\n',
    })
    expect(code).toBe(0)
    expect(stdout).toContain('from stdin one.txt=first,two.txt=second')
  })

  it('reads from stdin more than a pipe holds at a time, and refuses what is no objective', async () => {
    const text = '\u20ac'.repeat(60_000)
    const asked = (input: string | Buffer) => run(['request', '--to', 'echo', '--objective', '-'], { cwd, input })
    const { code, stdout } = await asked(`\ufeff${text}\n`)
    expect({ code, whole: stdout.includes(text) }).toEqual({ code: 0, whole: true })
    const refused: [string | Buffer, string][] = [
      ['a'.repeat(300_000), 'has more than 65536 characters'],
      [Buffer.from('ab\nc\xff', 'latin1'), 'is not UTF-8: line 2 has the byte 0xff'],
      [Buffer.from('\ufeffhello', 'utf16le'), 'is encoded as UTF-16'],
      [' \n', 'is empty'],
    ]
    for (const [input, why] of refused) expect(await asked(input)).toMatchObject({ code: 2, stderr: expect.stringContaining(why) })
  })

  it('takes what a shell hands over as a pipe for a file', () => {
    const script = `"${process.execPath}" "${BIN}" request --to echo --objective o --file <(printf from-a-pipe)`
    const { status, stdout } = spawnSync('bash', ['-c', script], { cwd, env: cleanEnvironment(), encoding: 'utf8' })
    expect({ status, stdout }).toEqual({ status: 0, stdout: expect.stringContaining('=from-a-pipe') })
  })

  it('says why it waits when nobody works, and ends with 124', async () => {
    await run(['agents', 'add', 'idle'], { cwd })
    const { code, stderr } = await run(['request', '--to', 'idle', '--objective', 'x', '--timeout', '8s'], { cwd })
    expect(code).toBe(124)
    expect(stderr).toContain('Queued: no workers on `idle`; to start one: passover work idle -- <command>')
    expect(stderr).toContain('E010')
    expect(stderr).toContain('`idle` has no worker; to start one: passover work idle')
    expect(stderr).toMatch(/passover show \S+/)
  })

  it('sends a binary file whole, as base64', async () => {
    const bytes = Buffer.from([0, 255, 1, 128])
    writeFileSync(join(cwd, 'x.bin'), bytes)
    const { code, stdout } = await run(['request', '--to', 'echo', '--objective', 'o', '--file', 'x.bin'], { cwd })
    expect({ code, stdout }).toMatchObject({ code: 0, stdout: expect.stringContaining(`x.bin=${bytes.toString('base64')}`) })
  })

  it('sends nowhere to look where nothing was sent', async () => {
    const { code, stderr } = await run(['request', '--to', 'echo', '--objective', 'o', '--id', 'short'], { cwd })
    expect(code).toBe(2)
    expect(stderr).toContain('E005')
    expect(stderr).not.toContain('passover show')
  })

  it('refuses an unknown subagent with 4, a loop with the chain', async () => {
    expect(await json(['request', '--to', 'unheard-of', '--objective', 'x'], { cwd })).toMatchObject({
      code: 4,
      document: { error: { code: 'E001' } },
    })
    const self = await json<{ error: { code: string; message: string } }>(
      ['request', '--from', 'alice', '--to', 'alice', '--objective', 'x'],
      { cwd },
    )
    expect(self).toMatchObject({ code: 4, document: { error: { code: 'E003', message: expect.stringContaining('alice') } } })
  })

  it('does not wait when told so', async () => {
    const { code, stdout } = await run(['request', '--to', 'echo', '--objective', 'later', '--no-wait'], { cwd })
    expect(code).toBe(0)
    const id = stdout.trim()
    await until('it returned', async () => ['returned', 'processed'].includes((await shown(id)).status))
    expect((await shown(id)).output?.output).toBe('later\n')
  })

  it('leaves the pass alone on Ctrl-C, says how to find it, and exits 130', async () => {
    await using waiting = cli(['request', '--to', 'echo', '--objective', 'sleep', '--timeout', '60s'], { cwd })
    await waiting.printed('echo', 'stderr')
    waiting.kill('SIGINT')
    const { code, stderr } = await waiting.ended
    expect(code).toBe(130)
    const [, id = ''] = /passover show (\S+)/.exec(stderr) ?? []
    expect(await shown(id)).toMatchObject({ status: 'waiting_for_return' })
    expect(await run(['cancel', id], { cwd })).toMatchObject({ code: 0 })
  })
})

describe('list and show', () => {
  it('show the same of the same pass', async () => {
    const { document: output } = await json<WorkOutput>(['request', '--from', 'lister', '--to', 'echo', '--objective', 'listed'], { cwd })
    let rows: PassRow[] = []
    let detail = await shown(output.work_id)
    // That its originator has the return is stored when the request's command ends, and read a moment later.
    await until('both know that it was acknowledged', async () => {
      rows = (await json<PassRow[]>(['list', '--from', 'lister'], { cwd })).document
      detail = await shown(output.work_id)
      return rows[0]?.send === 'acknowledged' && detail.send === 'acknowledged'
    })
    expect(rows).toHaveLength(1)
    const { stdout: lines } = await run(['list', '--to', 'echo', '--limit', '2', '--jsonl'], { cwd })
    expect(
      lines
        .trim()
        .split('\n')
        .map((line) => (JSON.parse(line) as PassRow).subagent),
    ).toEqual(['echo', 'echo'])
    for (const [field, value] of Object.entries(rows[0]!)) expect(detail[field as keyof PassRow], field).toEqual(value)
    expect(detail.timeline.map(({ kind }) => kind)).toEqual(['request', 'work', 'return', 'acknowledged'])
    expect(detail.output).toMatchObject({ work_id: output.work_id, output: 'listed\n' })
  })

  it('are an empty list, and exit 3, where there is nothing', async () => {
    expect(await json(['list', '--from', 'never-seen'], { cwd })).toMatchObject({ code: 0, document: [] })
    expect(await json(['show', 'no-such-pass-at-all'], { cwd })).toMatchObject({ code: 3, document: { error: { code: 'E041' } } })
    expect((await run(['list', '--from', 'never-seen'], { cwd })).stdout).toBe('No passes.\n')
  })

  it('find a pass by the beginning of its id', async () => {
    const { document: output } = await json<WorkOutput>(['request', '--from', 'short', '--to', 'echo', '--objective', 'x'], { cwd })
    expect(await shown(output.work_id.slice(0, 20))).toMatchObject({ id: output.work_id })
  })

  it('list the passes that share an id, and exit 2', async () => {
    const id = 'shared-by-two-0001'
    for (const from of ['anna', 'berta']) await run(['request', '--from', from, '--to', 'echo', '--objective', from, '--id', id], { cwd })
    const { code, stderr } = await run(['show', id], { cwd })
    expect(code).toBe(2)
    expect(stderr).toContain('anna → echo')
    expect(stderr).toContain('berta → echo')
    const { document } = await json<Shown>(['show', id, '--from', 'berta'], { cwd })
    expect(document.output?.output).toBe('berta\n')
  })

  it('print for people without control characters from agents', async () => {
    const { document: output } = await json<WorkOutput>(
      ['request', '--to', 'echo', '--objective', '\u001b[31mred\u001b]0;title\u0007', '--reason', '\u001b[2Jgone'],
      { cwd },
    )
    for (const args of [['list'], ['show', output.work_id]]) expect((await run(args, { cwd })).stdout).not.toContain('\u001b')
  })

  it('say why there may be nothing to watch', async () => {
    const { document: output } = await json<WorkOutput>(['request', '--to', 'echo', '--objective', 'over'], { cwd })
    await using ended = cli(['watch', output.work_id], { cwd })
    await using unknown = cli(['watch', 'no-such-pass'], { cwd })
    await ended.printed(`${output.work_id} has already ended: `, 'stderr')
    await unknown.printed('No pass no-such-pass exists yet', 'stderr')
  })

  it('end when nobody reads any more, though nothing happens', () => {
    const script = `set -o pipefail; "${process.execPath}" "${BIN}" watch --jsonl no-such-pass | true`
    const { status, stderr } = spawnSync('bash', ['-c', script], { cwd, env: cleanEnvironment(), encoding: 'utf8', timeout: 60_000 })
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  })

  it('end quietly when the pipe is closed', async () => {
    const watching = cli(['watch', '--all', '--jsonl'], { cwd })
    await watching.printed('request')
    watching.child.stdout?.destroy()
    await run(['request', '--to', 'echo', '--objective', 'wakes the watcher', '--no-wait'], { cwd })
    expect(await watching.ended).toMatchObject({ code: 0, stderr: '' })
  })
})

describe('retry', () => {
  it('asks again for a pass that failed, as its originator, with all that it was given', async () => {
    await using _flaky = cli(['work', 'flaky', '--', 'sh', '-c', 'test -e mended || { echo broken >&2; exit 3; }; cat'], { cwd })
    await _flaky.printed('Working as flaky', 'stderr')
    // Too large for a message: it lies in a bucket.
    const large = 'x'.repeat(600_000)
    writeFileSync(join(cwd, 'large.txt'), large)
    const given = ['--file', 'large.txt', '--constraint', 'no_secrets', '--priority', 'high', '--reason', 'once', '--session', 'again-1']
    const id = 'fails-at-first-1'
    expect((await run(['request', 'flaky', 'mend it', '--from', 'alice', '--id', id, ...given], { cwd })).code).toBe(1)

    const { stdout } = await run(['logs', id], { cwd })
    expect(stdout).toMatch(/ {2}request {6}requested by alice\n.* work .*\n.* return .*E011\n/)
    expect(stdout).toContain('E011 the command exited with code 3: broken')
    const logs = await json<Shown>(['logs', id], { cwd })
    expect(logs.document.timeline).toEqual((await shown(id)).timeline)
    expect(logs.document.error).toMatchObject({ code: 'E011' })

    writeFileSync(join(cwd, 'mended'), '')
    const { code, document } = await json<WorkOutput>(['retry', id], { cwd })
    expect({ code, status: document.status }).toEqual({ code: 0, status: 'completed' })
    expect(document.work_id).not.toBe(id)
    expect(JSON.parse(document.output ?? '')).toMatchObject({
      originating_agent_id: 'alice',
      reason: 'once',
      priority: 'high',
      constraints: ['no_secrets'],
      work_context: { objective: 'mend it', session_id: 'again-1', files: [{ path: 'large.txt', content: large }] },
    })
    expect(await shown(document.work_id)).toMatchObject({ retry_of: id, originator: 'alice' })

    const completed = await json(['retry', document.work_id], { cwd })
    expect(completed).toMatchObject({ code: 2, document: { error: { code: 'E031', message: expect.stringContaining('did not fail') } } })
  })

  it('refuses what is still under way, and what nobody knows', async () => {
    const { document } = await json<{ id: string }>(['request', 'echo', 'sleep', '--timeout', '60s', '--no-wait'], { cwd })
    await using following = cli(['logs', document.id, '--follow', '--jsonl'], { cwd })
    await following.printed('"kind":"work"')
    expect(await json(['retry', document.id], { cwd })).toMatchObject({
      code: 2,
      document: { error: { code: 'E031', message: expect.stringContaining('has not ended') } },
    })
    await run(['cancel', document.id], { cwd })
    const entries = (await following.ended).stdout.trim().split('\n')
    expect(entries.map((line) => JSON.parse(line))).toMatchObject([
      { kind: 'request' },
      { kind: 'work' },
      ...entries.slice(2, -1).map(() => ({ kind: expect.any(String) })),
      { id: document.id, status: 'cancelled', error: { code: 'E043' } },
    ])
    expect(await run(['retry', 'no-such-pass-at-all'], { cwd })).toMatchObject({ code: 3 })
  })
})

describe('top', () => {
  it('prints once where nobody could see it change', async () => {
    const { code, stdout } = await run(['top'], { cwd })
    expect(code).toBe(0)
    expect(stdout).toMatch(/^\d+ queued {2}\d+ running {2}\d+ held[\s\S]*\d+ in the last minute[\s\S]*^echo +1 /m)
    expect(stdout).not.toContain('\u001b')
    const { document } = await json<{ agents: object[] }>(['top'], { cwd })
    expect(document.agents).toContainEqual(expect.objectContaining({ name: 'echo', up: 1, places: 4 }))
    expect(document).toMatchObject({ queued: expect.any(Number), last_minute: { passes: expect.any(Number) }, slowest: expect.any(Array) })
  })

  it.runIf(hasTerminal())('draws over itself at 60 columns, and gives the terminal back', async () => {
    const name = 'an-agent-with-a-name-that-is-as-long-as-a-name-may-be-for-agents'
    await run(['agents', 'add', name], { cwd })
    const { document } = await json<{ id: string }>(['request', name, 'x', '--from', `from-${name}`.slice(0, 60), '--no-wait'], { cwd })
    await until('it is open', async () => (await shown(document.id)).status === 'waiting_for_return')
    await using live = atTerminal(['top', '--interval', '50ms'], cwd, {}, 60)
    const home = '\u001b[H'
    await live.printed(/(\[H[\s\S]*){3}/)
    live.child.stdin?.write('\u0003')
    const { code, stdout } = await live.ended
    expect(code).toBe(0)
    const [before, ...frames] = stdout.split(home)
    expect(before).toContain('\u001b[?1049h')
    expect(frames.at(-1)?.trimEnd().endsWith('\u001b[?1049l')).toBe(true)
    // Nothing is wiped before it is drawn again, which would flicker.
    expect(stdout).not.toContain('\u001b[2J')
    // biome-ignore lint/suspicious/noControlCharactersInRegex: what a terminal is told.
    const lines = frames[1]?.replace(/\u001b\[[\d;?]*[A-Za-z]/g, '').split('\r\n') ?? []
    expect(lines.join('\n')).toContain('OPEN FOR')
    for (const line of lines) expect(line.length, line).toBeLessThanOrEqual(60)
  })
})
