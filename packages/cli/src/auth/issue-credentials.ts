import type { Principal } from '@passover/bus'
import { issueAgent, issueAgentUser, issueCore, issueCoreUser, type SignedAccount } from '@passover/bus/auth'
import { CliFailure, usage } from '../errors.js'
import { type AuthRecords, isService, type PrincipalRecord, principalOf, serviceName } from './principal-records.js'

/** Result of issuing credentials. If `account` is set, servers need it for the credentials to take effect; if absent, they need nothing. */
export interface IssuedCredentials {
  record: PrincipalRecord
  account?: SignedAccount
  /** Text of the credentials file. */
  creds: string
}

export interface CredentialLimits {
  /** Lifetime from now, in ms. */
  expires_ms?: number | undefined
  /** Maximum number of simultaneous connections of an agent; absent to keep the previous limit or the default. */
  connections?: number | undefined
}

/** Issues credentials for a new principal, or for a revoked one. Throws CliFailure E031 if the name is taken. */
export async function addPrincipal(
  records: AuthRecords,
  principal: Principal,
  { expires_ms, connections }: CredentialLimits = {},
): Promise<IssuedCredentials> {
  const name = 'name' in principal ? principal.name : serviceName(principal.role)
  const known = records.principals.find((one) => one.name === name)
  if (known && known.revoked_at === undefined) throw nameTaken(known)
  if (known && known.role !== principal.role) throw nameTaken(known)
  const rights = principal.role === 'agent' ? { originates: principal.originates, subagent: principal.subagent } : {}
  const now = Date.now()
  const record: PrincipalRecord = {
    name,
    role: principal.role,
    ...rights,
    connections: connections ?? known?.connections,
    account: known?.account,
    user: '',
    issued_at: now,
    expires_at: expires_ms === undefined ? undefined : now + expires_ms,
    revocations: known?.revocations ?? {},
  }
  const issued = await issue(records, record, principal)
  records.principals = [...records.principals.filter((one) => one !== known), record]
  return issued
}

/** Issues new credentials for a principal and revokes the previous ones. */
export async function rotatePrincipal(
  records: AuthRecords,
  name: string,
  { expires_ms, connections }: CredentialLimits = {},
): Promise<IssuedCredentials> {
  const record = activeRecord(records, name)
  if (connections !== undefined && record.role !== 'agent') throw notAnAgent(record.role)
  record.connections = connections ?? record.connections
  const lasted = record.expires_at === undefined ? undefined : record.expires_at - record.issued_at
  revokeUser(record)
  record.issued_at = Date.now()
  const lasts = expires_ms ?? lasted
  record.expires_at = lasts === undefined ? undefined : record.issued_at + lasts
  return issue(records, record, principalOf(record), 'changed')
}

/**
 * Revokes all credentials of a principal. Returns the account with the revocation, also for a principal that was revoked before, so that it
 * can be pushed to a server that could not be reached then.
 */
export async function revokePrincipal(records: AuthRecords, name: string): Promise<{ record: PrincipalRecord; account: SignedAccount }> {
  const record = recordOf(records, name)
  if (record.revoked_at === undefined) {
    revokeUser(record)
    record.revoked_at = Date.now()
  }
  return { record, account: await signAgain(records, record) }
}

/** Signs all accounts again, with the rights that this version of Passover grants, and returns them. */
export async function refreshAccounts(records: AuthRecords): Promise<SignedAccount[]> {
  const core = await signCore(records)
  const agents = records.principals.filter(({ account }) => account !== undefined)
  return [core, ...(await Promise.all(agents.map((record) => signAgain(records, record))))]
}

/** Returns the record of a principal. Throws CliFailure E041 if there is none of that name, or if it was revoked. */
export function activeRecord(records: AuthRecords, name: string): PrincipalRecord {
  const record = recordOf(records, name)
  if (record.revoked_at === undefined) return record
  throw new CliFailure('E041', `${name} was revoked`, { hint: `to give it access again: passover auth add ${addArguments(record)}` })
}

function recordOf({ principals }: AuthRecords, name: string): PrincipalRecord {
  const record = principals.find((one) => one.name === name)
  if (record) return record
  throw new CliFailure('E041', `there are no credentials for ${name}`, { hint: '`passover auth list` shows who has credentials' })
}

/** Returns the arguments of `passover auth add` for a principal. */
export function addArguments({ role, name }: Pick<PrincipalRecord, 'role' | 'name'>): string {
  return isService(role) ? `service ${role}` : `${role} ${name}`
}

async function issue(records: AuthRecords, record: PrincipalRecord, principal: Principal, core?: 'changed'): Promise<IssuedCredentials> {
  const expires_at = record.expires_at === undefined ? {} : { expires_at: Math.floor(record.expires_at / 1_000) }
  if (principal.role === 'agent') {
    const account = await signAgain(records, record)
    const user = await issueAgentUser(principal, account, expires_at)
    record.user = user.id
    return { record, account, creds: user.creds }
  }
  const user = await issueCoreUser(records.installation, principal, expires_at)
  record.user = user.id
  return { record, creds: user.creds, ...(core ? { account: await signCore(records) } : {}) }
}

async function signAgain(records: AuthRecords, record: PrincipalRecord): Promise<SignedAccount> {
  const principal = principalOf(record)
  if (principal.role !== 'agent') return signCore(records)
  const { revocations, connections, account: key } = record
  record.account = await issueAgent(records.installation, principal, {
    revocations,
    ...(connections === undefined ? {} : { connections }),
    ...(key ? { key } : {}),
  })
  return record.account
}

async function signCore(records: AuthRecords): Promise<SignedAccount> {
  const own = records.principals.filter(({ role }) => role !== 'agent')
  const revocations = Object.assign({}, ...own.map((record) => record.revocations)) as Record<string, number>
  records.installation.core = await issueCore(records.installation, revocations)
  return records.installation.core
}

function revokeUser(record: PrincipalRecord): void {
  record.revocations = { ...record.revocations, [record.user]: Math.floor(Date.now() / 1_000) }
}

function notAnAgent(role: string): CliFailure {
  return usage('--connections applies only to agents', `remove it for a ${role}`)
}

function nameTaken({ name, role, revoked_at }: PrincipalRecord): CliFailure {
  if (revoked_at !== undefined)
    return new CliFailure('E031', `${name} was a ${role} before it was revoked`, { hint: 'use another name, or the same role' })
  return new CliFailure('E031', `${name} already has credentials, as ${role}`, { hint: `to replace them: passover auth rotate ${name}` })
}
