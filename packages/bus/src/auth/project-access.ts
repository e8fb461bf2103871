import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Credentials, TlsFiles } from '../connection/credentials.js'
import { readRegularFileSync } from '../connection/regular-file.js'
import type { Principal } from '../permissions/permissions.js'

/** Identifies a principal's credentials file. Services are named by their role alone. */
export interface AccessFor {
  role: Principal['role']
  name: string
}

/** Credentials of a principal for a project's server. */
export interface ProjectAccess {
  /** Missing if the principal was not given any. */
  credentials?: Credentials
  tls?: TlsFiles
  /** Time in ms at which its credentials were revoked, if they were. */
  revoked_at?: number
}

/** Returns the folder with the keys and credentials of a project's installation. */
export function authFolderOf(project: string): string {
  return join(project, 'auth')
}

/**
 * Finds a principal's credentials from `passover auth` in a project's `.passover` folder.
 *
 * @returns `undefined` if agents are not isolated, that is, all processes share one user
 */
export function projectAccess(project: string, who: AccessFor): ProjectAccess | undefined {
  const auth = authFolderOf(project)
  if (!existsSync(join(auth, 'keys.json'))) return undefined
  const file = credentialsPath(auth, who)
  const authority = authorityPath(auth)
  const tls = existsSync(authority) ? { tls: { ca: authority } } : {}
  if (existsSync(file)) return { credentials: { credsFile: file }, ...tls }
  const revoked_at = revokedAt(auth, who)
  return { ...tls, ...(revoked_at === undefined ? {} : { revoked_at }) }
}

/** Maximum size of `keys.json` in bytes. */
const MAX_KEYS_BYTES = 64 * 1024 * 1024

/** Returns when a principal's credentials were revoked (ms), or `undefined` if they were not or the records cannot be read. */
function revokedAt(auth: string, { role, name }: AccessFor): number | undefined {
  try {
    const { principals } = JSON.parse(readRegularFileSync(join(auth, 'keys.json'), { max: MAX_KEYS_BYTES }).toString()) as {
      principals: { role: string; name: string; revoked_at?: unknown }[]
    }
    const found = principals.find((one) => one.name === name && fileName(one.role as Principal['role'], name) === fileName(role, name))
    return typeof found?.revoked_at === 'number' ? found.revoked_at : undefined
  } catch {
    return undefined
  }
}

/** Returns the path of a credentials file. An agent's has its plain name, since names of agents and people never contain a dot. */
export function credentialsPath(auth: string, { role, name }: AccessFor): string {
  return join(auth, 'creds', `${fileName(role, name)}.creds`)
}

/**
 * Returns the path of the certificate authority with which clients verify the server. The file is missing if the system trusts the authority, or
 * without TLS.
 */
export function authorityPath(auth: string): string {
  return join(auth, 'ca.pem')
}

function fileName(role: Principal['role'], name: string): string {
  if (role === 'agent') return name
  return role === 'person' || role === 'auditor' || role === 'custodian' ? `person.${name}` : `passover.${role}`
}
