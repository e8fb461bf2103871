import { type Credentials, credentialsFacts } from '@passover/bus'
import type { TrustIssue } from '@passover/sdk/internal/project'
import { type Guarantee, levelText } from '../sandbox/guarantees.js'
import type { Mechanism } from '../sandbox/mechanism.js'
import { broken, type Check, ok, warning } from './check.js'

const MIN_NODE_VERSION = [20, 19] as const
const DAY_MS = 86_400_000
/** Time before their expiry at which `doctor` warns about credentials. */
export const EXPIRY_WARNING_MS = 14 * DAY_MS
const TMPFS = 0x01021994
const MIN_FREE_BYTES = 1024 ** 3

export function checkNode(version: string): Check {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const good = major > MIN_NODE_VERSION[0] || (major === MIN_NODE_VERSION[0] && minor >= MIN_NODE_VERSION[1])
  return good
    ? ok('node', `Node ${version}`)
    : broken('node', `Node ${version} is older than ${MIN_NODE_VERSION.join('.')}`, 'install a newer Node')
}

export interface ProjectFacts {
  folder: string
  /** File mode of server.json. */
  mode: number
  ignored: boolean
  /** Reason why other files of the folder are not trusted. */
  distrust?: TrustIssue | undefined
  file_system?: { type: number; free_bytes: number } | undefined
}

export function checkProject(facts: ProjectFacts | undefined, directory: string): Check[] {
  if (!facts) return [warning('project', `no .passover/ in ${directory} or above it`, 'passover up')]
  const { folder, mode, ignored, file_system, distrust } = facts
  const checks = [
    (mode & 0o077) === 0 || process.platform === 'win32'
      ? ok('project', folder)
      : broken('project', `other users can read the password in ${folder}/server.json`, `chmod 600 ${folder}/server.json`),
  ]
  if (distrust) checks.push(broken('trust', distrust.why, distrust.hint))
  if (!ignored)
    checks.push(warning('project', `${folder} has no .gitignore: its password may be committed`, `echo '*' > ${folder}/.gitignore`))
  if (file_system?.type === TMPFS)
    checks.push(
      warning('disk', `${folder} is in memory (tmpfs): a restart of the machine loses everything`, 'run passover up in a folder on disk'),
    )
  if (file_system && file_system.free_bytes < MIN_FREE_BYTES) {
    checks.push(
      warning(
        'disk',
        `${Math.floor(file_system.free_bytes / 1024 ** 2)} MiB left on the disk of ${folder}`,
        'free disk space; a full stream accepts no requests',
      ),
    )
  }
  return checks
}

/** Checks that clients sign in, and when these credentials expire. */
export function checkCredentials(credentials: Credentials | undefined, now: number): Check {
  if (!credentials)
    return warning(
      'credentials',
      'none: every client that reaches the server may do everything',
      'configure users on the server; passover up does that automatically',
    )
  if ('user' in credentials) return ok('credentials', `user ${credentials.user}; no expiry`)
  if ('token' in credentials) return ok('credentials', 'a token; no expiry')
  const facts = credentialsFacts(credentials)
  if (facts?.expires_at === undefined) return ok('credentials', 'no expiry')
  const { name, expires_at } = facts
  const on = new Date(expires_at).toISOString()
  const mend = `passover auth rotate ${name}, or get a new credentials file from the operator of the installation`
  if (expires_at <= now) return broken('credentials', `of ${name} expired ${on}`, mend)
  const text = `of ${name} expire ${on} (in ${Math.floor((expires_at - now) / DAY_MS)} d)`
  return expires_at - now < EXPIRY_WARNING_MS ? warning('credentials', text, mend) : ok('credentials', text)
}

/** Reports how far `passover work` enforces each constraint on this machine. */
export function checkSandbox({ mechanism, guarantees }: { mechanism: Mechanism; guarantees: readonly Guarantee[] }): Check[] {
  return guarantees.map(({ constraint, level, mechanism: by }) => {
    const text = `${constraint}: ${levelText(level)} (${by})`
    return level === 'enforced' ? ok('sandbox', text) : warning('sandbox', text, remedy(constraint, mechanism))
  })
}

function remedy(constraint: Guarantee['constraint'], mechanism: Mechanism): string {
  if (mechanism.kind !== 'bubblewrap') return `install bubblewrap (bwrap) and allow user namespaces: ${mechanism.why}`
  if (constraint === 'max_memory_mb') return 'run the worker where it can create memory cgroups: systemd-run --user --scope -p Delegate=yes'
  return mechanism.network ? 'run the worker on x64 or arm64; other CPUs have no socket filter' : 'allow network namespaces'
}
