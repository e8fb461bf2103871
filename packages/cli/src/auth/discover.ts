import { join } from 'node:path'
import { type AccessFor, authFolderOf, type Credentials, projectAccess, type TlsFiles } from '@passover/bus'
import { PROJECT_FOLDER } from '@passover/sdk/project'
import type { Context } from '../context.js'
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

/**
 * Returns how a principal signs in at a server: with its own credentials where the project's agents are isolated, else with those that were named.
 * CliFailure E013 where it has none.
 */
export function accessTo(server: ServerSetting, who: AccessFor): { credentials?: Credentials; tls?: TlsFiles } {
  const { credentials, tls, project } = server
  const access = project === undefined ? undefined : projectAccess(project, who)
  if (!access) return { ...(credentials ? { credentials } : {}), ...(tls ? { tls } : {}) }
  if (access.credentials) return { ...access, ...(tls ? { tls } : {}) }
  const add = who.role === 'agent' ? `agent ${who.name}` : who.role === 'person' ? `person ${who.name}` : `service ${who.role}`
  throw new CliFailure('E013', `${who.name} has no credentials here: this installation accepts only principals that were added`, {
    hint: `passover auth add ${add}`,
  })
}
