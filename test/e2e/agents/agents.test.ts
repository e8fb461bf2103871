import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { PassRow } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { cli, ECHO, json, openProject, type Project, run, until } from '../../support/fixtures/cli.js'

interface Line {
  name: string
  up: number
  busy: number
  places: number
  queued: number
}

let project: Project
let cwd: string

beforeAll(async () => {
  project = await openProject()
  cwd = project.cwd
})
afterAll(() => project?.[Symbol.asyncDispose]())

const lines = async () => (await json<Line[]>(['agents'], { cwd })).document
const line = async (name: string) => (await lines()).find((one) => one.name === name)

describe('who is up', () => {
  it('shows how many workers there are, how busy, and no more once one stopped; who removes the agent hears who is left', async () => {
    await using one = cli(['work', 'busy', '--concurrency', '2', '--', 'sleep', '600'], { cwd })
    await using two = cli(['work', 'busy', '--concurrency', '3', '--', 'sleep', '600'], { cwd })
    await Promise.all([one.printed('Working as busy', 'stderr'), two.printed('Working as busy', 'stderr')])
    const { code, document } = await json<{ id: string }>(['request', '--to', 'busy', '--objective', 'x', '--no-wait'], { cwd })
    expect(code).toBe(0)
    await until('one of five places is taken', async () => {
      const { up, busy, places } = (await line('busy')) ?? { up: 0, busy: 0, places: 0 }
      return up === 2 && busy === 1 && places === 5
    })
    expect((await run(['agents'], { cwd })).stdout).toMatch(/^busy +yes +within a pass +2 +1\/5 /m)
    await run(['cancel', document.id, '--yes'], { cwd })
    one.kill('SIGTERM')
    await one.ended
    await until('one is left, idle', async () => {
      const { up, busy, places } = (await line('busy')) ?? {}
      return up === 1 && busy === 0 && places === 3
    })
    const removed = await run(['agents', 'remove', 'busy', '--yes'], { cwd })
    expect(removed).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/1 worker of it is still running[\s\S]*passover agents add busy/),
    })
    two.kill('SIGTERM')
    await two.ended
    expect(await line('busy')).toBeUndefined()
  })

  it('a pass to a known agent without workers waits, and request, list and show say why; an unknown one is refused at once', async () => {
    await run(['agents', 'add', 'idle'], { cwd })
    const why = 'Queued: no workers on `idle`; to start one: passover work idle -- <command>'
    const asked = await run(['request', '--to', 'idle', '--objective', 'x', '--no-wait', '--timeout', '10m'], { cwd })
    expect(asked).toMatchObject({ code: 0, stderr: expect.stringContaining(why) })
    const id = asked.stdout.trim()
    expect((await run(['list'], { cwd })).stderr).toContain(why)
    expect((await run(['show', id], { cwd })).stderr).toContain(why)
    const { document } = await json<(PassRow & { workers?: number })[]>(['list', '--to', 'idle'], { cwd })
    expect(document).toMatchObject([{ id, workers: 0 }])
    expect((await json(['show', id], { cwd })).document).toMatchObject({ id, workers: 0 })
    await using worker = cli(['work', 'idle', '--', 'node', '-e', ECHO], { cwd })
    await until('it is worked on', async () => (await json<PassRow>(['show', id], { cwd })).document.status === 'returned')
    expect((await run(['list'], { cwd })).stderr).not.toContain(why)
    worker.kill('SIGTERM')
    await worker.ended
    const misspelt = await json<{ error: { hint: string } }>(['request', '--to', 'idel', '--objective', 'x'], { cwd })
    expect(misspelt).toMatchObject({ code: 4, document: { error: { hint: expect.stringContaining('Did you mean idle?') } } })
    expect(await json(['request', '--to', 'unheard-of', '--objective', 'x'], { cwd })).toMatchObject({
      code: 4,
      document: { error: { code: 'E001' } },
    })
  })
})

describe('the registry', () => {
  const file = (name: string, document: unknown) => {
    writeFileSync(join(cwd, name), JSON.stringify(document))
    return name
  }

  it('refuses an output_schema that would refuse every output (E030), and stores nothing', async () => {
    const schema = file('away.json', { $ref: 'https://example.com/elsewhere.json' })
    expect(await json(['agents', 'add', 'away', '--output-schema', schema], { cwd })).toMatchObject({
      code: 2,
      document: { error: { code: 'E030', message: expect.stringContaining('https://example.com/elsewhere.json') } },
    })
    expect((await run(['agents', 'show', 'away'], { cwd })).code).toBe(3)
  })

  it('keeps what is said of an agent, by flags or a file, and shows it', async () => {
    const schema = file('schema.json', { type: 'object', required: ['verdict'] })
    const added = await json(
      [
        ...['agents', 'add', 'judge', '--description', 'judges', '--skill', 'law', '--skill', 'order', '--output-schema', schema],
        ...['--max-active', '2', '--max-passes-per-minute', '30', '--max-compute-time', '5s', '--max-memory', '64'],
        ...['--default', 'can_modify_files=true', '--as', 'bob'],
      ],
      { cwd },
    )
    const defaults = {
      max_active: 2,
      max_passes_per_minute: 30,
      max_compute_time_ms: 5_000,
      max_memory_mb: 64,
      can_modify_files: true,
      output_schema: { type: 'object', required: ['verdict'] },
    }
    const record = { name: 'judge', description: 'judges', skills: ['law', 'order'], defaults, registered_by: 'bob' }
    expect(added).toMatchObject({ code: 0, document: record })
    await run(['agents', 'set', 'judge', '--durable-returns', '--as', 'bob'], { cwd })
    expect((await run(['agents', 'show', 'judge'], { cwd })).stdout).toMatch(/returns +are kept until it acknowledges them/)
    expect((await run(['agents'], { cwd })).stdout).toMatch(/RETURNS[\s\S]*^judge .* wait /m)
    await run(['agents', 'set', 'judge', '--no-durable-returns', '--as', 'bob'], { cwd })
    expect((await json(['agents', 'show', 'judge'], { cwd })).document).toMatchObject({ ...record, workers: { up: 0 } })
    expect((await run(['agents', 'show', 'judge'], { cwd })).stdout).toMatch(/judge[\s\S]*law, order[\s\S]*max_active +2/)
    expect((await json(['agents', 'set', 'judge', '--unset', 'max_active', '--originates', 'never'], { cwd })).document).toMatchObject({
      roles: { originates: 'never', subagent: true },
      description: 'judges',
      defaults: { max_passes_per_minute: 30 },
    })
    const given = file('judge.json', { roles: { originates: 'always', subagent: true }, description: 'from a file' })
    const replaced = (await json<object>(['agents', 'add', 'judge', '--file', given], { cwd })).document
    expect(replaced).toMatchObject({ description: 'from a file', roles: { originates: 'always' } })
    expect(replaced).not.toHaveProperty('defaults')
  })

  it('refuses what is wrong, and whom it does not know', async () => {
    expect(await json(['agents', 'add', 'bad', '--default', 'max_activ=3'], { cwd })).toMatchObject({
      code: 2,
      document: { error: { code: 'E030', message: expect.stringContaining('max_activ') } },
    })
    expect(await json(['agents', 'add', 'bad', '--file', 'no-such.json'], { cwd })).toMatchObject({ code: 2 })
    // One that only passes work over is not registered: the hint says how it is.
    const hint = expect.stringContaining('passover agents add stranger --no-subagent')
    for (const verb of ['set', 'show', 'remove', 'prompt']) {
      expect(await json(['agents', verb, 'stranger'], { cwd })).toMatchObject({ code: 3, document: { error: { code: 'E041', hint } } })
    }
  })

  it('lets go of an agent, with passes to it open only when told so', async () => {
    const added = await run(['agents', 'add', 'leaver'], { cwd })
    expect(added.stdout).toContain('passover agents set leaver --originates always')
    const { document } = await json<{ id: string }>(['request', '--to', 'leaver', '--objective', 'x', '--no-wait', '--timeout', '10m'], {
      cwd,
    })
    await until(
      'it is admitted',
      async () => (await json<PassRow>(['show', document.id], { cwd })).document.status === 'waiting_for_return',
    )
    expect(await json(['agents', 'remove', 'leaver'], { cwd })).toMatchObject({
      code: 2,
      document: { error: { message: expect.stringContaining('1 pass to leaver'), hint: expect.stringContaining('--yes') } },
    })
    expect((await json(['agents', 'remove', 'leaver', '--dry-run'], { cwd })).document).toMatchObject({ dry_run: true, open: 1 })
    expect(await line('leaver')).toBeDefined()
    expect(await json(['agents', 'remove', 'leaver', '--yes'], { cwd })).toMatchObject({ code: 0, document: { removed: true, open: 1 } })
    expect(await line('leaver')).toBeUndefined()
    const again = ['request', '--to', 'leaver', '--objective', 'x']
    expect(await json(again, { cwd })).toMatchObject({ code: 4, document: { error: { code: 'E001' } } })
  })
})
