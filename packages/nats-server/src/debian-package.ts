import { execFile } from 'node:child_process'
import { access, mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Fetching } from './official-release.js'

const run = promisify(execFile)

/** Debian suite with a sufficiently new nats-server. */
const SUITE = 'forky'
const PACKAGE = 'nats-server'
const KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg'
const MAX_MIRRORS = 3
const SYSTEM_LISTS = '/var/lib/apt/lists'

/** Extracts the base addresses of archives from the output of `apt-get indextargets` or `apt-get update --print-uris`, Debian's own first. */
export function mirrorsIn(output: string): string[] {
  const found = new Set<string>()
  for (const line of output.split('\n')) {
    const address = /^'?((?:https?|mirror\+\S+|file|ftp):\S+?)\/*(?:\/dists\/[^']*)?'?(?:\s.*)?$/.exec(line.trim())?.[1]
    if (address) found.add(address)
  }
  const rank = (address: string) => (address.endsWith('/debian') ? 0 : address.includes('security') ? 2 : 1)
  return [...found].sort((a, b) => rank(a) - rank(b))
}

/**
 * Downloads Debian's package from a suite that this machine need not be configured for: apt uses a private source and private lists, with the
 * machine's own mirror. apt verifies the suite's signature with the system's keyring; unverified packages are rejected. Needs no root.
 */
export async function fromDebian({ folder, env, progress }: Fetching): Promise<string> {
  const apt = await privateApt(folder, env)
  const mirrors = await configuredMirrors(apt)
  if (mirrors.length === 0) throw new Error('apt has no package sources on this system')
  const failures: string[] = []
  for (const mirror of mirrors.slice(0, MAX_MIRRORS)) {
    progress(`Looking for Debian’s nats-server (suite ${SUITE}) at the mirror that apt uses`)
    try {
      return await download(apt, { mirror, folder, env })
    } catch (error) {
      failures.push(`${mirror}: ${lastWords(error)}`)
    }
  }
  throw new Error(failures.join('; '))
}

interface Apt {
  get(args: string[], timeout_ms: number): Promise<string>
  sources: string
}

async function privateApt(folder: string, env: NodeJS.ProcessEnv): Promise<Apt> {
  const [sources, lists, cache, config] = ['sources', 'lists', 'cache', 'apt.conf'].map((name) => join(folder, name)) as [
    string,
    string,
    string,
    string,
  ]
  for (const made of [sources, join(lists, 'partial'), join(cache, 'archives', 'partial')]) await mkdir(made, { recursive: true })
  // Read after the machine's own settings, so proxies stay in effect. Disables the system's hooks, and keeps root from switching to a user that
  // cannot enter the folder.
  const settings = [
    '#clear APT::Update::Post-Invoke;',
    '#clear APT::Update::Post-Invoke-Success;',
    '#clear DPkg::Post-Invoke;',
    'APT::Sandbox::User "";',
    'Acquire::Languages "none";',
    'Acquire::Retries "1";',
    'Acquire::http::Timeout "10";',
    'Acquire::https::Timeout "10";',
  ]
  await writeFile(config, `${settings.join('\n')}\n`)
  return {
    sources,
    async get(args, timeout) {
      const own = ['-o', `Dir::State::Lists=${lists}`, '-o', `Dir::Cache=${cache}`]
      const { stdout } = await run('apt-get', ['-q', '-c', config, ...own, ...args], {
        cwd: folder,
        timeout,
        maxBuffer: 16 << 20,
        env: { ...env, LC_ALL: 'C.UTF-8', DEBIAN_FRONTEND: 'noninteractive' },
      })
      return stdout
    },
  }
}

/**
 * Returns the configured mirrors. `indextargets` lists what was fetched before; on a machine that never ran an update, the addresses that an update
 * would use.
 */
async function configuredMirrors(apt: Apt): Promise<string[]> {
  try {
    const known = mirrorsIn(await apt.get(['-o', `Dir::State::Lists=${SYSTEM_LISTS}`, 'indextargets', '--format', '$(SITE)'], 20_000))
    if (known.length > 0) return known
    return mirrorsIn(await apt.get(['update', '--print-uris'], 20_000))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') throw new Error('no apt-get on this system')
    throw new Error(`apt does not report its mirror: ${lastWords(error)}`)
  }
}

async function download(apt: Apt, { mirror, folder, env }: { mirror: string; folder: string; env: NodeJS.ProcessEnv }): Promise<string> {
  const keyring = await access(KEYRING).then(
    () => `Signed-By: ${KEYRING}\n`,
    () => '',
  )
  await writeFile(join(apt.sources, `${SUITE}.sources`), `Types: deb\nURIs: ${mirror}\nSuites: ${SUITE}\nComponents: main\n${keyring}`)
  const only = ['-o', 'Dir::Etc::sourcelist=/dev/null', '-o', `Dir::Etc::sourceparts=${apt.sources}`]
  await apt.get([...only, '-o', 'APT::Update::Error-Mode=any', 'update'], 90_000)
  await apt.get([...only, 'download', PACKAGE], 180_000)
  const archive = (await readdir(folder)).find((name) => name.startsWith(`${PACKAGE}_`) && name.endsWith('.deb'))
  if (!archive) throw new Error('apt downloaded nothing')
  const root = join(folder, 'root')
  await run('dpkg', ['-x', join(folder, archive), root], { timeout: 60_000, env })
  return join(root, 'usr', 'sbin', PACKAGE)
}

/** Returns the errors that a command printed, or else how it ended, in one line. */
function lastWords(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { stderr, killed } = error as Error & { stderr?: string; killed?: boolean }
  if (killed) return 'it took too long and was stopped'
  const said = (stderr ?? '').split('\n').filter((line) => /^(E:|Err:|dpkg)/.test(line))
  const text = said.length > 0 ? said.join(' ') : error.message
  const unverified = /NO_PUBKEY|not signed|GPG error|EXPKEYSIG/.test(stderr ?? '')
  return `${text.trim().slice(0, 500)}${unverified ? ' (its signature could not be verified with this system’s keyring: the package debian-archive-keyring may be too old)' : ''}`
}
