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
 * Oldest accepted version of nats-server: the first that rejects unknown API fields, while older ones silently ignore such settings. The contract
 * suite has passed on 2.15.1, the version that is downloaded by default.
 */
export const OLDEST_SERVER = '2.12.0'

/**
 * Oldest version of nats-server that isolates accounts: older ones let a client use `$JS.ACK.…` and `_R_.…` as the reply subject, which an import
 * passes on unchanged.
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
  /** Receives progress messages for a person, in sentences. */
  progress?: (message: string) => void
  env?: NodeJS.ProcessEnv
  /** Source and timeouts of the official release. */
  release?: Partial<ReleaseSource>
}

/** No nats-server was found or could be downloaded. `tried` contains the reason for each source. */
export class ServerUnavailable extends Error {
  override readonly name = 'ServerUnavailable'
  constructor(
    readonly tried: { source: string; why: string }[],
    needed = OLDEST_SERVER,
  ) {
    super(
      [
        `No nats-server ${needed} or newer could be found or downloaded:`,
        ...tried.map(({ source, why }) => `  ${source}: ${why}`),
        'Install one and put it on PATH (https://docs.nats.io, or your system’s package nats-server), or set NATS_URL to a running server.',
      ].join('\n'),
    )
  }
}

/** Compares two versions number by number; negative if `a` is older. */
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
 * @throws ServerUnavailable naming the required version
 */
export function requireIsolation(version: string): void {
  if (compareVersions(version, OLDEST_ISOLATING_SERVER) >= 0) return
  const why = `its version is ${version}; isolated accounts need ${OLDEST_ISOLATING_SERVER} or newer`
  throw new ServerUnavailable([{ source: 'nats-server', why }], OLDEST_ISOLATING_SERVER)
}

/** Returns the version that a binary reports, or `undefined` if it is not a nats-server or does not run here. */
export async function serverVersion(path: string): Promise<string | undefined> {
  try {
    const { stdout } = await run(path, ['--version'], { timeout: 10_000 })
    return /^nats-server: v(\d+\.\d+\.\d+\S*)/.exec(stdout)?.[1]
  } catch {
    return undefined
  }
}

/**
 * Finds or installs a sufficiently new nats-server: on PATH, in the cache, the official release (checksum verified), or Debian's own package
 * (signature verified), in this order. Needs no root and installs nothing outside of the cache. Throws ServerUnavailable, and ServerChanged if a
 * server in the cache differs from the one that was installed.
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
      progress(`nats-server ${installed.version} is installed in ${cache}`)
      return { ...installed, source }
    } catch (error) {
      tried.push({ source, why: error instanceof Error ? error.message : String(error) })
    }
  }
  throw new ServerUnavailable(tried)
}

async function findOnPath(env: NodeJS.ProcessEnv, tried: { source: string; why: string }[]): Promise<ServerBinary | undefined> {
  // Debian installs the server in sbin, which is not on the PATH of ordinary users.
  // npx adds node_modules folders to PATH, including ones that do not exist and that a command of `passover work` could create.
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
  tried.push({ source: 'path', why: seen.length > 0 ? `too old: ${seen.join(', ')}` : 'no nats-server found' })
  return undefined
}

/** Verifies a server against its record before running it, even to ask for its version. */
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

/** Downloads into a temporary folder and renames it into place, so that of two concurrent installations one wins and both can start. */
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
    if (!version) throw new Error('the downloaded program does not run on this machine')
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
      // It is not the installed server: possibly the remains of a failed attempt. Move it out of the way.
      await rename(home, `${ready}-broken-${tries}`).catch(() => {})
    }
  }
}

/** Removes the remains of interrupted installations. */
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
