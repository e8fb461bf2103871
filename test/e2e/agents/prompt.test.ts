import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { json, openProject, type Project, run } from '../../support/fixtures/cli.js'

let project: Project
let cwd: string

beforeAll(async () => {
  project = await openProject()
  cwd = project.cwd
  for (const args of [
    ['alice', '--no-subagent'],
    ['reader', '--description', 'reads what is there'],
    ['idler', '--originates', 'never'],
  ])
    await run(['agents', 'add', ...args], { cwd })
})
afterAll(() => project?.[Symbol.asyncDispose]())

interface Made {
  agent: string
  template: string
  policy_version: number
  prompt: string
}

describe('agents prompt', () => {
  it('prints an agent’s prompt, which names who is registered now', async () => {
    const { code, stdout, stderr } = await run(['agents', 'prompt', 'alice'], { cwd })
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toContain('You are `alice`')
    expect(stdout).toContain('- `reader`, which describes itself as "reads what is there"')
    expect(stdout).toContain("subagent: 'idler'")
    expect(stdout.endsWith('\n')).toBe(true)
    await run(['agents', 'add', 'idler', '--no-subagent'], { cwd })
    const now = await run(['agents', 'prompt', 'alice'], { cwd })
    expect(now.stdout).toContain("subagent: 'reader'")
    expect(now.stdout).not.toContain('idler')
  })

  it('takes the template that fits, or the one that is named', async () => {
    const reader = await json<Made>(['agents', 'prompt', 'reader'], { cwd })
    expect(reader).toMatchObject({ code: 0, document: { agent: 'reader', template: 'audit', policy_version: 0 } })
    const named = await json<Made>(['agents', 'prompt', 'reader', '--template', 'scout'], { cwd })
    expect(named.document).toMatchObject({ template: 'scout', prompt: expect.stringContaining('You may not pass work to any agent') })
  })

  it('follows the live policy', async () => {
    expect(await run(['policy', 'disable', 'alice', 'reader', '--reason', 'on leave'], { cwd })).toMatchObject({ code: 0 })
    const { document } = await json<Made>(['agents', 'prompt', 'alice'], { cwd })
    expect(document.policy_version).toBe(1)
    expect(document.prompt).not.toContain('reader')
    expect(document.prompt).toContain('You may not pass work to any agent now')
  })

  it('refuses an agent that is not there (3) and a template that is not (2)', async () => {
    expect(await json(['agents', 'prompt', 'nobody'], { cwd })).toMatchObject({
      code: 3,
      document: { error: { code: 'E041', hint: expect.stringContaining('passover agents') } },
    })
    expect(await run(['agents', 'prompt', 'reader', '--template', 'poet'], { cwd })).toMatchObject({ code: 2, stdout: '' })
    expect(await run(['agents', 'prompt'], { cwd })).toMatchObject({ code: 2, stdout: '' })
  })
})
