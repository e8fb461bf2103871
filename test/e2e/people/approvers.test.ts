import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { PassRow } from '@passover/schemas'
import { type Agent, verifyWebhook } from '@passover/sdk'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { cli, ECHO, Folder, json, openProject, run, show, until } from '../../support/fixtures/cli.js'

const hold = { hold_before_dispatch: true }
const document = { pairs: { 'alice->vault': { ...hold, approvers: ['maria'] }, 'alice->brief': { ...hold, approval_expires_ms: 1_000 } } }

let world: AgentWorld
let folder: Folder
let alice: Agent
beforeAll(async () => {
  world = await AgentWorld.start({ dispatchers: [{ policy: { version: 1, document } }], audit: { open: true } } as never)
  folder = new Folder()
  alice = await world.agent('alice')
  for (const name of ['vault', 'brief']) await (await world.agent(name)).onPass(() => 'opened')
})
afterAll(async () => {
  folder?.[Symbol.dispose]()
  await world?.[Symbol.asyncDispose]()
})

/** A command as it is typed where that server is named. */
const at = () => ({ cwd: folder.path, env: { PASSOVER_SERVER: world.world.nats.url } })
const ask = (subagent: string) => alice.passOver({ subagent, reason: 'x', work_context: { objective: 'open it' } })
const waits = (id: string) =>
  until(`${id} waits`, async () => (await json<{ id: string }[]>(['inbox'], at())).document.some((item) => item.id === id))

describe('who may decide', () => {
  it('are the approvers of the policy: another is told so, exit 4, and nothing is stored', async () => {
    const handle = ask('vault')
    await waits(handle.id)
    const refused = await json<{ error: { message: string; hint: string } }>(['approve', handle.id, '--as', 'bob'], at())
    expect(refused).toMatchObject({
      code: 4,
      document: { error: { code: 'E013', message: expect.stringContaining('the approvers in its policy are maria') } },
    })
    expect(refused.document.error.hint).toBe(`ask one of them to run: passover approve ${handle.id}`)
    const shown = await json<{ timeline: { kind: string }[] }>(['show', handle.id], at())
    expect(shown.document.timeline.map(({ kind }) => kind)).not.toContain('decision')
    expect((await json<unknown[]>(['inbox', '--mine', '--as', 'bob'], at())).document).toEqual([])
    expect(await run(['approve', handle.id, '--yes', '--as', 'maria'], at())).toMatchObject({ code: 0 })
    expect((await handle).output).toBe('opened')
  })

  it('can do so until it expires: then it is denied, exit 6', async () => {
    const handle = ask('brief')
    await expect(handle).rejects.toMatchObject({ code: 'E013', context: { approval: 'expired' } })
    const late = await json<{ error: { code: string } }>(['approve', handle.id, '--as', 'maria'], at())
    expect(late).toMatchObject({ code: 6, document: { error: { code: 'E013' } } })
  })
})

describe('notifications', () => {
  it('are a line of their own in watch, and alone with --notifications', async () => {
    await using all = cli(['watch', '--from', 'alice', '--to', 'vault'], at())
    await using only = cli(['watch', '--from', 'alice', '--notifications', '--jsonl'], at())
    let id = ''
    await until('both watch', async () => {
      const handle = ask('vault')
      handle.catch(() => undefined)
      await waits(handle.id)
      id = handle.id
      return [all, only].every(({ stdout }) => stdout.includes(id))
    })
    await run(['approve', id, '--yes', '--as', 'maria'], at())
    await all.printed(new RegExp(`▶ alice → vault  ${id}  returned: completed: opened`))
    expect(all.stdout).toMatch(
      new RegExp(`▶ alice → vault  ${id}  waits for approval of its start: passover approve ${id} --item dispatch`),
    )
    expect(all.stdout).toMatch(/ work {2,}/)
    await only.printed(/"event":"return"/)
    const lines = only.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { kind: string; notice: { event: string; pass: { id: string } } })
    expect(lines.every(({ kind }) => kind === 'notification')).toBe(true)
    expect(lines.filter(({ notice }) => notice.pass.id === id).map(({ notice }) => notice.event)).toEqual(['approval', 'return'])
  })

  it('are posted by `up` where a webhook is set; one without a secret is a usage error', async () => {
    const got: { body: string; signature: string }[] = []
    const server = createServer((request, response) => {
      let body = ''
      request.setEncoding('utf8').on('data', (text: string) => {
        body += text
      })
      request.on('end', () => {
        got.push({ body, signature: String(request.headers['passover-signature']) })
        response.end()
      })
    })
    await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready))
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const secret = 'a secret of this test'
    using bare = new Folder()
    const refused = await json(['up'], { cwd: bare.path, env: { PASSOVER_WEBHOOK_URL: url } })
    expect(refused).toMatchObject({
      code: 2,
      document: { error: { code: 'E042', message: expect.stringContaining('PASSOVER_WEBHOOK_SECRET') } },
    })
    await using project = await openProject([], { PASSOVER_WEBHOOK_URL: url, PASSOVER_WEBHOOK_SECRET: secret })
    const { cwd } = project
    await using echo = cli(['work', 'echo', '--', 'node', '-e', ECHO], { cwd })
    await echo.printed('Working as echo', 'stderr')
    const { document: row } = await json<PassRow>(['request', '--to', 'echo', '--objective', 'hello', '--no-wait'], { cwd })
    await until('it is told', () => got.some(({ body }) => JSON.parse(body).pass.id === row.id))
    expect((await show(row.id, cwd)).status).toBe('returned')
    const { body, signature } = got.find((one) => JSON.parse(one.body).pass.id === row.id)!
    expect(verifyWebhook({ body, signature, secret })).toMatchObject({ ok: true })
    expect(JSON.parse(body)).toMatchObject({ event: 'return', outcome: 'completed', issues: false, summary: 'hello\n' })
    await new Promise<void>((done) => server.close(() => done()))
  })
})
