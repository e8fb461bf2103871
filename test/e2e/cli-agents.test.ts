import type { PassRow } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { cli, ECHO, json, openProject, type Project, run, until } from './cli-harness.js'

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
  it('shows how many workers there are, how busy, and no more once they stopped', async () => {
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
    two.kill('SIGTERM')
    await Promise.all([one.ended, two.ended])
    expect(await line('busy')).toMatchObject({ up: 0, busy: 0, places: 0 })
  })

  it('a pass to a known agent without workers waits, and request, list and show say why; an unknown one is refused at once', async () => {
    await run(['agents', 'add', 'idle'], { cwd })
    const why = 'Queued: 0 workers on `idle`, start one with: passover work idle -- <command>'
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
    expect(await json(['request', '--to', 'unheard-of', '--objective', 'x'], { cwd })).toMatchObject({
      code: 4,
      document: { error: { code: 'E001' } },
    })
  })
})
