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

/** Settings and credentials of a project with isolated agents, as `passover up` needs them. */
export interface IsolatedProject extends Disposable {
  /** Settings of the project's own server. */
  readonly settings: ServerSettings
  readonly tls: TlsFiles | undefined
  /** Names of the people who have valid credentials. Updated when people are added or revoked. */
  readonly people: ReadonlySet<string>
  credentials(role: ServiceRole): Credentials
}

/** True if a project has the keys of an isolated installation. Such a project never runs without isolation again. */
export function isIsolatedProject(project: string): boolean {
  return new AuthFolder(authFolderOf(project)).exists
}

/** Creates keys if there are none, and signs the accounts again with the rights that this version of Passover grants. */
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
    credentials: (role) => ({ credsFile: auth.credentials({ role, name: serviceName(role) }) }),
    [Symbol.dispose]: () => unwatchFile(auth.keys, follow),
  }
}

function fill(people: Set<string>, { principals }: AuthRecords): void {
  people.clear()
  for (const { name, role, revoked_at } of principals) if (isPersonRole(role) && revoked_at === undefined) people.add(name)
}

/** Reads the records, or returns `undefined` while the file is moved away or restored. The people known before are kept then. */
function readOrNone(auth: AuthFolder): AuthRecords | undefined {
  try {
    return auth.read()
  } catch {
    return undefined
  }
}

/** Account that a nats-server without accounts uses. */
const COMMON_ACCOUNT = '$G'

/** Keeps data from before the project's agents were isolated. The server finds data by the name of the account, so the folder is renamed. */
function keepData(store: string, core: string): void {
  const jetstream = join(store, 'jetstream')
  const [before, now] = [join(jetstream, COMMON_ACCOUNT), join(jetstream, core)]
  if (existsSync(before) && !existsSync(now) && readdirSync(before).length > 0) renameSync(before, now)
}
