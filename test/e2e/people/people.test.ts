import type { PassRow, WorkOutput } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { cli, ECHO, json, openProject, type Project, run, type Spawned, show, until } from '../../support/fixtures/cli.js'

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

async function held(objective: string, as = 'alice'): Promise<{ id: string; waiting: Spawned }> {
  const waiting = cli(['request', '--from', as, '--to', 'echo', '--objective', objective, '--hold', '--timeout', '120s'], { cwd })
  const [, id = ''] = /passover approve (\S+)/.exec(await waiting.printed(/passover approve (\S+)/, 'stderr')) ?? []
  return { id, waiting }
}

describe('approve and deny', () => {
  it('let a held pass start, under the person’s name', async () => {
    const { id, waiting } = await held('approved')
    expect((await shown(id)).status).toBe('held')
    expect((await json<PassRow[]>(['list', '--status', 'held'], { cwd })).document.map((row) => row.id)).toContain(id)
    const { code, stdout } = await run(['approve', id, '--yes', '--as', 'bob', '--reason', 'looked at it'], { cwd })
    expect({ code, stdout }).toMatchObject({ code: 0, stdout: expect.stringContaining('Approved the start') })
    expect(await waiting.ended).toMatchObject({ code: 0, stdout: expect.stringContaining('approved') })
    expect((await shown(id)).decisions).toMatchObject([{ item: 'dispatch', person: 'bob', verdict: 'approve', reason: 'looked at it' }])
  })

  it('end it as denied: the waiting request exits 6', async () => {
    const { id, waiting } = await held('denied')
    expect(await run(['deny', id, '--as', 'bob', '--reason', 'not today'], { cwd })).toMatchObject({ code: 0 })
    const ended = await waiting.ended
    expect(ended.code).toBe(6)
    expect(ended.stderr).toContain('not today')
    expect(await shown(id)).toMatchObject({ status: 'refused', error: { code: 'E013' } })
  })

  it('of two people let one win and tell the other who and when', async () => {
    const { id, waiting } = await held('contested')
    const [bob, carol] = await Promise.all([
      run(['approve', id, '--yes', '--as', 'bob'], { cwd }),
      run(['deny', id, '--as', 'carol'], { cwd }),
    ])
    await waiting.ended
    const { decisions } = await shown(id)
    expect(decisions).toHaveLength(1)
    const loser = decisions[0]?.person === 'bob' ? carol : bob
    expect(loser.stdout).toContain(`${decisions[0]?.person} (unverified) already decided`)
    expect(loser.code).toBe(decisions[0]?.verdict === 'deny' ? 6 : 1)
    expect(await run(['approve', id, '--as', 'dave'], { cwd })).toMatchObject({ stdout: expect.stringContaining('already decided') })
  })

  it('release a return that waits because something critical was found', async () => {
    await using critic = cli(
      [
        'work',
        'critic',
        '--',
        'node',
        '-e',
        `console.log(JSON.stringify({ status: 'completed', artifacts: [{ type: 'finding', severity: 'error', category: 'x', message: 'bad' }] }))`,
      ],
      { cwd },
    )
    await critic.printed('Working as critic', 'stderr')
    await using waiting = cli(['request', '--from', 'alice', '--to', 'critic', '--objective', 'look'], { cwd })
    const [, id = ''] = /passover approve (\S+)/.exec(await waiting.printed(/passover approve (\S+)/, 'stderr')) ?? []
    expect((await shown(id)).status).toBe('awaiting_release')
    expect(await run(['approve', id, '--as', 'bob'], { cwd })).toMatchObject({ code: 0, stdout: expect.stringContaining('the release') })
    expect(await waiting.ended).toMatchObject({ code: 0, stdout: expect.stringContaining('bad') })
  })

  it('refuse who takes part, before anything is stored, and say who can', async () => {
    const { id, waiting } = await held('own')
    for (const verdict of ['approve', 'deny']) {
      const { code, document } = await json<{ error: { code: string; hint: string } }>([verdict, id, '--as', 'alice'], { cwd })
      expect({ code, document }).toMatchObject({ code: 4, document: { error: { code: 'E013' } } })
      expect(document.error.hint).toContain('another person')
    }
    expect((await shown(id)).timeline.map(({ kind }) => kind)).not.toContain('decision')
    expect(await run(['approve', id, '--yes', '--as', 'bob'], { cwd })).toMatchObject({ code: 0 })
    expect(await waiting.ended).toMatchObject({ code: 0 })
    const own = ['request', '--as', 'anna', '--to', 'echo', '--objective', 'x', '--hold', '--no-wait']
    expect(await run(own, { cwd })).toMatchObject({
      code: 0,
      stderr: expect.stringContaining('anna requested it, so another person must approve it'),
    })
  })

  it('say that nothing waits', async () => {
    const { document: output } = await json<WorkOutput>(['request', '--to', 'echo', '--objective', 'x'], { cwd })
    expect(await json(['approve', output.work_id], { cwd })).toMatchObject({ code: 3, document: { error: { code: 'E041' } } })
  })
})

describe('cancel', () => {
  it('says what it would do, then does it; again it is already done', async () => {
    await using waiting = cli(
      ['request', '--from', 'alice', '--to', 'echo', '--objective', 'sleep', '--timeout', '60s', '--id', 'to-be-cancelled-1'],
      { cwd },
    )
    await until('it is worked on', async () =>
      (await json<PassRow[]>(['list', '--from', 'alice', '--status', 'waiting_for_return'], { cwd })).document.some(
        (row) => row.id === 'to-be-cancelled-1',
      ),
    )
    const dry = await json(['cancel', 'to-be-cancelled-1', '--dry-run'], { cwd })
    expect(dry.document).toMatchObject({ dry_run: true, would_cancel: ['to-be-cancelled-1'] })
    expect(await run(['cancel', 'to-be-cancelled-1', '--reason', 'enough', '--as', 'bob'], { cwd })).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('Cancelled'),
    })
    expect(await waiting.ended).toMatchObject({ code: 1, stderr: expect.stringContaining('E043') })
    expect(await json(['cancel', 'to-be-cancelled-1'], { cwd })).toMatchObject({ code: 0, document: { cancelled: true } })
    const { document: output } = await json<WorkOutput>(['request', '--to', 'echo', '--objective', 'x'], { cwd })
    expect(await json(['cancel', output.work_id], { cwd })).toMatchObject({ code: 1, document: { cancelled: false } })
  })
})

describe('watch', () => {
  it('tells each step as it is stored: lines, a stream, or one document', async () => {
    await using lines = cli(['watch', '--from', 'watched', '--count', '3'], { cwd })
    await using stream = cli(['watch', '--from', 'watched', '--count', '3', '--jsonl'], { cwd })
    await using list = cli(['watch', '--from', 'watched', '--count', '3', '--json'], { cwd })
    await until('all three watch', async () => {
      await run(['request', '--from', 'watched', '--to', 'echo', '--objective', 'x'], { cwd })
      return [lines, stream, list].every(({ child }) => child.exitCode !== null)
    })
    const kinds = ['request', 'work', 'return', 'notification']
    expect((await lines.ended).stdout.trim().split('\n')).toHaveLength(3)
    expect(
      (await stream.ended).stdout
        .trim()
        .split('\n')
        .map((line) => kinds.includes(JSON.parse(line).kind)),
    ).toEqual([true, true, true])
    expect(JSON.parse((await list.ended).stdout)).toHaveLength(3)
  })

  it('ends with Ctrl-C', async () => {
    await using watching = cli(['watch', '--all', '--jsonl'], { cwd })
    await watching.printed('"request"')
    watching.kill('SIGINT')
    expect(await watching.ended).toMatchObject({ code: 0, stderr: '' })
  })
})

describe('agents', () => {
  it('are registered by working or by a person, and listed with what waits', async () => {
    const added = await json(['agents', 'add', 'reader', '--originates', 'never', '--description', 'reads', '--as', 'bob'], { cwd })
    expect(added).toMatchObject({
      code: 0,
      document: { name: 'reader', roles: { originates: 'never', subagent: true }, registered_by: 'bob' },
    })
    const { document } = await json<{ name: string; idle_workers: number; registered_by: string }[]>(['agents'], { cwd })
    expect(document).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ name: 'reader', idle_workers: 0 }),
        expect.objectContaining({ name: 'echo', registered_by: 'echo' }),
      ]),
    )
    expect((await run(['agents'], { cwd })).stdout).toContain('IDLE')
    // That it may never pass over was said, and is not taken back by another word.
    expect(await json(['agents', 'add', 'reader', '--no-subagent'], { cwd })).toMatchObject({
      document: { roles: { originates: 'never', subagent: false }, description: 'reads' },
    })
    expect(await json(['request', '--to', 'reader', '--objective', 'x'], { cwd })).toMatchObject({
      code: 4,
      document: { error: { code: 'E001' } },
    })
  })
})

describe('doctor', () => {
  it('finds all as it should be, and says what loses data on power loss', async () => {
    const { code, document } = await json<{ ok: boolean; checks: { name: string; state: string; mend?: string }[] }>(['doctor'], { cwd })
    expect({ code, ok: document.ok }).toEqual({ code: 0, ok: true })
    for (const name of [
      'node',
      'project',
      'sandbox',
      'credentials',
      'server',
      'jetstream',
      'payload',
      'clock',
      'stream',
      'topology',
      'consumers',
      'buckets',
      'durability',
      'audit',
      'dispatcher',
      'agents',
    ]) {
      expect(document.checks.map((check) => check.name)).toContain(name)
    }
    for (const check of document.checks) if (check.state !== 'ok') expect(check.mend, check.name).toBeTruthy()
    expect(document.checks.find(({ name }) => name === 'durability')?.state).toBe('look')
    expect((await run(['doctor'], { cwd })).stdout).toContain('✓')
  })
})
