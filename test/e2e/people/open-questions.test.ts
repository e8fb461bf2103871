import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { AgentRecord, PassRow } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { atTerminal, BIN, cli, hasTerminal, json, openProject, type Project, run, show, until } from '../../support/fixtures/cli.js'

const CTRL_C = '\u0003'

/** Commands that ask at a terminal: who leaves instead of answering ends them with 130, and nothing has been done. */
describe.skipIf(!hasTerminal())('Ctrl-C at a question', () => {
  let project: Project
  let cwd: string
  beforeAll(async () => {
    project = await openProject()
    cwd = project.cwd
    await run(['agents', 'add', 'echo'], { cwd })
  })
  afterAll(() => project?.[Symbol.asyncDispose]())

  async function leftAt(question: string, args: string[]): Promise<void> {
    await using asked = atTerminal(args, cwd)
    await asked.printed(question, 'stdout', 60_000)
    asked.child.stdin?.write(CTRL_C)
    expect((await asked.ended).code).toBe(130)
  }
  const request = async (to: string) =>
    (await json<PassRow>(['request', '--from', 'alice', '--to', to, '--objective', 'x', '--no-wait'], { cwd })).document.id

  it('of agents remove leaves the agent in the registry', async () => {
    await request('echo')
    await leftAt('Remove echo', ['agents', 'remove', 'echo'])
    expect((await json<AgentRecord[]>(['agents'], { cwd })).document).toContainEqual(expect.objectContaining({ name: 'echo' }))
  })

  it('of policy pull leaves the file as it is', async () => {
    const file = join(cwd, 'own-policy.json')
    writeFileSync(file, JSON.stringify({ defaults: { timeout_ms: 601_000 } }))
    expect(await run(['policy', 'push', file, '--as', 'maria'], { cwd })).toMatchObject({ code: 0 })
    const own = JSON.stringify({ defaults: { timeout_ms: 602_000 } })
    writeFileSync(file, own)
    await leftAt('Overwrite?', ['policy', 'pull', file])
    expect(readFileSync(file, 'utf8')).toBe(own)
  })

  it('of cancel leaves the pass and what is below it open', async () => {
    const below = `'${process.execPath}' '${BIN}' request --to echo --objective below --no-wait >&2; exec sleep 600`
    await using worker = cli(['work', 'builder', '--', 'sh', '-c', below], { cwd })
    await worker.printed('Working as builder', 'stderr', 60_000)
    const id = await request('builder')
    const children = async () => (await json<PassRow[]>(['list'], { cwd })).document.filter(({ parent }) => parent?.includes(id))
    await until('it has one below it', async () => (await children()).length === 1, 60_000)
    await leftAt('Cancel', ['cancel', id])
    expect([(await show(id, cwd)).status, (await children())[0]?.status]).toEqual(['waiting_for_return', 'waiting_for_return'])
    expect(await run(['cancel', id, '--yes'], { cwd })).toMatchObject({ code: 0 })
  })
})
