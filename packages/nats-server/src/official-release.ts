import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** Input of a source of servers: an empty folder to work in. The source returns the path of a binary in it. */
export interface Fetching {
  folder: string
  env: NodeJS.ProcessEnv
  progress: (message: string) => void
}

export interface ReleaseSource {
  /** URL of the releases; `/v<version>/<asset>` is appended. */
  base: string
  version: string
  /** Timeout in ms for the first response. Short, so that without internet access nobody waits for long. */
  answer_ms: number
  /** Timeout in ms for the whole archive. */
  download_ms: number
}

const OFFICIAL: ReleaseSource = {
  base: 'https://github.com/nats-io/nats-server/releases/download',
  // Pinned, so that the version that runs is the one that was tested.
  version: '2.15.1',
  answer_ms: 4_000,
  download_ms: 180_000,
}

const SYSTEMS: Partial<Record<NodeJS.Platform, string>> = { linux: 'linux', darwin: 'darwin', win32: 'windows', freebsd: 'freebsd' }
const MACHINES: Partial<Record<NodeJS.Architecture, string>> = {
  x64: 'amd64',
  arm64: 'arm64',
  arm: 'arm7',
  s390x: 's390x',
  ppc64: 'ppc64le',
  ia32: '386',
}

/** Returns the name of the official archive for a platform, without extension, or `undefined` if none is published. */
export function assetName(version: string, platform: NodeJS.Platform, arch: NodeJS.Architecture): string | undefined {
  const [system, machine] = [SYSTEMS[platform], MACHINES[arch]]
  return system && machine ? `nats-server-v${version}-${system}-${machine}` : undefined
}

/** Returns the checksum of a file in a SHA256SUMS text, or `undefined` if it is not listed. */
export function checksumOf(sums: string, file: string): string | undefined {
  for (const line of sums.split('\n')) {
    const match = /^([0-9a-f]{64})\s+[*]?(?:.*\/)?(\S+)\s*$/i.exec(line)
    if (match?.[2] === file) return match[1]?.toLowerCase()
  }
  return undefined
}

/** Downloads the official release for this platform. Verifies the checksum before unpacking. */
export async function fromRelease({ folder, env, progress }: Fetching, source: Partial<ReleaseSource> = {}): Promise<string> {
  const { base, version, answer_ms, download_ms } = { ...OFFICIAL, ...source }
  const name = assetName(version, process.platform, process.arch)
  if (!name) throw new Error(`no official release for ${process.platform} on ${process.arch}`)
  const file = `${name}.${process.platform === 'win32' ? 'zip' : 'tar.gz'}`
  progress(`Looking for the official nats-server ${version} at ${new URL(base).host}`)

  const sums = new TextDecoder().decode(await get(`${base}/v${version}/SHA256SUMS`, { answer_ms, download_ms: 2 * answer_ms }))
  const wanted = checksumOf(sums, file)
  if (!wanted) throw new Error(`its SHA256SUMS does not list ${file}`)
  progress(`Downloading ${file}`)
  const archive = await get(`${base}/v${version}/${file}`, { answer_ms, download_ms })
  const found = createHash('sha256').update(archive).digest('hex')
  if (found !== wanted) throw new Error(`checksum of ${file} is ${found}, but SHA256SUMS has ${wanted}; the file was deleted`)

  const path = join(folder, file)
  await writeFile(path, archive)
  // The system's tar reads both formats: Windows has included bsdtar, which unpacks zip, since 2018.
  await run('tar', ['-xf', path, '-C', folder, '--strip-components=1'], { timeout: 60_000, env })
  return join(folder, process.platform === 'win32' ? 'nats-server.exe' : 'nats-server')
}

/** Downloads a response: the first byte within answer_ms, the last within download_ms. */
async function get(url: string, limits: Pick<ReleaseSource, 'answer_ms' | 'download_ms'>): Promise<Uint8Array> {
  const stop = new AbortController()
  const whole = AbortSignal.any([stop.signal, AbortSignal.timeout(limits.download_ms)])
  const impatience = setTimeout(() => stop.abort(new Error(`no answer within ${limits.answer_ms} ms`)), limits.answer_ms)
  try {
    const response = await fetch(url, { signal: whole, redirect: 'follow' })
    clearTimeout(impatience)
    if (!response.ok) throw new Error(`${response.status} ${response.statusText}`)
    return new Uint8Array(await response.arrayBuffer())
  } catch (error) {
    throw new Error(`${url}: ${reasonOf(error)}`, { cause: error })
  } finally {
    clearTimeout(impatience)
  }
}

/** Returns the cause of a fetch() error, which contains the actual reason. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause instanceof Error ? error.cause.message : error.message
}
