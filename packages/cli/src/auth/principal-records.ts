import type { Principal } from '@passover/bus'
import type { Installation, SignedAccount } from '@passover/bus/auth'
import { z } from 'zod'
import type { ServerTls } from './tls.js'

/** Roles of people. Each role includes the rights of those before it. */
export const PERSON_ROLES = ['person', 'auditor', 'custodian'] as const
export const SERVICE_ROLES = ['dispatcher', 'audit', 'notifier', 'gateway'] as const

export type PersonRole = (typeof PERSON_ROLES)[number]
export type ServiceRole = (typeof SERVICE_ROLES)[number]

/** A principal that has, or had, credentials. Times are in ms, except in `revocations`. */
export interface PrincipalRecord {
  /** Unique name. Agents and people share one namespace; services are called `passover.<role>`. */
  name: string
  role: Principal['role']
  /** True if an agent may originate passes. */
  originates?: boolean | undefined
  subagent?: boolean | undefined
  /** Maximum number of simultaneous connections of an agent. */
  connections?: number | undefined
  /** Account of an agent. */
  account?: SignedAccount | undefined
  /** Public key of the current user. */
  user: string
  issued_at: number
  expires_at?: number | undefined
  revoked_at?: number | undefined
  /** Revoked users: public key → seconds since 1970, the unit in which the server compares them. */
  revocations: Record<string, number>
}

/** Everything that `passover auth` stores in `keys.json`. Anyone who can read it can issue any right. */
export interface AuthRecords {
  installation: Installation
  principals: PrincipalRecord[]
  /** TLS files of the server; absent if connections are not encrypted. */
  tls?: ServerTls | undefined
}

const key = z.looseObject({ id: z.string(), seed: z.string() })
const account = z.looseObject({ id: z.string(), seed: z.string(), jwt: z.string() })

const principal = z.looseObject({
  name: z.string(),
  role: z.enum(['agent', ...PERSON_ROLES, ...SERVICE_ROLES]),
  originates: z.boolean().optional(),
  subagent: z.boolean().optional(),
  connections: z.int().optional(),
  account: account.optional(),
  user: z.string(),
  issued_at: z.number(),
  expires_at: z.number().optional(),
  revoked_at: z.number().optional(),
  revocations: z.record(z.string(), z.number()),
})

const records = z.looseObject({
  installation: z.looseObject({
    version: z.literal(1),
    name: z.string(),
    operator: account,
    system: account,
    core: account,
    roles: z.record(z.string(), key),
  }),
  principals: z.array(principal),
  tls: z.strictObject({ cert: z.string(), key: z.string(), ca: z.string().optional() }).optional(),
})

/** Parses `keys.json`. Returns `undefined` if `passover auth` did not write it. */
export function parseRecords(text: string): AuthRecords | undefined {
  try {
    const parsed = records.safeParse(JSON.parse(text))
    return parsed.success ? (parsed.data as unknown as AuthRecords) : undefined
  } catch {
    return undefined
  }
}

/** Returns the principal of a record. */
export function principalOf({ name, role, originates = true, subagent = true }: PrincipalRecord): Principal {
  if (role === 'agent') return { role, name, originates, subagent }
  if (isPersonRole(role)) return { role, name }
  return { role }
}

export function isPersonRole(role: Principal['role']): role is PersonRole {
  return (PERSON_ROLES as readonly string[]).includes(role)
}

/** Returns the name of a service's record. */
export function serviceName(role: ServiceRole): string {
  return `passover.${role}`
}

export function isService(role: Principal['role']): role is ServiceRole {
  return (SERVICE_ROLES as readonly string[]).includes(role)
}
