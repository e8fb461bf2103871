import { join } from 'node:path'
import { authFolderOf } from '@passover/bus'
import { PROJECT_FOLDER } from '@passover/sdk/internal/project'
import type { Context } from '../connection/context.js'
import { findProject, requireOwnProject } from '../connection/project-directory.js'
import type { ServerSetting } from '../connection/settings.js'
import { CliFailure } from '../errors.js'
import { AuthFolder } from './auth-folder.js'
import type { PrincipalRecord } from './principal-records.js'

/** Returns the keys of the installation that this directory belongs to. Throws CliFailure E030 if there are none. */
export function findAuthFolder({ directory }: Pick<Context, 'directory'>): AuthFolder {
  const folder = findProject(directory) ?? join(directory, PROJECT_FOLDER)
  const auth = new AuthFolder(authFolderOf(folder))
  // Keys that came with a repository are not used, because its author knows them.
  if (auth.exists && requireOwnProject(folder)) return auth
  throw new CliFailure('E030', `there are no keys in ${auth.path}`, {
    hint: 'to create them: passover auth init, or passover up --isolated',
  })
}

/**
 * Returns the agents of a project whose credentials were revoked, and when (ms). Empty if agents are not isolated, or if this user cannot
 * read the keys.
 */
export function revokedAgents({ project }: Pick<ServerSetting, 'project'>): ReadonlyMap<string, number> {
  return new Map(agentsOf(project).flatMap(({ name, revoked_at }) => (revoked_at === undefined ? [] : [[name, revoked_at] as const])))
}

/** True if an agent has valid credentials according to the keys of a project. After a revocation this means that it was added again. */
export function isActiveAgent({ project }: Pick<ServerSetting, 'project'>, agent: string): boolean {
  return agentsOf(project).some(({ name, revoked_at }) => name === agent && revoked_at === undefined)
}

/** Returns the agents in the keys of a project, or an empty list if there are no keys or this user cannot read them. */
function agentsOf(project: string | undefined): PrincipalRecord[] {
  if (project === undefined) return []
  const auth = new AuthFolder(authFolderOf(project))
  try {
    return auth.exists ? auth.read().principals.filter(({ role }) => role === 'agent') : []
  } catch {
    return []
  }
}
