import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readdir, rename, rm, stat } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { ServerChecksums, sha256OfFile } from './checksums.js'
import { fromDebian } from './debian-package.js'
import { type Fetching, fromRelease, type ReleaseSource } from './official-release.js'
import { cacheFolder } from './user-folders.js'

const run = promisify(execFile)

/**
 * The oldest nats-server that is taken: the first that refuses API fields it does not know, where older ones leave a setting
 * out without a word. The contract suite has been passed on 2.15.1, the version that a fresh machine gets.
 */
export const OLDEST_SERVER = '2.12.0'

/**
 * The oldest nats-server that isolates accounts: older ones let a client name `$JS.ACK.…` and `_R_.…` as reply, which an import passes on as
 * it is.
 */
export const OLDEST_ISOLATING_SERVER = '2.14.0'

const EXECUTABLE = process.platform === 'win32' ? 'nats-server.exe' : 'nats-server'
const LEFTOVER_MS = 3_600_000

export interface ServerBinary {
  path: string
  version: string
  source: 'path' | 'cache' | 'release' | 'debian'
}

export interface BinaryOptions {
  /** Told what is being done, in sentences for a person. */
  progress?: (message: string) => void
  env?: NodeJS.ProcessEnv
  /** Where to get the official release, and how long to wait for it. */
  release?: Partial<ReleaseSource>
}

/** No nats-server was found, and none could be had. `tried` says why, source by source. */
export class ServerUnavailable extends Error {
  override readonly name = 'ServerUnavailable'
  constructor(
    readonly tried: { source: string; why: string }[],
    needed = OLDEST_SERVER,
  ) {
    super(
      [
        `No nats-server ${needed} or newer could be found or fetched:`,
        ...tried.map(({ source, why }) => `  ${source}: ${why}`),
        'Install one and put it on PATH (https://docs.nats.io, or your system’s package nats-server), or set NATS_URL to a server that runs.',
      ].join('\n'),
    )
  }
}

/** `a` compared with `b`, number by number: below 0 when older. */
export function compareVersions(a: string, b: string): number {
  const [left, right] = [a, b].map((version) => version.split(/[.-]/).map((part) => Number.parseInt(part, 10) || 0))
  for (let i = 0; i < 3; i++) {
    const difference = (left?.[i] ?? 0) - (right?.[i] ?? 0)
    if (difference !== 0) return difference
  }
  return 0
}

/**
 * Throws if a server of this version does not isolate accounts.
 *
 * @throws ServerUnavailable naming the version that is needed
 */
export function requireIsolation(version: string): void {
  if (compareVersions(version, OLDEST_ISOLATING_SERVER) >= 0) return
  const why = `it is ${version}; isolated accounts need ${OLDEST_ISOLATING_SERVER} or newer`
  throw new ServerUnavailable([{ source: 'nats-server', why }], OLDEST_ISOLATING_SERVER)
}

/** The version that a binary says it has; undefined when it is none of nats-server's or does not run here. */
export async function serverVersion(path: string): Promise<string | undefined> {
  try {
    const { stdout } = await run(path, ['--version'], { timeout: 10_000 })
    return /^nats-server: v(\d+\.\d+\.\d+\S*)/.exec(stdout)?.[1]
  } catch {
    return undefined
  }
}

/**
 * A nats-server that is new enough: on PATH, in the cache, the official release (checksum verified), or Debian's own
 * package (signature verified), in this order. Needs no root and installs nothing outside of the cache.
 * Throws ServerUnavailable, and ServerChanged for a server in the cache that is not the one that was installed.
 */
export async function resolveServerBinary(options: BinaryOptions = {}): Promise<ServerBinary> {
  const env = options.env ?? process.env
  const progress = options.progress ?? (() => {})
  const tried: { source: string; why: string }[] = []

  const onPath = await findOnPath(env, tried)
  if (onPath) return onPath
  const cache = cacheFolder(env)
  const checksums = new ServerChecksums(env, progress)
  const cached = await findInCache(cache, checksums, progress)
  if (cached) return cached

  const unwritable = await mkdir(cache, { recursive: true, mode: 0o700 }).then(
    () => undefined,
    (error: NodeJS.ErrnoException) => error.code ?? error.message,
  )
  if (unwritable !== undefined) {
    const why = `${cache} cannot be written (${unwritable}); set XDG_CACHE_HOME to a folder that you can write`
    throw new ServerUnavailable([...tried, { source: 'cache', why }])
  }
  const sources = [
    { source: 'release' as const, fetch: (into: Fetching) => fromRelease(into, options.release) },
    { source: 'debian' as const, fetch: fromDebian },
  ]
  for (const { source, fetch } of sources) {
    try {
      const installed = await install({ cache, checksums }, { env, progress }, fetch)
      progress(`nats-server ${installed.version} is ready in ${cache}`)
      return { ...installed, source }
    } catch (error) {
      tried.push({ source, why: error instanceof Error ? error.message : String(error) })
    }
  }
  throw new ServerUnavailable(tried)
}

async function findOnPath(env: NodeJS.ProcessEnv, tried: { source: string; why: string }[]): Promise<ServerBinary | undefined> {
  // Debian puts the server into sbin, where the PATH of ordinary users does not lead.
  // npx puts folders of node_modules in PATH, also such as do not exist and a command of `passover work` could make.
  const trusted = (env.PATH ?? '').split(delimiter).filter((folder) => !/[\\/]node_modules[\\/]\.bin[\\/]?$/.test(folder))
  const folders = trusted.flatMap((folder) => [folder, folder.replace(/\/bin\/?$/, '/sbin')])
  const seen: string[] = []
  for (const folder of new Set(folders.filter(Boolean))) {
    const path = join(folder, EXECUTABLE)
    const version = (await isFile(path)) ? await serverVersion(path) : undefined
    if (!version) continue
    if (compareVersions(version, OLDEST_SERVER) >= 0) return { path, version, source: 'path' }
    seen.push(`${path} is ${version}`)
  }
  tried.push({ source: 'path', why: seen.length > 0 ? `too old: ${seen.join(', ')}` : 'no nats-server there' })
  return undefined
}

/** A server is compared with its record before anything of it runs, also for its version. */
async function findInCache(cache: string, checksums: ServerChecksums, say: (message: string) => void): Promise<ServerBinary | undefined> {
  const versions = (await readdir(cache).catch(() => [])).filter((name) => /^\d/.test(name)).sort(compareVersions)
  for (const name of versions.reverse()) {
    const path = join(cache, name, EXECUTABLE)
    if (!(await isFile(path))) continue
    const standing = await checksums.check(path, cache)
    if (standing === 'unrecorded') {
      say(`ignored ${path}, which Passover did not install`)
      continue
    }
    const version = await serverVersion(path)
    if (!version || compareVersions(version, OLDEST_SERVER) < 0) continue
    if (standing === 'no_records') await checksums.record(path)
    return { path, version, source: 'cache' }
  }
  return undefined
}

/** Fetches into a folder of its own and renames that into place, so that of two processes at once one wins and both can start. */
async function install(
  { cache, checksums }: { cache: string; checksums: ServerChecksums },
  context: Omit<Fetching, 'folder'>,
  fetch: (into: Fetching) => Promise<string>,
): Promise<{ path: string; version: string }> {
  await sweep(cache)
  const folder = await mkdtemp(join(cache, '.new-'))
  try {
    const fetched = await fetch({ ...context, folder })
    const version = await serverVersion(fetched)
    if (!version) throw new Error('what was fetched does not run on this machine')
    if (compareVersions(version, OLDEST_SERVER) < 0) throw new Error(`it has only ${version}`)
    const ready = join(folder, 'ready')
    await mkdir(ready)
    await rename(fetched, join(ready, EXECUTABLE))
    const home = join(cache, version)
    const sum = await checksums.record(join(ready, EXECUTABLE), join(home, EXECUTABLE))
    return { path: await settle(ready, home, sum), version }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function settle(ready: string, home: string, sum: string): Promise<string> {
  const path = join(home, EXECUTABLE)
  for (let tries = 0; ; tries++) {
    try {
      await rename(ready, home)
      return path
    } catch (error) {
      if ((await sha256OfFile(path).catch(() => undefined)) === sum) return path
      if (tries > 2) throw error
      // It is not what was installed: an older attempt that broke, for example. It is moved out of the way.
      await rename(home, `${ready}-broken-${tries}`).catch(() => {})
    }
  }
}

/** Removes what killed installations left behind. */
async function sweep(cache: string): Promise<void> {
  for (const name of await readdir(cache)) {
    if (!name.startsWith('.new-')) continue
    const folder = join(cache, name)
    const made = await stat(folder).catch(() => undefined)
    if (made && Date.now() - made.mtimeMs > LEFTOVER_MS) await rm(folder, { recursive: true, force: true })
  }
}

async function isFile(path: string): Promise<boolean> {
  const found = await stat(path).catch(() => undefined)
  return found?.isFile() ?? false
}
