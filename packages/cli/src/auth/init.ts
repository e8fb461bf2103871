import { readFileSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Principal } from '@passover/bus'
import { createInstallation, operatorSettings } from '@passover/bus/auth'
import { serverConfig } from '@passover/nats-server'
import type { Context } from '../connection/context.js'
import { createProject } from '../connection/project-directory.js'
import { usage } from '../errors.js'
import { formatCommands } from '../terminal/text.js'
import { AuthFolder } from './auth-folder.js'
import { addPrincipal } from './issue-credentials.js'
import { type AuthRecords, SERVICE_ROLES } from './principal-records.js'
import { writePrivateFile } from './private-file.js'
import { createDevelopmentTls, loadTls, type ServerTls } from './tls.js'

export interface TlsOptions {
  tls?: boolean
  tlsCert?: string
  tlsKey?: string
  tlsCa?: string
}

/** Creates keys and accounts of an installation, with credentials for the services and for the acting person, who becomes its custodian. */
export async function setUpInstallation(auth: AuthFolder, { person, env }: Pick<Context, 'person' | 'env'>): Promise<AuthRecords> {
  const { PASSOVER_PREFIX: prefix, PASSOVER_STREAM: stream } = env
  const installation = await createInstallation({ ...(prefix ? { prefix } : {}), ...(stream ? { stream } : {}) })
  const records: AuthRecords = { installation, principals: [] }
  const first: Principal[] = [...SERVICE_ROLES.map((role) => ({ role })), { role: 'custodian', name: person }]
  const issued = []
  for (const principal of first) issued.push(await addPrincipal(records, principal))
  auth.create(records)
  for (const { record, creds } of issued) auth.writeCredentials(record, creds)
  return records
}

/** Records which TLS files the server uses, and copies the authority to where clients find it. Without flags, earlier settings are kept. */
export function configureTls(auth: AuthFolder, records: AuthRecords, options: TlsOptions): void {
  const asked = tlsFrom(auth, options)
  // Renews a development certificate that is about to expire.
  const before = records.tls?.ca?.startsWith(auth.tls) ? createDevelopmentTls(auth.tls) : records.tls
  records.tls = asked ?? before
  if (records.tls?.ca) writePrivateFile(auth.authority, readFileSync(records.tls.ca, 'utf8'))
  else rmSync(auth.authority, { force: true })
}

/** Returns the TLS files that the flags select. Throws CliFailure E042 if flags do not go together. */
function tlsFrom(auth: AuthFolder, { tls, tlsCert: cert, tlsKey: key, tlsCa: ca }: TlsOptions): ServerTls | undefined {
  if ((cert === undefined) !== (key === undefined))
    throw usage('--tls-cert and --tls-key need each other', 'give both, or use --tls for a development certificate')
  if (cert !== undefined && key !== undefined)
    return loadTls({ cert: resolve(cert), key: resolve(key), ...(ca === undefined ? {} : { ca: resolve(ca) }) })
  if (ca !== undefined) throw usage('--tls-ca needs --tls-cert and --tls-key', 'leave it out, or give all three')
  return tls ? createDevelopmentTls(auth.tls) : undefined
}

/** `passover auth init` */
export async function runAuthInit(context: Context, options: TlsOptions): Promise<number> {
  const auth = new AuthFolder(join(createProject(context.directory), 'auth'))
  await setUpInstallation(auth, context)
  const { installation, principals, tls } = await auth.change(async (records) => {
    configureTls(auth, records, options)
    return records
  })
  const config = join(auth.path, 'nats-server.conf')
  writePrivateFile(config, serverPart(auth, { installation, principals, tls }))
  const { operator, system, core } = installation
  const shown = {
    directory: auth.path,
    operator: operator.id,
    system_account: system.id,
    core_account: core.id,
    server_config: config,
    ...(tls?.ca ? { ca: auth.authority } : {}),
    principals: principals.map(({ name, role }) => ({ name, role })),
  }
  context.terminal.show(shown, () =>
    [
      `${context.terminal.colors.green('✓')} Keys of a new installation are in ${auth.path}. Back this folder up and keep it private.`,
      `  ${context.person} is the custodian; each service has its own credentials.`,
      ...(tls?.ca ? [`  Clients verify the server with ${auth.authority} (set PASSOVER_CA to use it elsewhere).`] : []),
      '',
      'Next:',
      formatCommands('  passover up --isolated          run the installation here'),
      formatCommands('  passover auth add agent alice   credentials for an agent'),
      `  or include ${config} in the configuration of your own nats-server`,
    ].join('\n'),
  )
  return 0
}

/** Returns the part of a nats-server configuration that isolation needs, for a server that is run separately. */
function serverPart(auth: AuthFolder, { installation, tls }: AuthRecords): string {
  const place = { name: '', host: '', port: 0, store: '' }
  const settings = { operator: operatorSettings(installation, auth.accounts), ...(tls ? { tls: { cert: tls.cert, key: tls.key } } : {}) }
  const whole = JSON.parse(serverConfig(place, settings)) as Record<string, unknown>
  const { operator, system_account, resolver, resolver_preload, tls: encrypted } = whole
  const part = { operator, system_account, resolver, resolver_preload, ...(encrypted ? { tls: encrypted } : {}) }
  return `${Object.entries(part)
    .map(([name, value]) => `${name}: ${JSON.stringify(value, undefined, 2)}`)
    .join('\n')}\n`
}
