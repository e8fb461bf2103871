import { dirname } from 'node:path'
import { type Principal, verifiedAgents } from '@passover/bus'
import { NOBODY } from '@passover/schemas'
import { writeAgent } from '../agents/agent-store.js'
import { connectPerson } from '../connection/connect-person.js'
import type { Context } from '../connection/context.js'
import { CliFailure, usage } from '../errors.js'
import { renderTable } from '../render/table.js'
import { ago, dateTime } from '../terminal/duration.js'
import { count, formatCommands } from '../terminal/text.js'
import type { AuthFolder } from './auth-folder.js'
import { findAuthFolder } from './find-keys.js'
import { addPrincipal, type IssuedCredentials, revokePrincipal, rotatePrincipal } from './issue-credentials.js'
import { isService, PERSON_ROLES, type PrincipalRecord, SERVICE_ROLES } from './principal-records.js'
import { checkPrivateFile, writePrivateFile } from './private-file.js'
import { publishAccounts } from './publish-accounts.js'

/** Kinds that `passover auth add` accepts: an agent, a person with a role, or a service. */
export const PRINCIPAL_KINDS = ['agent', ...PERSON_ROLES, 'service'] as const
export type PrincipalKind = (typeof PRINCIPAL_KINDS)[number]

export interface AuthAddOptions {
  originates?: 'always' | 'within_a_pass' | 'never'
  subagent?: boolean
  expires?: number
  connections?: number
  out?: string
}

/** `passover auth add <kind> <name>` */
export async function runAuthAdd(context: Context, options: AuthAddOptions, kind: PrincipalKind, name: string): Promise<number> {
  const auth = findAuthFolder(context)
  const principal = principalFor(kind, name, options)
  if (options.out) checkPrivateFile(options.out)
  const issued = await auth.change(async (records) => {
    const added = await addPrincipal(records, principal, { expires_ms: options.expires, connections: options.connections })
    return { ...added, installation: records.installation }
  })
  const path = auth.writeCredentials(issued.record, issued.creds)
  if (options.out) writePrivateFile(options.out, issued.creds)
  const live = await publish(context, auth, issued)
  const registered = principal.role === 'agent' && live ? await register(context, principal, options) : undefined
  const shown = {
    ...line(auth, issued.record),
    credentials: options.out ?? path,
    server_told: live,
    ...(registered === undefined ? {} : { registered }),
  }
  context.terminal.show(shown, () => `Added ${issued.record.role} ${issued.record.name}: ${options.out ?? path}${until(issued.record)}`)
  if (context.terminal.mode === 'human' && principal.role === 'agent' && !registered)
    context.terminal.note(`To register it when the installation is running: passover agents add ${name}${flags(options)}`)
  return 0
}

/** `passover auth rotate <name>` */
export async function runAuthRotate(
  context: Context,
  options: Pick<AuthAddOptions, 'expires' | 'connections' | 'out'>,
  name: string,
): Promise<number> {
  const auth = findAuthFolder(context)
  // Before the change: a rotation that fails halfway would leave the old credentials valid at the server.
  if (options.out) checkPrivateFile(options.out)
  const issued = await auth.change(async (records) => {
    const rotated = await rotatePrincipal(records, name, { expires_ms: options.expires, connections: options.connections })
    return { ...rotated, installation: records.installation }
  })
  // Written before the server closes connections with the old credentials, so that clients that read the file again reconnect at once.
  const path = auth.writeCredentials(issued.record, issued.creds)
  if (options.out) writePrivateFile(options.out, issued.creds)
  const live = await publish(context, auth, issued)
  const shown = { ...line(auth, issued.record), credentials: options.out ?? path, server_told: live }
  context.terminal.show(
    shown,
    () => `Rotated ${name}: new credentials in ${options.out ?? path}${until(issued.record)}. ${told(live, 'the old ones')}`,
  )
  return 0
}

/** `passover auth revoke <name>` */
export async function runAuthRevoke(context: Context, name: string): Promise<number> {
  const auth = findAuthFolder(context)
  const revoked = await auth.change(async (records) => {
    const one = await revokePrincipal(records, name)
    return { ...one, installation: records.installation }
  })
  auth.removeCredentials(revoked.record)
  // Revoked before the accounts are pushed, which may fail: otherwise an old token would be valid again when the name is added again.
  const [tokens] = await Promise.allSettled([revokeTokens(context, auth, name)])
  const live = await publish(context, auth, revoked)
  const ended = tokens.status === 'fulfilled' ? tokens.value : []
  const registry = revoked.record.role === 'agent' ? await tellRegistry(context, revoked.record) : undefined
  context.terminal.show({ ...line(auth, revoked.record), server_told: live, tokens_revoked: ended, ...registry }, () =>
    [
      `Revoked ${name}. ${told(live, 'its credentials')}`,
      ...(ended.length > 0 ? [`Revoked gateway tokens: ${ended.join(', ')}`] : []),
      ...(registry ? registryLines(name, registry).map((text) => formatCommands(text)) : []),
    ].join('\n'),
  )
  if (tokens.status === 'rejected') throw tokens.reason
  return 0
}

interface RegistryTold {
  /** False if the registry could not be updated. People without this project's files then do not see the revocation. */
  registry_told: boolean
  /** Number of open passes that the agent originated; absent if they could not be counted. */
  open_passes?: number
}

/** Records in the registry that the agent was revoked, for people who do not have these files, and counts its open passes. */
async function tellRegistry(context: Context, { name, revoked_at, originates, subagent }: PrincipalRecord): Promise<RegistryTold> {
  let registry_told = false
  try {
    await using bus = await connectPerson(context)
    const isKnown = (await verifiedAgents(bus)).has(name)
    const rights = isKnown
      ? {}
      : { originates: originates === false ? ('never' as const) : ('always' as const), subagent: subagent !== false }
    await writeAgent(bus, { name, ...rights, revoked_at })
    registry_told = true
    const { askAgents } = await import('@passover/operator')
    const row = (await askAgents(bus)).find(({ agent }) => agent.name === name)
    return { registry_told, ...(row && { open_passes: row.originated }) }
  } catch (error) {
    if (error instanceof CliFailure) return { registry_told }
    throw error
  }
}

function registryLines(name: string, { registry_told, open_passes }: RegistryTold): string[] {
  const untold = `The registry does not have the revocation yet, so people on other machines do not see it. When the installation is running, run again: passover auth revoke ${name}`
  const end = `passover cancel --from ${name} --all`
  if (open_passes === undefined) return [...(registry_told ? [] : [untold]), `Its open passes continue. To cancel them: ${end}`]
  const open = `${count(open_passes, 'pass', 'passes')} from ${name} ${open_passes === 1 ? 'is' : 'are'} still open. To cancel them: ${end}`
  return open_passes === 0 ? [`No pass from ${name} is open.`] : [open]
}

/** `passover auth list` */
export async function runAuthList(context: Context): Promise<number> {
  const auth = findAuthFolder(context)
  const lines = auth.read().principals.map((record) => line(auth, record))
  const now = Date.now()
  context.terminal.show(lines, () =>
    renderTable<Line>(
      [
        { head: 'NAME', cell: ({ name }) => name },
        { head: 'ROLE', cell: ({ role }) => role },
        { head: 'ISSUED', cell: ({ issued_at }) => ago(issued_at, now), optional: true },
        {
          head: 'EXPIRES',
          cell: ({ expires_at }) => (expires_at === undefined ? 'never' : expires_at <= now ? 'expired' : dateTime(expires_at)),
        },
        { head: 'STATE', cell: ({ revoked_at }) => (revoked_at === undefined ? 'active' : `revoked ${ago(revoked_at, now)}`) },
        { head: 'KEY', cell: ({ public_key }) => public_key, shrinks: true, optional: true },
      ],
      lines,
      context.terminal,
    ),
  )
  return 0
}

interface Line {
  name: string
  role: Principal['role']
  /** Public key of the current user. */
  public_key: string
  account: string
  issued_at: number
  expires_at?: number
  revoked_at?: number
  credentials: string
}

/**
 * Revokes the gateway tokens of a name, in the project's file and in the file that the environment names. Imports the gateway here, because
 * no other command in this file needs it.
 */
async function revokeTokens({ env }: Context, auth: AuthFolder, name: string): Promise<string[]> {
  const [{ revokeTokensOfOwner }, { projectTokensFile }] = await Promise.all([
    import('../gateway/tokens.js'),
    import('../gateway/serve.js'),
  ])
  const { PASSOVER_GATEWAY_TOKENS: named } = env
  const paths = [projectTokensFile(dirname(auth.path)), ...(named === undefined ? [] : [named])]
  return (await Promise.all(paths.map((path) => revokeTokensOfOwner(path, name)))).flat()
}

function line(auth: AuthFolder, record: PrincipalRecord): Line {
  const { name, role, user, account, issued_at, expires_at, revoked_at } = record
  return {
    name,
    role,
    public_key: user,
    account: account?.id ?? auth.read().installation.core.id,
    issued_at,
    ...(expires_at === undefined ? {} : { expires_at }),
    ...(revoked_at === undefined ? {} : { revoked_at }),
    credentials: auth.credentials(record),
  }
}

function principalFor(kind: PrincipalKind, name: string, { originates, subagent, connections }: AuthAddOptions): Principal {
  if (kind === 'agent' && name === NOBODY)
    throw usage(`the name "${NOBODY}" is reserved: Passover answers requests without agent names under it`, 'choose another name')
  if (kind !== 'agent' && (originates !== undefined || subagent !== undefined || connections !== undefined))
    throw usage('--originates, --no-subagent and --connections apply only to agents', `remove them for a ${kind}`)
  if (kind === 'agent') return { role: 'agent', name, originates: originates !== 'never', subagent: subagent !== false }
  if (kind !== 'service') return { role: kind, name }
  if (isService(name as Principal['role'])) return { role: name as (typeof SERVICE_ROLES)[number] }
  throw usage(`there is no service ${name}`, `services are ${SERVICE_ROLES.join(', ')}`)
}

async function publish(
  context: Context,
  auth: AuthFolder,
  { account, installation }: Partial<IssuedCredentials> & { installation: Parameters<typeof publishAccounts>[2]['installation'] },
): Promise<boolean> {
  return account ? publishAccounts(context, auth, { installation, accounts: [account] }) : true
}

/** Registers the agent with its roles, unless it is registered already. Returns false if that is not possible now. */
async function register(context: Context, principal: Extract<Principal, { role: 'agent' }>, options: AuthAddOptions): Promise<boolean> {
  try {
    await using bus = await connectPerson(context)
    const known = (await verifiedAgents(bus)).get(principal.name)
    const asked = options.originates !== undefined || options.subagent !== undefined
    if (known && !asked && known.revoked_at === undefined) return true
    const roles = known && !asked ? {} : { originates: options.originates ?? 'always', subagent: principal.subagent }
    await writeAgent(bus, { name: principal.name, ...roles, defaults: {}, revoked_at: null })
    return true
  } catch (error) {
    if (error instanceof CliFailure) return false
    throw error
  }
}

function flags({ originates = 'always', subagent }: AuthAddOptions): string {
  return ` --originates ${originates}${subagent === false ? ' --no-subagent' : ''}`
}

function until({ expires_at }: PrincipalRecord): string {
  return expires_at === undefined ? '' : `, valid until ${dateTime(expires_at)}`
}

function told(live: boolean, what: string): string {
  return live ? `The server refuses ${what} from now on.` : `The server is not running; it refuses ${what} when it starts.`
}
