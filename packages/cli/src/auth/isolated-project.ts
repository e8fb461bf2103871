import { existsSync, readdirSync, renameSync, unwatchFile, watchFile } from 'node:fs'
import { join } from 'node:path'
import { authFolderOf, type Credentials, type TlsFiles } from '@passover/bus'
import { operatorSettings } from '@passover/bus/auth'
import type { ServerSettings } from '@passover/nats-server'
import type { Context } from '../connection/context.js'
import { AuthFolder } from './auth-folder.js'
import { configureTls, setUpInstallation, type TlsOptions } from './init.js'
import { refreshAccounts } from './issue-credentials.js'
import { type AuthRecords, isPersonRole, type ServiceRole, serviceName } from './principal-records.js'

const POLL_INTERVAL_MS = 1_000

/** What `passover up` needs of a project whose agents are isolated. */
export interface IsolatedProject extends Disposable {
  /** For the project's own server. */
  readonly settings: ServerSettings
  readonly tls: TlsFiles | undefined
  /** Names of the people who have credentials now; people who are added or revoked meanwhile are followed. */
  readonly people: ReadonlySet<string>
  credentials(role: ServiceRole): Credentials
}

/** Whether a project has the keys of an isolated installation: it is never run without isolation again. */
export function isIsolatedProject(project: string): boolean {
  return new AuthFolder(authFolderOf(project)).exists
}

/** Creates keys where there are none, and signs the accounts with the rights that this version of Passover gives. */
export async function openIsolatedProject(
  project: string,
  who: Pick<Context, 'person' | 'env'>,
  tls: TlsOptions,
): Promise<IsolatedProject> {
  const auth = new AuthFolder(authFolderOf(project))
  if (!auth.exists) await setUpInstallation(auth, who)
  const records = await auth.change(async (found) => {
    for (const account of await refreshAccounts(found)) if (account.id !== found.installation.core.id) auth.writeAccount(account)
    configureTls(auth, found, tls)
    return found
  })
  keepData(join(project, 'nats'), records.installation.core.id)
  const people = new Set<string>()
  fill(people, records)
  const follow = () => {
    const now = readOrNone(auth)
    if (now) fill(people, now)
  }
  watchFile(auth.keys, { interval: POLL_INTERVAL_MS, persistent: false }, follow)
  return {
    settings: {
      operator: operatorSettings(records.installation, auth.accounts),
      ...(records.tls ? { tls: { cert: records.tls.cert, key: records.tls.key } } : {}),
    },
    tls: records.tls?.ca ? { ca: auth.authority } : undefined,
    people,
    credentials: (role) => ({ creds_file: auth.credentials({ role, name: serviceName(role) }) }),
    [Symbol.dispose]: () => unwatchFile(auth.keys, follow),
  }
}

function fill(people: Set<string>, { principals }: AuthRecords): void {
  people.clear()
  for (const { name, role, revoked_at } of principals) if (isPersonRole(role) && revoked_at === undefined) people.add(name)
}

/** Undefined while the file is moved away or restored: the people known before stay. */
function readOrNone(auth: AuthFolder): AuthRecords | undefined {
  try {
    return auth.read()
  } catch {
    return undefined
  }
}

/** The account of a server without accounts. */
const COMMON_ACCOUNT = '$G'

/** Data that the project had before its agents were isolated stays: the server finds it by the account's name. */
function keepData(store: string, core: string): void {
  const jetstream = join(store, 'jetstream')
  const [before, now] = [join(jetstream, COMMON_ACCOUNT), join(jetstream, core)]
  if (existsSync(before) && !existsSync(now) && readdirSync(before).length > 0) renameSync(before, now)
}
