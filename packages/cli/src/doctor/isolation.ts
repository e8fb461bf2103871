import { authFolderOf, type Credentials, credentialsFacts, isRestricted } from '@passover/bus'
import { AuthFolder } from '../auth/auth-folder.js'
import type { PrincipalRecord } from '../auth/principal-records.js'
import type { Context } from '../connection/context.js'
import { credentialsFor } from '../connection/credentials.js'
import { type ServerSetting, serverUrls } from '../connection/settings.js'
import { dateTime } from '../terminal/duration.js'
import { type Check, ok, warning } from './check.js'
import { EXPIRY_WARNING_MS } from './machine.js'

const DOCS = 'docs/operations/security.md'

/** Checks how far this installation isolates agents from each other, and whose credentials expire soon. */
export async function checkIsolation({ person }: Pick<Context, 'person'>, server: ServerSetting): Promise<Check[]> {
  const access = credentialsFor(server, { role: 'person', name: person })
  const auth = server.project === undefined ? undefined : new AuthFolder(authFolderOf(server.project))
  const restricted = await isRestricted({ servers: serverUrls(server), identity: person, ...access })
  const level = isolationLevel({ restricted, credentials: access.credentials, keys: auth?.exists ? auth.path : undefined })
  return [level, ...(auth?.exists ? checkExpiry(auth.read().principals, Date.now()) : [])]
}

interface LevelFacts {
  /** True if the server refused this person something that no person may do. */
  restricted: boolean
  credentials: Credentials | undefined
  /** Folder with the keys, if the project has them. */
  keys: string | undefined
}

/** Returns the level of isolation. Credentials of an account show that there are accounts, because only an operator signs such credentials. */
export function isolationLevel({ restricted, credentials, keys }: LevelFacts): Check {
  const name = 'isolation'
  if (!restricted) {
    const text = 'none: this server has no permissions, so any process that reaches it can act as any agent or person'
    return warning(name, text, `this is fine on your own machine with agents that you trust; otherwise: passover up --isolated (${DOCS})`)
  }
  if (keys === undefined && !credentialsFacts(credentials)) {
    const text = 'permissions only: an agent can make the server publish any message for it, including decisions of people'
    return warning(
      name,
      text,
      `give each agent an account: passover auth init (${DOCS}); passover auth check <agent> shows what is possible`,
    )
  }
  const text = 'each agent has its own account (passover auth check <agent> tests it)'
  const kept = keys === undefined ? '' : `; agents that run as your user can read the keys in ${keys}: run them as separate users`
  return ok(name, text + kept)
}

/** Names the principals whose credentials expired or expire soon. */
export function checkExpiry(principals: readonly PrincipalRecord[], now: number): Check[] {
  return principals.flatMap(({ name, expires_at, revoked_at }) => {
    if (expires_at === undefined || revoked_at !== undefined || expires_at - now > EXPIRY_WARNING_MS) return []
    const text = `of ${name} ${expires_at <= now ? 'expired' : 'expire'} ${dateTime(expires_at)}`
    return [warning('credentials', text, `passover auth rotate ${name}`)]
  })
}
