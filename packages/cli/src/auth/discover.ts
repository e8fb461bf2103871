import { join } from 'node:path'
import { type AccessFor, authFolderOf, type Credentials, projectAccess, type TlsFiles } from '@passover/bus'
import { PROJECT_FOLDER } from '@passover/sdk/project'
import type { Context } from '../context.js'
import { dateTime } from '../duration.js'
import { CliFailure } from '../failure.js'
import { findProject, requireOwn } from '../project.js'
import type { ServerSetting } from '../settings.js'
import { AuthFolder } from './auth-folder.js'

/** The keys of the installation that this directory belongs to. CliFailure E030: there are none. */
export function findAuth({ directory }: Pick<Context, 'directory'>): AuthFolder {
  const folder = findProject(directory) ?? join(directory, PROJECT_FOLDER)
  const auth = new AuthFolder(authFolderOf(folder))
  // The author of a repository knows the keys that came with it.
  if (auth.exists && requireOwn(folder)) return auth
  throw new CliFailure('E030', `there are no keys in ${auth.path}`, { hint: 'create them: passover auth init, or passover up --isolated' })
}

/** Agents of a project whose credentials were revoked, and when (ms). Empty where agents are not isolated, or this user cannot read the keys. */
export function revokedAgents({ project }: Pick<ServerSetting, 'project'>): ReadonlyMap<string, number> {
  const auth = project === undefined ? undefined : new AuthFolder(authFolderOf(project))
  try {
    const agents = auth?.exists ? auth.read().principals.filter(({ role }) => role === 'agent') : []
    return new Map(agents.flatMap(({ name, revoked_at }) => (revoked_at === undefined ? [] : [[name, revoked_at] as const])))
  } catch {
    return new Map()
  }
}

/**
 * Returns how a principal signs in at a server: with its own credentials where the project's agents are isolated, else with those that were named.
 * CliFailure E013 where it has none.
 */
export function accessTo(server: ServerSetting, who: AccessFor): { credentials?: Credentials; tls?: TlsFiles } {
  const { credentials, tls, project } = server
  const access = project === undefined ? undefined : projectAccess(project, who)
  if (!access) return { ...(credentials ? { credentials } : {}), ...(tls ? { tls } : {}) }
  if (access.credentials) return { ...access, ...(tls ? { tls } : {}) }
  const principal = who.role === 'agent' ? `agent ${who.name}` : who.role === 'person' ? `person ${who.name}` : `service ${who.role}`
  const add = `passover auth add ${principal}`
  if (access.revoked_at !== undefined)
    throw new CliFailure('E013', `credentials of ${principal} were revoked (${dateTime(access.revoked_at)})`, {
      hint: `to let it in again: ${add}`,
    })
  throw new CliFailure('E013', `${principal} was not added: this installation accepts only principals that have credentials`, { hint: add })
}
