import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Credentials, TlsFiles } from '../connection/credentials.js'
import type { Principal } from '../permissions/permissions.js'

/** Names a principal for its credentials file. Services are named by their role alone. */
export interface AccessFor {
  role: Principal['role']
  name: string
}

/** How a principal signs in at the server of a project. */
export interface ProjectAccess {
  /** Absent: the principal was not given any. */
  credentials?: Credentials
  tls?: TlsFiles
  /** It has no credentials because they were revoked then (ms). */
  revoked_at?: number
}

/** Folder with the keys and credentials of a project's installation. */
export function authFolderOf(project: string): string {
  return join(project, 'auth')
}

/**
 * Finds what `passover auth` keeps for a principal in a project's `.passover` folder.
 *
 * @returns `undefined` where agents are not isolated: all processes share one user
 */
export function projectAccess(project: string, who: AccessFor): ProjectAccess | undefined {
  const auth = authFolderOf(project)
  if (!existsSync(join(auth, 'keys.json'))) return undefined
  const file = credentialsPath(auth, who)
  const authority = authorityPath(auth)
  const tls = existsSync(authority) ? { tls: { ca: authority } } : {}
  if (existsSync(file)) return { credentials: { creds_file: file }, ...tls }
  const revoked_at = revokedAt(auth, who)
  return { ...tls, ...(revoked_at === undefined ? {} : { revoked_at }) }
}

/** When the credentials of a principal were revoked; undefined where they were not, or the records cannot be read. */
function revokedAt(auth: string, { role, name }: AccessFor): number | undefined {
  try {
    const { principals } = JSON.parse(readFileSync(join(auth, 'keys.json'), 'utf8')) as {
      principals: { role: string; name: string; revoked_at?: unknown }[]
    }
    const found = principals.find((one) => one.name === name && fileName(one.role as Principal['role'], name) === fileName(role, name))
    return typeof found?.revoked_at === 'number' ? found.revoked_at : undefined
  } catch {
    return undefined
  }
}

/** Path of a credentials file. An agent has the plain name; no name of an agent or person has a dot. */
export function credentialsPath(auth: string, { role, name }: AccessFor): string {
  return join(auth, 'creds', `${fileName(role, name)}.creds`)
}

/** Path of the certificate authority that clients check the server by; absent where the system knows it, or nothing is encrypted. */
export function authorityPath(auth: string): string {
  return join(auth, 'ca.pem')
}

function fileName(role: Principal['role'], name: string): string {
  if (role === 'agent') return name
  return role === 'person' || role === 'auditor' || role === 'custodian' ? `person.${name}` : `passover.${role}`
}
