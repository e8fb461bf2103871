import { join } from 'node:path'
import { connectHttp } from '@passover/sdk/http'
import { writeServerFile } from '@passover/sdk/internal/project'
import { describe, expect, it } from 'vitest'
import { cli, json, openProject, run, serverFile } from '../../support/fixtures/cli.js'

describe('passover gateway', () => {
  it('serves the HTTP API of a project, to who has a token', async () => {
    await using project = await openProject()
    const { cwd } = project
    await using served = cli(['gateway', '--port', '0', '--json'], { cwd })
    await served.printed('running')
    await served.printed('}')
    const { url } = JSON.parse(served.stdout) as { url: string }
    const open = await fetch(`${url}/api/pass-over/agents`)
    expect(open.status).toBe(200)
    const added = await json<{ token: string; id: string }>(['gateway', 'token', 'add', '--as', 'ann', '--scope', 'read,admin'], { cwd })
    expect((await fetch(`${url}/api/pass-over/agents`)).status).toBe(401)
    const ann = connectHttp({ url, token: added.document.token })
    expect(await ann.policy.put({ defaults: { timeout_ms: 20_000 } } as never, { base: 0 })).toMatchObject({ version: 1 })
    expect((await run(['policy', 'history'], { cwd })).stdout).toContain('ann')
    const port = new URL(url).port
    const taken = await run(['gateway', '--port', port], { cwd })
    expect(taken).toMatchObject({ code: 2, stderr: expect.stringContaining(`port ${port} on 127.0.0.1 is in use by another program`) })
    expect((await run(['gateway', 'token', 'list'], { cwd })).stdout).toMatch(/person ann +read, admin/)
    expect(await run(['gateway', 'token', 'revoke', added.document.id], { cwd })).toMatchObject({ code: 0 })
    await expect(ann.agents()).rejects.toMatchObject({ code: 'E013' })
    expect(await run(['gateway', 'token', 'add', '--agent', 'alice', '--scope', 'decide'], { cwd })).toMatchObject({ code: 2 })
    const outside = await run(['gateway', '--host', '0.0.0.0', '--port', '0'], { cwd })
    expect(outside).toMatchObject({ code: 2, stderr: expect.stringContaining('because no token exists yet') })
    await run(['gateway', 'token', 'add'], { cwd })
    const nowhere = await run(['gateway', '--host', '192.0.2.1', '--port', '0'], { cwd })
    expect(nowhere).toMatchObject({ code: 2, stderr: expect.stringMatching(/cannot listen at 192.0.2.1, port 0 \(\w+\)/) })
    const below = await run(['gateway', 'token', 'add', '--tokens', join(cwd, '.passover', 'server.json', 'x')], { cwd })
    expect(below).toMatchObject({ code: 2, stderr: expect.stringContaining('cannot be written (') })
    const late = await run(['up', '--http'], { cwd })
    expect(late).toMatchObject({ code: 1, stderr: expect.stringContaining('It serves no HTTP API. To serve one, run: passover gateway') })
  })

  it('stands beside the services with passover up --http', async () => {
    await using project = await openProject(['--http', '0'])
    await project.up.printed('openapi.json')
    const http = /HTTP API at (http:[^ ]+)\/openapi.json/.exec(project.up.stdout)?.[1] ?? ''
    expect((await fetch(`${http}/readyz`)).status).toBe(200)
    const again = await run(['up', '--http'], { cwd: project.cwd })
    expect(again).toMatchObject({ code: 0, stdout: expect.stringContaining(`HTTP API at ${http}/openapi.json`) })
    const elsewhere = await json(['up', '--http', '1'], { cwd: project.cwd })
    expect(elsewhere).toMatchObject({ code: 1, document: { state: 'already_running', http, http_not_served: 1 } })
    // As it is while it starts: what it will serve, nobody knows yet.
    const { url, user, password, pid } = serverFile(project.cwd)
    writeServerFile(join(project.cwd, '.passover'), { url, user, password, ...(pid === undefined ? {} : { pid }) })
    const early = await run(['up', '--http'], { cwd: project.cwd })
    expect(early).toMatchObject({ code: 0, stdout: expect.stringContaining('is starting the server of'), stderr: '' })
    const numbers = await (await fetch(`${http}/metrics`)).text()
    expect(numbers).toContain('passover_stream{what="messages"}')
    expect(numbers).toMatch(/^process_resident_memory_bytes \d+$/m)
    // It stops before the services do, so it answers every request that it accepts.
    const status = () =>
      fetch(`${http}/api/pass-over/passes`).then(
        (answer) => answer.status,
        () => 'closed',
      )
    const seen = new Set([await status()])
    project.up.kill('SIGTERM')
    while (!seen.has('closed')) seen.add(await status())
    expect([...seen]).toEqual([200, 'closed'])
  })
})
