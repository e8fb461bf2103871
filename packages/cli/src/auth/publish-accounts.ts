import { existsSync } from 'node:fs'
import { BusUnreachable } from '@passover/bus'
import { AccountResolver, type Installation, issueSystemUser, type SignedAccount } from '@passover/bus/auth'
import { unreachableError } from '../connection/connect-person.js'
import type { Context } from '../connection/context.js'
import { type ServerSetting, serverUrls } from '../connection/settings.js'
import { CliFailure } from '../errors.js'
import type { AuthFolder } from './auth-folder.js'

const SYSTEM_USER_LIFETIME_S = 300

/**
 * Pushes accounts to the running server over the system account, so that they take effect at once. If the project's own server is not
 * running, stores them where it loads them at its next start.
 *
 * @returns true if a running server has them
 * @throws CliFailure E040 if a server that was named explicitly cannot be reached
 */
export async function publishAccounts(
  context: Context,
  auth: AuthFolder,
  { installation, accounts }: { installation: Installation; accounts: SignedAccount[] },
): Promise<boolean> {
  const server = serverOf(context)
  if (!server) return store(auth, accounts)
  const { creds } = await issueSystemUser(installation, { expires_at: Math.floor(Date.now() / 1_000) + SYSTEM_USER_LIFETIME_S })
  try {
    const tls = server.tls ?? (existsSync(auth.authority) ? { ca: auth.authority } : undefined)
    await using resolver = await AccountResolver.open({ servers: serverUrls(server), creds, ...(tls ? { tls } : {}) })
    for (const { jwt } of accounts) await resolver.push(jwt)
    return true
  } catch (error) {
    if (server.origin === 'project' && error instanceof BusUnreachable) return store(auth, accounts)
    throw unreachableError(error, server)
  }
}

function store(auth: AuthFolder, accounts: SignedAccount[]): false {
  for (const account of accounts) auth.writeAccount(account)
  return false
}

/** Returns the server of the installation, or `undefined` if none was started yet. */
function serverOf(context: Context): ServerSetting | undefined {
  try {
    return context.server()
  } catch (error) {
    if (error instanceof CliFailure && error.code === 'E040') return undefined
    throw error
  }
}
