import type { Account, Export, Import, User } from '@nats-io/jwt'
import type { Permissions } from '@passover/nats-server'
import { API, type Grant } from '../permissions/grants.js'
import { agentGrantsOf, grantsFor, type Principal, permissionsFor } from '../permissions/permissions.js'
import type { Subjects } from '../subjects/subjects.js'
import { type KeyText, signingKey } from './tokens.js'

/** Placeholder for the name of any agent in a filter; long, so that no other token contains it. */
const ANY_AGENT = 'x'.repeat(64)

/**
 * Milliseconds for which the server keeps the reply mapping of a pull. A pull that was filled ends without a status, so only this time frees its
 * entry; our pulls wait for at most 5 s.
 */
const PULL_REMEMBERED_MS = 10_000
/** Milliseconds for which the server keeps the reply mapping of a request. Agents wait for 5 s at most. */
const ANSWER_REMEMBERED_MS = 10_000
const NS_PER_MS = 1_000_000

/** Placeholder for the user's own name, which the server fills in. */
const ANY_NAME = 'y'.repeat(64)

/** Roles in the core account. Each has a signing key of its own, which cannot issue credentials of another role. */
export const CORE_ROLES = ['person', 'auditor', 'custodian', 'dispatcher', 'audit', 'notifier', 'gateway'] as const
export type CoreRole = (typeof CORE_ROLES)[number]

interface CoreOptions {
  roles: Record<CoreRole, KeyText>
  revocations: Record<string, number>
}

interface AgentOptions {
  /** Id of the core account. */
  core: string
  revocations: Record<string, number>
  connections?: number
}

/** Maximum number of concurrent connections of one agent. */
const AGENT_CONNECTIONS = 256
/**
 * Maximum number of subscriptions per connection. Together with the connection limit it bounds the server memory for an agent's subscriptions to
 * about 1 GB. An SDK connection has a dozen subscriptions, and one for each pass that it awaits by a given id.
 */
const AGENT_SUBSCRIPTIONS = 2_000

/** No limits except the server's own. Zero would allow none. */
const UNLIMITED = { subs: -1, data: -1, payload: -1, imports: -1, exports: -1, wildcards: true, conn: -1 }
const ALL_STORAGE = { mem_storage: -1, disk_storage: -1, streams: -1, consumer: -1 }

/**
 * Returns the claims of the core account, which contains JetStream, services and people. It exports every subject that some agent may use; the
 * imports of an agent's account determine which of them that agent may use, and only the operator signs accounts. So adding an agent does not change
 * this account.
 */
export function coreClaims(subjects: Subjects, { roles, revocations }: CoreOptions): Partial<Account> {
  return {
    exports: exportsFor(subjects),
    limits: { ...UNLIMITED, ...ALL_STORAGE, disallow_bearer: true },
    signing_keys: CORE_ROLES.map((role) => signingKey(roles[role], role, templateOf(role, subjects))),
    revocations,
  }
}

/** Returns the permissions of a role, with `{{name()}}` as the server's placeholder for the user's name. */
function templateOf(role: CoreRole, subjects: Subjects): Partial<User> {
  const principal: Principal = isPersonal(role) ? { role, name: ANY_NAME } : { role }
  const named = (list: string[]) => list.map((subject) => subject.replaceAll(ANY_NAME, '{{name()}}'))
  const { publish, never, subscribe, answers } = permissionsFor(principal, { subjects, agents: 'any' })
  const rights = { publish: named(publish), subscribe: named(subscribe) }
  return permissionClaims({ ...rights, ...(never ? { never: named(never) } : {}), ...(answers ? { answers } : {}) })
}

function isPersonal(role: CoreRole): role is 'person' | 'auditor' | 'custodian' {
  return role === 'person' || role === 'auditor' || role === 'custodian'
}

const RESPONSE_TTL_NS = 120_000_000_000

/** Converts permissions to the claims that correspond to a user entry in the server's configuration. */
export function permissionClaims({ publish, never, subscribe, answers }: Permissions): Partial<User> {
  return {
    pub: { allow: publish, ...(never ? { deny: never } : {}) },
    sub: { allow: subscribe },
    ...(answers ? { resp: { max: 1, ttl: RESPONSE_TTL_NS } } : {}),
  }
}

/**
 * Returns the claims of an agent's account: imports of exactly its permitted subjects, no JetStream, no leaf nodes, no exports. Its users have the
 * same permissions: imports alone would confine the agent, but permissions make the server report a refusal.
 */
export function agentClaims(agent: Principal & { role: 'agent' }, subjects: Subjects, options: AgentOptions): AccountClaims {
  const { core, revocations, connections = AGENT_CONNECTIONS } = options
  const context = { subjects, agents: 'any' as const }
  const crossings = crossing(grantsFor(agent, context))
  const { publish, ...rights } = permissionsFor(agent, context)
  return {
    imports: crossings.map(({ subject, type }) => {
      const within = withinAccount(subject)
      return { subject, type, account: core, ...(within === subject ? {} : { local_subject: within }) } as Import
    }),
    mappings: Object.fromEntries(
      crossings.flatMap(({ subject }) => {
        const within = withinAccount(subject)
        return within === subject ? [] : [[subject, [{ subject: within, weight: 100 }]]]
      }),
    ),
    limits: { ...UNLIMITED, exports: 0, leaf: 0, conn: connections, subs: AGENT_SUBSCRIPTIONS, disallow_bearer: true },
    default_permissions: permissionClaims({ ...rights, publish: publish.map(withinAccount) }),
    revocations,
  }
}

/** Adds subject mappings, which the library's type lacks. */
type AccountClaims = Partial<Account> & { mappings: Record<string, { subject: string; weight: number }[]> }

const INFO = `${API}.CONSUMER.INFO.`

/**
 * Returns the local subject of an import in the agent's account. In every account without JetStream the server itself answers JetStream API requests,
 * saying that there is none; requests it would answer are therefore mapped to another subject before imports are matched.
 */
function withinAccount(subject: string): string {
  return subject.startsWith(INFO) ? `_PASSOVER.CONSUMER.INFO.${subject.slice(INFO.length)}` : subject
}

interface Crossing {
  subject: string
  type: 'service' | 'stream'
}

/**
 * Returns the subjects that cross the border of an agent's account: publishes become service imports, whose replies the server maps back;
 * subscriptions become stream imports.
 */
function crossing(grants: Grant[]): Crossing[] {
  const found = new Map<string, Crossing>()
  for (const { may, subject, local } of grants) {
    if (local || may === 'never publish') continue
    const type = may === 'publish' ? 'service' : 'stream'
    found.set(`${type} ${subject}`, { subject, type })
  }
  return [...found.values()]
}

function exportsFor(subjects: Subjects): Export[] {
  const wild = crossing(agentGrantsOf(ANY_AGENT, subjects)).map(({ subject, type }) => ({
    type,
    subject: subject
      .split('.')
      .map((token) => (token.includes(ANY_AGENT) ? '*' : token))
      .join('.'),
  }))
  const distinct = [...new Map(wild.map((one) => [`${one.type} ${one.subject}`, one])).values()]
  return distinct
    .filter((one) => !distinct.some((other) => other !== one && other.type === one.type && contains(other.subject, one.subject)))
    .map(({ subject, type }) => ({ subject, type, ...(type === 'service' ? responseOf(subject) : {}) }) as Export)
}

/**
 * Limits the answers of an export to one, except for pulls: further answers are dropped. Without an answer the server forgets the request after some
 * time.
 */
function responseOf(subject: string): Pick<Export, 'response_type' | 'response_threshold'> {
  const pull = subject.startsWith(`${API}.CONSUMER.MSG.NEXT.`)
  const remembered_ms = pull ? PULL_REMEMBERED_MS : ANSWER_REMEMBERED_MS
  return { response_type: pull ? 'Stream' : 'Singleton', response_threshold: remembered_ms * NS_PER_MS }
}

/** Returns true if the outer filter matches every subject of the inner one. */
function contains(outer: string, inner: string): boolean {
  const [a, b] = [outer.split('.'), inner.split('.')]
  for (const [at, token] of a.entries()) {
    if (token === '>') return b.length > at
    if (b[at] === undefined || b[at] === '>') return false
    if (token !== '*' && token !== b[at]) return false
  }
  return a.length === b.length
}
