import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { writeServerFile } from '@passover/sdk/internal/project'
import { describe, expect, it } from 'vitest'
import { cli, Folder, isAlive, json, openProject, run, serverFile, until } from '../../support/fixtures/cli.js'

async function occupy(port: number): Promise<Server> {
  const server = createServer()
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(port, '127.0.0.1', resolve))
  return server
}

describe('passover up', () => {
  it('keeps data, address and password in .passover, for its owner alone', async () => {
    await using project = await openProject()
    const folder = join(project.cwd, '.passover')
    expect(statSync(join(folder, 'server.json')).mode & 0o777).toBe(0o600)
    expect(statSync(folder).mode & 0o777).toBe(0o700)
    expect(readFileSync(join(folder, '.gitignore'), 'utf8')).toBe('*\n')
    const { url, user, password, pid } = serverFile(project.cwd)
    expect({ user, pid }).toEqual({ user: 'passover', pid: project.up.child.pid })
    expect(password.length).toBeGreaterThanOrEqual(32)
    expect(project.up.stdout).not.toContain(password)
    expect(readFileSync(join(folder, 'passover.log'), 'utf8')).not.toContain(password)
    const stranger = await run(['list', '--server', url], { cwd: '/' })
    expect(stranger).toMatchObject({ code: 5, stdout: '' })
  })

  it('runs once: the second says where, and exits 0', async () => {
    await using project = await openProject()
    const { url, pid } = serverFile(project.cwd)
    const second = await run(['up'], { cwd: project.cwd })
    expect(second).toMatchObject({ code: 0, stdout: expect.stringContaining(`Already running: ${url} (process ${pid})`) })
    expect(second.stderr).not.toContain('starting')
    const port = Number(new URL(url).port) === 4999 ? 4998 : 4999
    expect(await run(['up', '--port', String(port)], { cwd: project.cwd })).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('Already running'),
      stderr: expect.stringContaining(`does not use port ${port}`),
    })
    const { document } = await json(['up'], { cwd: project.cwd })
    expect(document).toMatchObject({ state: 'already_running', url, pid })
    expect(JSON.stringify(document)).not.toContain(serverFile(project.cwd).password)
    expect(await run(['list'], { cwd: project.cwd })).toMatchObject({ code: 0 })
  })

  it('is found from below the root of its repository, and not from elsewhere', async () => {
    await using project = await openProject()
    expect(await run(['list', '--directory', join(project.cwd, '.passover', 'nats')], { cwd: '/' })).toMatchObject({ code: 5 })
    mkdirSync(join(project.cwd, '.git'))
    expect(await run(['list', '--directory', join(project.cwd, '.passover', 'nats')], { cwd: '/' })).toMatchObject({ code: 0 })
    using elsewhere = new Folder()
    expect(await run(['list'], { cwd: elsewhere.path })).toMatchObject({ code: 5 })
  })

  it('drains at Ctrl-C, leaves nothing behind, and comes back with address, password and passes', async () => {
    using folder = new Folder()
    const first = cli(['up'], { cwd: folder.path })
    await first.printed('is up')
    const before = serverFile(folder.path)
    const server = (await json<{ server_pid: number }>(['up'], { cwd: folder.path })).document
    await run(['agents', 'add', 'reader'], { cwd: folder.path })
    first.kill('SIGINT')
    const ended = await first.ended
    expect(ended).toMatchObject({ code: 0, stderr: expect.stringContaining('Stopped.') })
    expect(serverFile(folder.path)).toEqual({ url: before.url, user: before.user, password: before.password, seal: expect.any(String) })
    expect(await run(['list'], { cwd: folder.path })).toMatchObject({ code: 5, stderr: expect.stringContaining('passover up') })
    expect(server).toBeTruthy()

    await using second = cli(['up'], { cwd: folder.path })
    await second.printed('is up')
    expect(serverFile(folder.path)).toMatchObject({ url: before.url, password: before.password })
    expect((await json<{ name: string }[]>(['agents'], { cwd: folder.path })).document.map(({ name }) => name)).toEqual(['reader'])
  })

  it('starts again after kill -9, and a worker that was connected works on', async () => {
    using folder = new Folder()
    const first = cli(['up', '--json'], { cwd: folder.path })
    await first.printed('server_pid')
    const { server_pid } = JSON.parse(first.stdout) as { server_pid: number }
    await using worker = cli(['work', 'echo', '--', 'printenv', 'PASSOVER_OBJECTIVE'], { cwd: folder.path })
    await worker.printed('Working', 'stderr')
    const before = await json<{ work_id: string }>(['request', '--to', 'echo', '--objective', 'before'], { cwd: folder.path })
    expect(before.code).toBe(0)
    first.kill('SIGKILL')
    await first.ended

    await using second = cli(['up'], { cwd: folder.path })
    await second.printed('Press Ctrl-C to stop')
    expect(second.stdout).toContain(
      '  passover work echo -- printenv PASSOVER_OBJECTIVE\n  passover request --to echo --objective "hello"\n',
    )
    expect(isAlive(server_pid)).toBe(false)
    expect(await run(['show', before.document.work_id], { cwd: folder.path })).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('before'),
    })
    // What it suggests prints the answer, and not the request as JSON.
    const after = await run(['request', '--to', 'echo', '--objective', 'hello'], { cwd: folder.path })
    expect(after).toMatchObject({ code: 0, stdout: expect.stringMatching(/^[^{]*\bhello\b[^{]*$/) })
  })

  it('says in one line that a port is taken, and takes another where the port was only remembered', async () => {
    using folder = new Folder()
    const blocker = await occupy(0)
    try {
      const address = blocker.address()
      const port = typeof address === 'object' && address ? address.port : 0
      const refused = await run(['up', '--port', String(port)], { cwd: folder.path })
      expect({ code: refused.code, stdout: refused.stdout }).toEqual({ code: 2, stdout: '' })
      expect(refused.stderr).toContain(`port ${port} on 127.0.0.1 is in use by another program`)
      writeServerFile(join(folder.path, '.passover'), { url: `nats://127.0.0.1:${port}`, user: 'passover', password: 'x'.repeat(32) })
      await using up = cli(['up'], { cwd: folder.path })
      await up.printed('is up')
      expect(serverFile(folder.path).url).not.toBe(`nats://127.0.0.1:${port}`)
      expect(await run(['list'], { cwd: folder.path })).toMatchObject({ code: 0 })
      // No repository holds both: a second server starts, and says so.
      const below = join(folder.path, 'below')
      mkdirSync(below)
      await using second = cli(['up'], { cwd: below })
      await second.printed(`passover up --directory ${folder.path}`, 'stderr')
    } finally {
      blocker.close()
    }
  })

  it('is not deceived by a process number that belongs to somebody else now', async () => {
    using folder = new Folder()
    const first = cli(['up'], { cwd: folder.path })
    await first.printed('is up')
    first.kill('SIGKILL')
    await first.ended
    writeServerFile(join(folder.path, '.passover'), { ...serverFile(folder.path), pid: process.pid })
    await using second = cli(['up'], { cwd: folder.path })
    await second.printed('is up')
    expect(serverFile(folder.path).pid).toBe(second.child.pid)
  })

  it('stops at once at the second Ctrl-C', async () => {
    using folder = new Folder()
    // Coverage is written when its handlers are gone: a Ctrl-C would then end it in the middle.
    await using up = cli(['up', '--json'], { cwd: folder.path, env: { NODE_V8_COVERAGE: undefined } })
    await up.printed('server_pid')
    const { server_pid } = JSON.parse(up.stdout) as { server_pid: number }
    up.kill('SIGINT')
    await up.printed('Stopping', 'stderr')
    const again = setInterval(() => up.kill('SIGINT'), 150)
    const { code, signal } = await up.ended
    clearInterval(again)
    // It may have stopped in good order before the second one came; then this ends what is left of it, which shells call 130 too.
    expect([0, 130]).toContain(signal === 'SIGINT' ? 130 : code)
    await until('the server has ended too', () => !isAlive(server_pid))
  })

  it('starts its server again when it was killed, on the same port, and tells so in its health; five times a minute', async () => {
    using folder = new Folder()
    await using up = cli(['up', '--json'], { cwd: folder.path })
    await up.printed('server_pid')
    const { server_pid, health, url } = JSON.parse(up.stdout) as { server_pid: number; health: string; url: string }
    type Report = { live: boolean; checks: { name: string; did?: { times: number } }[] }
    const alive = async () => (await (await fetch(`${health}/livez`)).json()) as Report
    const serverIn = ({ checks }: Report) => checks.find(({ name }) => name === 'up.server')
    let kills = 0
    const kill = async (pid: number) => {
      process.kill(pid, 'SIGKILL')
      kills += 1
      const lock = join(folder.path, '.passover', 'nats', 'server.lock')
      let next = pid
      await until('another server runs', async () => {
        next = (existsSync(lock) && (JSON.parse(readFileSync(lock, 'utf8')) as { server?: number }).server) || pid
        // Not that all are ready again: five of that may take more than a minute on a busy machine.
        return next !== pid && serverIn(await alive())?.did?.times === kills
      })
      return next
    }
    let pid = await kill(server_pid)
    const report = await alive()
    expect(report.live).toBe(true)
    expect(serverIn(report)).toMatchObject({ state: 'ok', did: { times: 1 } })
    expect(serverFile(folder.path).url).toBe(url)
    await until('all are ready again', async () => (await fetch(`${health}/readyz`)).ok)
    expect(await run(['list'], { cwd: folder.path })).toMatchObject({ code: 0 })
    for (let n = 0; n < 4; n++) pid = await kill(pid)
    process.kill(pid, 'SIGKILL')
    const said = await up.printed('start it again: passover up', 'stderr')
    expect(said).toMatch(/^✗ nats-server exited unexpectedly \(SIGKILL\), 5 times within a minute/m)
    expect(await up.ended).toMatchObject({ code: 1 })
    expect(readFileSync(join(folder.path, '.passover', 'passover.log'), 'utf8')).toMatch(/"level":50.*nats-server exited unexpectedly/)
  })

  it('names a server file that is none, with exit 2, and leaves it as it is', async () => {
    using folder = new Folder()
    mkdirSync(join(folder.path, '.passover'))
    writeFileSync(join(folder.path, '.passover', 'server.json'), '{"url":')
    for (const args of [['list'], ['up']])
      expect(await run(args, { cwd: folder.path })).toMatchObject({ code: 2, stderr: expect.stringContaining('server.json') })
  })

  it('runs on a server that is named, and then starts none', async () => {
    await using project = await openProject()
    const { url, user, password } = serverFile(project.cwd)
    using elsewhere = new Folder()
    const env = { NATS_URL: url.replace('nats://', `nats://${user}:${password}@`) }
    await using up = cli(['up', '--json'], { cwd: elsewhere.path, env })
    await up.printed('running')
    expect(JSON.parse(up.stdout)).not.toHaveProperty('server_pid')
    expect(existsSync(join(elsewhere.path, '.passover', 'nats'))).toBe(false)
    expect(await run(['list'], { cwd: elsewhere.path, env })).toMatchObject({ code: 0 })
  })
})
