import { type AccessFor, type Credentials, projectAccess, type TlsFiles } from '@passover/bus'
import { CliFailure } from '../errors.js'
import { dateTime } from '../terminal/duration.js'
import type { ServerSetting } from './settings.js'

/**
 * Returns how a principal signs in at a server: with its own credentials if the project's agents are isolated, otherwise with those of the
 * server setting. Throws CliFailure E013 if it has none or they were revoked.
 */
export function credentialsFor(server: ServerSetting, who: AccessFor): { credentials?: Credentials; tls?: TlsFiles } {
  const { credentials, tls, project } = server
  const access = project === undefined ? undefined : projectAccess(project, who)
  if (!access) return { ...(credentials ? { credentials } : {}), ...(tls ? { tls } : {}) }
  if (access.credentials) return { ...access, ...(tls ? { tls } : {}) }
  const principal = who.role === 'agent' ? `agent ${who.name}` : who.role === 'person' ? `person ${who.name}` : `service ${who.role}`
  const add = `passover auth add ${principal}`
  if (access.revoked_at !== undefined)
    throw new CliFailure('E013', `credentials of ${principal} were revoked (${dateTime(access.revoked_at)})`, {
      hint: `to give it access again: ${add}`,
    })
  throw new CliFailure('E013', `${principal} has no credentials, and this installation accepts only principals with credentials`, {
    hint: add,
  })
}
