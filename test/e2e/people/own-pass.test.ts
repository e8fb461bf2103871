import { describe, expect, it } from 'vitest'
import { cli, ECHO, json, openProject, run, show } from '../../support/fixtures/cli.js'

interface Refusal {
  error: { code: string; message: string; hint: string }
}

/** Whether a person may decide about a pass that they asked for themselves. */
async function held(cwd: string, env: NodeJS.ProcessEnv): Promise<string> {
  const args = ['request', '--to', 'echo', '--objective', 'hello', '--hold', '--no-wait']
  const { code, document } = await json<{ id: string }>(args, { cwd, env })
  expect(code).toBe(0)
  return document.id
}

describe('a pass of one’s own', () => {
  it('is decided by the only person of a local server, as the record says, and by no agent', async () => {
    const env = { PASSOVER_AS: 'maria' }
    await using project = await openProject([], env)
    const { cwd } = project
    await using echo = cli(['work', 'echo', '--', 'node', '-e', ECHO], { cwd })
    await echo.printed('Working as echo', 'stderr')
    const id = await held(cwd, env)
    // Its subagent is not told of a held pass.
    expect(await run(['approve', id, '--as', 'echo'], { cwd })).toMatchObject({ code: 3 })
    const within = await json<Refusal>(['approve', id], { cwd, env: { ...env, PASSOVER_PARENT: '{}' } })
    expect(within).toMatchObject({ code: 4, document: { error: { code: 'E013' } } })
    const { document: inbox } = await json<{ id: string }[]>(['inbox'], { cwd, env })
    expect(inbox).toMatchObject([{ id, local_person: 'maria' }])
    const approved = await run(['approve', id, '--yes'], { cwd, env })
    expect(approved).toMatchObject({ code: 0, stdout: expect.stringContaining('as maria (self, local; unverified)') })
    expect(approved.stderr).toContain('Acting as maria (unverified: this server does not verify names)')
    const decision = { item: 'dispatch', person: 'maria', verdict: 'approve', self: 'local', unverified: true }
    expect((await show(id, cwd)).decisions).toMatchObject([decision])
    expect((await run(['show', id], { cwd, env })).stdout).toContain('maria (self, local; unverified) approves the start')
    const verified = await run(['verify'], { cwd, env })
    expect(verified, verified.stderr).toMatchObject({ code: 0 })

    // Another person’s decision about another’s pass is only unverified.
    const other = await held(cwd, { PASSOVER_AS: 'alice' })
    expect(await run(['approve', other], { cwd, env: { PASSOVER_AS: 'alice' } })).toMatchObject({ code: 4 })
    expect(await run(['approve', other, '--yes'], { cwd, env })).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('as maria (unverified)'),
    })
  })

  it('is decided by another person where several are named, and no hint suggests to take another name', async () => {
    const env = { PASSOVER_AS: 'maria' }
    await using project = await openProject([], { ...env, PASSOVER_PEOPLE: 'maria,bob' })
    const { cwd } = project
    await using echo = cli(['work', 'echo', '--', 'node', '-e', ECHO], { cwd })
    await echo.printed('Working as echo', 'stderr')
    const id = await held(cwd, env)
    const refused = await json<Refusal>(['approve', id], { cwd, env })
    expect(refused).toMatchObject({
      code: 4,
      document: { error: { code: 'E013', message: `maria takes part in ${id} and cannot approve or deny it` } },
    })
    expect(refused.document.error.hint).toContain('another person')
    expect(refused.document.error.hint).not.toContain('--as')
    expect((await show(id, cwd)).decisions).toEqual([])
  })
})
