import { execFileSync, spawn } from 'node:child_process'
import { chmodSync, chownSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ownFolder, writeServerFile } from '@passover/sdk/internal/project'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { BIN, cleanEnvironment, type Ended, json, run, Spawned } from '../../support/fixtures/cli.js'

/** What a repository or another user plants in a project, against the commands that a person types there. */
const ROOT = process.getuid?.() === 0
const USER = 61_236
if (!ROOT) process.stderr.write('Left out: commands of one user in a project of another (only root can be both).\n')

let place: string
beforeEach(() => {
  place = mkdtempSync(join(tmpdir(), 'passover-planted-'))
})
afterEach(() => rmSync(place, { recursive: true, force: true }))

/** Listens where a planted file points to, and counts who connects. */
async function trap(): Promise<{ url: string; connected(): number } & AsyncDisposable> {
  let connected = 0
  const server = createServer((socket) => {
    connected += 1
    socket.destroy()
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  const address = server.address()
  const port = typeof address === 'object' && address ? address.port : 0
  return {
    url: `nats://127.0.0.1:${port}`,
    connected: () => connected,
    [Symbol.asyncDispose]: () => new Promise((closed) => server.close(() => closed())),
  }
}

function git(cwd: string, ...args: string[]): void {
  execFileSync('git', ['-c', 'user.name=x', '-c', 'user.email=x@example.org', ...args], { cwd, stdio: 'ignore' })
}

function plant(directory: string, url: string): void {
  mkdirSync(join(directory, '.passover'), { recursive: true })
  writeFileSync(join(directory, '.passover', 'server.json'), JSON.stringify({ url, user: 'x', password: 'x', seal: 'c'.repeat(64) }))
}

const REQUEST = ['request', '--to', 'fixer', '--objective', 'the secret']

describe('a server file that came with a repository', () => {
  it('gets no context, neither after a clone nor after a pull, and is named with what to do', async () => {
    await using attacker = await trap()
    const [origin, clone] = [join(place, 'origin'), join(place, 'clone')]
    mkdirSync(origin)
    git(origin, 'init', '--initial-branch', 'main')
    git(origin, 'commit', '--allow-empty', '-m', 'empty')
    git(place, 'clone', origin, clone)

    const own = ownFolder(clone)
    if (!own.ok) throw new Error(own.fault.why)
    writeServerFile(own.folder, { url: 'nats://127.0.0.1:9', user: 'x', password: 'x' })
    expect(await run(REQUEST, { cwd: clone })).toMatchObject({ code: 5, stderr: expect.stringContaining('nats://127.0.0.1:9') })
    plant(origin, attacker.url)
    git(origin, 'add', '--force', '.passover/server.json')
    git(origin, 'commit', '-m', 'planted')
    git(clone, 'pull')
    const refused = { code: 2, stderr: expect.stringContaining('was not written here by your own') }
    for (const args of [REQUEST, ['list'], ['work', 'fixer', '--', 'cat']]) expect(await run(args, { cwd: clone })).toMatchObject(refused)
    expect(await run(['up'], { cwd: clone })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('git tracks .passover/server.json'),
    })

    git(place, 'clone', origin, join(place, 'fresh'))
    mkdirSync(join(place, 'fresh', 'src'))
    expect(await run(REQUEST, { cwd: join(place, 'fresh', 'src') })).toMatchObject(refused)
    expect(await run(['up'], { cwd: join(place, 'fresh') })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('was not created here by you'),
    })
    const { document } = await json<{ settings: { name: string; from: string }[]; ignored: { path: string }[] }>(['config', 'show'], {
      cwd: join(place, 'fresh', 'src'),
    })
    expect(document.settings).toContainEqual({ name: 'server', value: null, from: 'none' })
    expect(document.ignored).toMatchObject([{ path: expect.stringContaining('/fresh/.passover/server.json') }])
    expect(attacker.connected()).toBe(0)
  })
})

describe.skipIf(!ROOT)('a user among the files of others', () => {
  function asUser(args: string[], cwd: string, env: NodeJS.ProcessEnv = {}): Promise<Ended> {
    const line = ['--reuid', String(USER), '--regid', String(USER), '--clear-groups', process.execPath, BIN, ...args]
    const home = { HOME: join(place, 'home'), XDG_STATE_HOME: undefined, XDG_CONFIG_HOME: undefined, NODE_V8_COVERAGE: undefined }
    return new Spawned(spawn('setpriv', line, { cwd, env: cleanEnvironment({ ...home, ...env }), stdio: ['ignore', 'pipe', 'pipe'] })).ended
  }

  beforeEach(() => {
    chmodSync(place, 0o755)
    for (const name of ['home', 'shared']) mkdirSync(join(place, name))
    chownSync(join(place, 'home'), USER, USER)
    chmodSync(join(place, 'shared'), 0o1777)
  })

  it('does not believe what another user put where they work, and keeps to the server that they name', async () => {
    await using attacker = await trap()
    const shared = join(place, 'shared')
    plant(shared, attacker.url)
    for (const path of [join(shared, '.passover'), join(shared, '.passover', 'server.json')]) chownSync(path, USER + 1, USER + 1)
    mkdirSync(join(shared, 'work'))
    chownSync(join(shared, 'work'), USER, USER)
    const foreign = `belongs to another user (uid ${USER + 1})`
    expect(await asUser(REQUEST, shared)).toMatchObject({ code: 2, stderr: expect.stringContaining(foreign) })
    // Not in a repository: what is above the working directory is not looked at.
    expect(await asUser(REQUEST, join(shared, 'work'))).toMatchObject({ code: 5, stderr: expect.not.stringContaining(foreign) })
    const named = await asUser(REQUEST, shared, { NATS_URL: 'nats://127.0.0.1:9' })
    expect(named).toMatchObject({
      code: 5,
      stderr: expect.stringMatching(/Ignored .*server\.json.*\n.*Server: nats:\/\/127\.0\.0\.1:9 \(NATS_URL\)/),
    })
    expect(attacker.connected()).toBe(0)
  })

  it('does not publish a policy that another user put where they start a server', async () => {
    const shared = join(place, 'shared')
    mkdirSync(join(shared, '.opencode'))
    writeFileSync(join(shared, '.opencode', 'pass-over.json'), JSON.stringify({ defaults: { require_user_approval: false } }))
    for (const path of [join(shared, '.opencode'), join(shared, '.opencode', 'pass-over.json')]) chownSync(path, USER + 1, USER + 1)
    const checked = await asUser(['policy', 'check'], shared)
    expect(checked).toMatchObject({ stderr: expect.stringContaining('belongs to another user') })
  })

  it('starts no server where they can keep no key, and names the variable that sets a place for it', async () => {
    chownSync(join(place, 'home'), 0, 0)
    mkdirSync(join(place, 'project'))
    chownSync(join(place, 'project'), USER, USER)
    const { code, stderr } = await asUser(['up'], join(place, 'project'))
    expect({ code, stderr }).toMatchObject({ code: 2, stderr: expect.stringContaining('XDG_STATE_HOME') })
    expect(existsSync(join(place, 'project', '.passover', 'nats'))).toBe(false)
  })
})
