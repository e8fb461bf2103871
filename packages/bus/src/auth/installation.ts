import type { User } from '@nats-io/jwt'
import type { OperatorSettings } from '@passover/nats-server'
import { type Principal, userOf } from '../permissions/permissions.js'
import { Subjects } from '../subjects/subjects.js'
import { agentClaims, CORE_ROLES, type CoreRole, coreClaims, permissionClaims } from './core-account.js'
import { createKey, credentialsText, type KeyText, signAccount, signOperator, signUser, type UserSigning } from './tokens.js'

/** An account's key pair, and the token in which the operator grants its permissions. */
export interface SignedAccount extends KeyText {
  jwt: string
}

/**
 * The keys of one isolated installation, as plain data. The operator's seed signs accounts and thus grants every permission; the seed of an account
 * signs its users. Store all of it where only the owner can read it: agents and services need credentials, never a seed from here.
 */
export interface Installation {
  version: 1
  name: string
  /** Prefix of the installation's subjects, as in BusOptions. */
  prefix?: string
  stream?: string
  operator: SignedAccount
  /** The server's system account, through which accounts are pushed and deleted. */
  system: SignedAccount
  /** Account of JetStream, the services and people. */
  core: SignedAccount
  /** Keys that each sign credentials of one role in the core account. */
  roles: Record<CoreRole, KeyText>
}

export interface InstallationOptions {
  name?: string
  prefix?: string
  stream?: string
}

export type AgentPrincipal = Extract<Principal, { role: 'agent' }>
export type CorePrincipal = Exclude<Principal, { role: 'agent' }>

export interface AccountOptions {
  /** Key of an existing account. Keeps the agent's credentials valid. */
  key?: KeyText
  /**
   * Revocations by user id, in seconds since the epoch: credentials of that user issued up to then are refused, and their connections are closed. `*`
   * applies to all users.
   */
  revocations?: Record<string, number>
  /** Expiry of the account and all its credentials, in seconds since the epoch. */
  expires_at?: number
  /** Maximum number of concurrent connections of the account. @defaultValue 256 */
  connections?: number
}

/** Credentials of a principal. */
export interface IssuedUser {
  /** Public key, which identifies the user in revocations. */
  id: string
  /** Text of the credentials file. Store it with mode 0600. */
  creds: string
  jwt: string
}

/** Creates the operator, the system account and the core account. */
export async function createInstallation({ name = 'passover', prefix, stream }: InstallationOptions = {}): Promise<Installation> {
  const [operator, system, core] = [createKey('operator'), createKey('account'), createKey('account')]
  const made: Installation = {
    version: 1,
    name,
    ...(prefix === undefined ? {} : { prefix }),
    ...(stream === undefined ? {} : { stream }),
    operator: { ...operator, jwt: await signOperator(operator, name, { system_account: system.id }) },
    system: { ...system, jwt: await signAccount(system.id, { operator_seed: operator.seed, name: 'SYS' }, systemClaims()) },
    core: { ...core, jwt: '' },
    roles: Object.fromEntries(CORE_ROLES.map((role) => [role, createKey('account')])) as Record<CoreRole, KeyText>,
  }
  return { ...made, core: await issueCore(made) }
}

/** Signs the core account again: with revocations of people and services, or after an update of Passover that adds subjects. */
export async function issueCore(installation: Installation, revocations: Record<string, number> = {}): Promise<SignedAccount> {
  const { operator, core, name, roles } = installation
  const claims = coreClaims(subjectsOf(installation), { roles, revocations })
  return { ...core, jwt: await signAccount(core.id, { operator_seed: operator.seed, name }, claims) }
}

/** Creates an account for one agent, with imports of exactly the agent's subjects. Takes effect when it is pushed (AccountResolver). */
export async function issueAgent(installation: Installation, agent: AgentPrincipal, options: AccountOptions = {}): Promise<SignedAccount> {
  const { key = createKey('account'), revocations = {}, expires_at, connections } = options
  const limits = connections === undefined ? {} : { connections }
  const claims = agentClaims(agent, subjectsOf(installation), { core: installation.core.id, revocations, ...limits })
  const signing = { operator_seed: installation.operator.seed, name: agent.name, expires_at }
  return { id: key.id, seed: key.seed, jwt: await signAccount(key.id, signing, claims) }
}

export interface UserOptions {
  /** Expiry in seconds since the epoch; the server closes the connection then. */
  expires_at?: number
}

/**
 * Issues credentials for an agent, signed by its account. They contain no permissions of their own: those of the account apply, also after it is
 * pushed again with others. Each call uses a new user key, so that credentials can be revoked individually.
 */
export function issueAgentUser(agent: AgentPrincipal, account: KeyText, { expires_at }: UserOptions = {}): Promise<IssuedUser> {
  return issue({ name: userOf(agent), signer_seed: account.seed, expires_at })
}

/** Issues credentials for a person or service in the core account. Its permissions are those of its role. */
export function issueCoreUser(installation: Installation, principal: CorePrincipal, { expires_at }: UserOptions = {}): Promise<IssuedUser> {
  const { roles, core } = installation
  return issue({ name: userOf(principal), signer_seed: roles[principal.role].seed, account_id: core.id, expires_at })
}

/** Issues credentials that only allow pushing, deleting and looking up accounts (AccountResolver). */
export function issueSystemUser(installation: Installation, { expires_at }: { expires_at?: number } = {}): Promise<IssuedUser> {
  const publish = ['$SYS.REQ.CLAIMS.UPDATE', '$SYS.REQ.CLAIMS.DELETE', '$SYS.REQ.CLAIMS.LIST', '$SYS.REQ.ACCOUNT.*.CLAIMS.LOOKUP']
  const signing = { name: 'accounts', signer_seed: installation.system.seed, expires_at }
  return issue(signing, permissionClaims({ publish, subscribe: ['_INBOX.>'] }))
}

/** Returns the operator settings for a server's configuration. `dir` is the folder in which the server stores pushed accounts. */
export function operatorSettings({ operator, system, core }: Installation, dir: string): OperatorSettings {
  return { jwt: operator.jwt, system_account: system.id, resolver_dir: dir, preload: { [system.id]: system.jwt, [core.id]: core.jwt } }
}

function subjectsOf({ prefix, stream }: Installation): Subjects {
  return new Subjects(prefix, stream)
}

async function issue(signing: UserSigning, claims: Partial<User> = {}): Promise<IssuedUser> {
  const key = createKey('user')
  const jwt = await signUser(key, signing, claims)
  return { id: key.id, jwt, creds: credentialsText(jwt, key) }
}

function systemClaims() {
  return {
    limits: { subs: -1, data: -1, payload: -1, imports: -1, exports: -1, wildcards: true, conn: -1, leaf: 0, disallow_bearer: true },
  }
}
