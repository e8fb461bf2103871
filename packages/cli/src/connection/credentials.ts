import { type AccessFor, type Credentials, projectAccess, type TlsFiles } from '@passover/bus'
import { CliFailure } from '../errors.js'
import { dateTime } from '../terminal/duration.js'
import type { ServerSetting } from './settings.js'

/**
 * Returns how a principal signs in at a server: with its own credentials where the project's agents are isolated, else with those that were named.
 * CliFailure E013 where it has none.
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
      hint: `to let it in again: ${add}`,
    })
  throw new CliFailure('E013', `${principal} was not added: this installation accepts only principals that have credentials`, { hint: add })
}
