import type { User } from '@nats-io/jwt'
import type { OperatorSettings } from '@passover/nats-server'
import { type Principal, userOf } from '../permissions/permissions.js'
import { Subjects } from '../subjects/subjects.js'
import { agentClaims, CORE_ROLES, type CoreRole, coreClaims, permissionClaims } from './core-account.js'
import { createKey, credentialsText, type KeyText, signAccount, signOperator, signUser, type UserSigning } from './tokens.js'

/** An account's key pair and the token in which the operator grants its rights. */
export interface SignedAccount extends KeyText {
  jwt: string
}

/**
 * The keys of one isolated installation, as plain data. The operator's seed signs accounts and so grants every right; the seed of an account
 * signs its users. Keep all of it where only the owner reads it: agents and services need credentials, never a seed from here.
 */
export interface Installation {
  version: 1
  name: string
  /** Namespace of the installation's subjects, as in BusOptions. */
  prefix?: string
  stream?: string
  operator: SignedAccount
  /** The server's own account, over which accounts are pushed and deleted. */
  system: SignedAccount
  /** The account that JetStream, the services and people are in. */
  core: SignedAccount
  /** Signs credentials of one role in the core account each. */
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
  /** Of an agent that has an account already: keeps its key, so that its credentials stay valid. */
  key?: KeyText
  /** User id → seconds since 1970: credentials of that user issued until then are refused, and connections with them are closed. `*`: of all users. */
  revocations?: Record<string, number>
  /** Seconds since 1970. The account and all its credentials end then. */
  expires_at?: number
  /** Maximum connections of the account at a time. @defaultValue 256 */
  connections?: number
}

/** What a principal connects with. */
export interface IssuedUser {
  /** Public key: names the user in revocations. */
  id: string
  /** Text of the credentials file. Keep it at mode 0600. */
  creds: string
  jwt: string
}

/** Creates operator, system and core account. */
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

/** The core account's token, signed again: with the revocations of people and services, or after an update of Passover that adds subjects. */
export async function issueCore(installation: Installation, revocations: Record<string, number> = {}): Promise<SignedAccount> {
  const { operator, core, name, roles } = installation
  const claims = coreClaims(subjectsOf(installation), { roles, revocations })
  return { ...core, jwt: await signAccount(core.id, { operator_seed: operator.seed, name }, claims) }
}

/** An account of its own for an agent, with imports of exactly the agent's subjects. Takes effect when it is pushed (AccountResolver). */
export async function issueAgent(installation: Installation, agent: AgentPrincipal, options: AccountOptions = {}): Promise<SignedAccount> {
  const { key = createKey('account'), revocations = {}, expires_at, connections } = options
  const limits = connections === undefined ? {} : { connections }
  const claims = agentClaims(agent, subjectsOf(installation), { core: installation.core.id, revocations, ...limits })
  const signing = { operator_seed: installation.operator.seed, name: agent.name, expires_at }
  return { id: key.id, seed: key.seed, jwt: await signAccount(key.id, signing, claims) }
}

export interface UserOptions {
  /** Seconds since 1970; the server closes the connection then. */
  expires_at?: number
}

/**
 * Issues credentials for an agent, by its account. They carry no rights of their own: those of the account hold, also after it was pushed
 * again with others. A new user key each time, so that each can be revoked by itself.
 */
export function issueAgentUser(agent: AgentPrincipal, account: KeyText, { expires_at }: UserOptions = {}): Promise<IssuedUser> {
  return issue({ name: userOf(agent), signer_seed: account.seed, expires_at })
}

/** The same for a person or service in the core account, whose rights are those of its role there. */
export function issueCoreUser(installation: Installation, principal: CorePrincipal, { expires_at }: UserOptions = {}): Promise<IssuedUser> {
  const { roles, core } = installation
  return issue({ name: userOf(principal), signer_seed: roles[principal.role].seed, account_id: core.id, expires_at })
}

/** Credentials for pushing, deleting and looking up accounts (AccountResolver), and for nothing else. */
export function issueSystemUser(installation: Installation, { expires_at }: { expires_at?: number } = {}): Promise<IssuedUser> {
  const publish = ['$SYS.REQ.CLAIMS.UPDATE', '$SYS.REQ.CLAIMS.DELETE', '$SYS.REQ.CLAIMS.LIST', '$SYS.REQ.ACCOUNT.*.CLAIMS.LOOKUP']
  const signing = { name: 'accounts', signer_seed: installation.system.seed, expires_at }
  return issue(signing, permissionClaims({ publish, subscribe: ['_INBOX.>'] }))
}

/** For a server's configuration. `dir`: where the server keeps the accounts that are pushed to it. */
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
