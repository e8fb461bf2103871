import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmod, copyFile, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { OLDEST_SERVER, resolveServerBinary, ServerChanged, ServerUnavailable, serverVersion } from '@passover/nats-server'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { serverBinary } from '../../support/servers/nats-process.js'
import { freePorts } from '../../support/servers/ports.js'

/** Finding or fetching a nats-server, with releases served from here and PATHs made up. */

const SYSTEM = `${process.platform}-${process.arch === 'x64' ? 'amd64' : process.arch}`

describe.skipIf(process.platform === 'win32')('resolveServerBinary', () => {
  let binary: string
  let version: string
  let archive: Buffer
  let root: string
  let env: NodeJS.ProcessEnv
  let bin: string
  const site: { server?: Server; base: string; files: Map<string, Buffer | string>; asked: string[]; silent: boolean } = {
    base: '',
    files: new Map(),
    asked: [],
    silent: false,
  }

  beforeAll(async () => {
    binary = await serverBinary()
    version = (await serverVersion(binary)) ?? ''
    const made = await mkdtemp(join(tmpdir(), 'passover-archive-'))
    const inside = join(made, `nats-server-v${version}-${SYSTEM}`)
    await mkdir(inside)
    await copyFile(binary, join(inside, 'nats-server'))
    execFileSync('tar', ['-czf', join(made, 'a.tar.gz'), '-C', made, `nats-server-v${version}-${SYSTEM}`])
    archive = await readFile(join(made, 'a.tar.gz'))
    await rm(made, { recursive: true })
    const server = createServer((request, response) => {
      site.asked.push(request.url ?? '')
      if (site.silent) return
      const found = site.files.get(request.url ?? '')
      response.writeHead(found === undefined ? 404 : 200).end(found)
    })
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
    site.server = server
    site.base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  })
  afterAll(() => {
    site.server?.closeAllConnections()
    site.server?.close()
  })

  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), 'passover-resolve-'))
    bin = join(root, 'bin')
    await mkdir(bin)
    // tar and what it calls; no apt-get, so that nothing but what a test offers can be found.
    for (const tool of ['tar', 'gzip']) await symlink(execFileSync('which', [tool], { encoding: 'utf8' }).trim(), join(bin, tool))
    env = { PATH: bin, XDG_CACHE_HOME: join(root, 'cache'), XDG_STATE_HOME: join(root, 'state') }
    site.files.clear()
    site.asked = []
    site.silent = false
  })
  afterEach(() => rm(root, { recursive: true, force: true }))

  const file = () => `nats-server-v${version}-${SYSTEM}.tar.gz`
  const publish = (content: Buffer, sum = createHash('sha256').update(content).digest('hex')) => {
    site.files.set(`/v${version}/SHA256SUMS`, `${'0'.repeat(64)}  other.tar.gz\n${sum}  ${file()}\n`)
    site.files.set(`/v${version}/${file()}`, content)
  }
  const resolve = (progress?: (message: string) => void) =>
    resolveServerBinary({ env, release: { base: site.base, version, answer_ms: patience }, ...(progress ? { progress } : {}) })
  const fake = async (folder: string, says: string) => {
    await mkdir(folder, { recursive: true })
    await writeFile(join(folder, 'nats-server'), `#!/bin/sh\necho "nats-server: v${says}"\n`)
    await chmod(join(folder, 'nats-server'), 0o755)
  }
  // A busy machine takes its time; only who waits for nothing should wait briefly.
  let patience = 30_000
  const cached = () => readdir(join(root, 'cache', 'passover', 'nats-server'))

  it('takes the one on PATH, also where an ordinary user’s PATH does not lead', async () => {
    await fake(join(root, 'sbin'), OLDEST_SERVER)
    expect(await resolve()).toEqual({ path: join(root, 'sbin', 'nats-server'), version: OLDEST_SERVER, source: 'path' })
    expect(site.asked).toEqual([])
  })

  it('passes over what is too old, or no nats-server, and says so', async () => {
    await fake(join(root, 'old'), '2.11.9')
    await writeFile(join(bin, 'nats-server'), 'no program', { mode: 0o755 })
    env.PATH = [bin, join(root, 'old')].join(delimiter)
    const refusal = await resolve().catch((error: unknown) => error)
    expect(refusal).toBeInstanceOf(ServerUnavailable)
    expect(String(refusal)).toContain(`path: too old: ${join(root, 'old', 'nats-server')} is 2.11.9`)
    await fake(join(root, 'new'), '2.13.0')
    env.PATH += delimiter + join(root, 'new')
    expect(await resolve()).toMatchObject({ version: '2.13.0', source: 'path' })
  })

  it('fetches the release once, checks it, and then has it in the cache', async () => {
    publish(archive)
    const told: string[] = []
    const first = await resolve((message) => told.push(message))
    expect(first).toMatchObject({ version, source: 'release' })
    expect(await serverVersion(first.path)).toBe(version)
    expect(told.join('\n')).toMatch(/Downloading/)
    expect(await resolve()).toEqual({ ...first, source: 'cache' })
    expect(site.asked).toHaveLength(2)
    expect(await cached()).toEqual([version])
  })

  it('throws away what its checksum does not fit', async () => {
    publish(archive, 'f'.repeat(64))
    await expect(resolve()).rejects.toThrow(/checksum of .* is .*, but SHA256SUMS has f{64}/)
    expect(await cached()).toEqual([])
  })

  it('throws away what no checksum is published of', async () => {
    publish(archive)
    site.files.set(`/v${version}/SHA256SUMS`, `${'0'.repeat(64)}  other.tar.gz\n`)
    await expect(resolve()).rejects.toThrow(/does not list/)
    expect(site.asked).toEqual([`/v${version}/SHA256SUMS`])
  })

  it('gives up on a site that does not answer', async () => {
    site.silent = true
    patience = 500
    const began = performance.now()
    await expect(resolve()).rejects.toThrow(/no answer within 500 ms/)
    patience = 30_000
    expect(performance.now() - began).toBeLessThan(patience)
  })

  it('names every source and what to do when there is nothing', async () => {
    const [port] = await freePorts(1)
    const refusal = await resolveServerBinary({ env, release: { base: `http://127.0.0.1:${port}` } }).catch((error: unknown) => error)
    expect(refusal).toMatchObject({
      tried: [{ source: 'path' }, { source: 'release' }, { source: 'debian', why: 'no apt-get on this system' }],
    })
    expect(String(refusal)).toMatch(/Install one and put it on PATH/)
  })

  it('lets four at once install it, and leaves nothing lying about', async () => {
    publish(archive)
    const found = await Promise.all([resolve(), resolve(), resolve(), resolve()])
    expect(new Set(found.map(({ path }) => path)).size).toBe(1)
    expect(await cached()).toEqual([version])
  })

  it('replaces a cached one that does not run', async () => {
    const cache = join(root, 'cache', 'passover', 'nats-server')
    await mkdir(join(cache, version), { recursive: true })
    await writeFile(join(cache, version, 'nats-server'), 'half of it', { mode: 0o755 })
    publish(archive)
    expect(await resolve()).toMatchObject({ version, source: 'release' })
    expect(await resolve()).toMatchObject({ version, source: 'cache' })
  })

  it('records the newest of several that an earlier version left, and refuses it once it is another, without running it', async () => {
    const cache = join(root, 'cache', 'passover', 'nats-server')
    for (const left of ['2.9.9', '98.0.0', '99.0.0']) await fake(join(cache, left), left)
    for (let starts = 0; starts < 2; starts++) expect(await resolve()).toMatchObject({ version: '99.0.0', source: 'cache' })
    const path = join(cache, '99.0.0', 'nats-server')
    await writeFile(path, `#!/bin/sh\ntouch ${root}/escaped\necho "nats-server: v99.0.0"\n`)
    const refusal = await resolve().catch((error: unknown) => error)
    expect(refusal).toBeInstanceOf(ServerChanged)
    expect(String(refusal)).toContain(`Remove ${join(cache, '99.0.0')} to have it installed again`)
    expect(await readdir(root)).not.toContain('escaped')
  })

  it('takes only what it installed, also where another version lies beside it or in its place', async () => {
    const cache = join(root, 'cache', 'passover', 'nats-server')
    publish(archive)
    const { path } = await resolve()
    await fake(join(cache, '99.0.0'), '99.0.0')
    const told: string[] = []
    expect(await resolve((message) => told.push(message))).toMatchObject({ path, source: 'cache' })
    expect(told).toEqual([`ignored ${join(cache, '99.0.0', 'nats-server')}, which Passover did not install`])
    await rm(join(cache, version), { recursive: true })
    expect(await resolve()).toMatchObject({ path, source: 'release' })
    await fake(join(cache, version), version)
    await expect(resolve()).rejects.toThrow(ServerChanged)
  })

  // Needs Debian's mirror, so that only CI, which has nothing else, is asked to have one.
  it.runIf(process.env.CI && process.platform === 'linux')('unpacks Debian’s own package where there is no release', async () => {
    const [port] = await freePorts(1)
    const found = await resolveServerBinary({
      env: { ...process.env, ...env, PATH: `${bin}:/usr/bin:/bin` },
      release: { base: `http://127.0.0.1:${port}` },
    })
    expect(['debian', 'path']).toContain(found.source)
  })
})
