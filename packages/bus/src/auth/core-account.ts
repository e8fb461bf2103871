import type { Account, Export, Import, User } from '@nats-io/jwt'
import type { Permissions } from '@passover/nats-server'
import { API, type Grant } from '../permissions/grants.js'
import { agentGrantsOf, grantsFor, type Principal, permissionsFor } from '../permissions/permissions.js'
import type { Subjects } from '../subjects/subjects.js'
import { type KeyText, signingKey } from './tokens.js'

/** Placeholder for the name of any agent in a filter; long, so that no other token contains it. */
const ANY_AGENT = 'x'.repeat(64)

/**
 * How long the server remembers where answers of one pull go. A pull that was filled ends without a status, so that only this time frees
 * its entry; pulls of ours wait for at most 5 s.
 */
const PULL_REMEMBERED_MS = 10_000
/** How long the server remembers where an answer goes. Agents wait for 5 s at most. */
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

/** Connections of one agent at a time. */
const AGENT_CONNECTIONS = 256
/**
 * Subscriptions of each of them; the server counts by connection. With the connections it bounds what an agent's subscriptions take of
 * the server's memory to about 1 GB. An SDK connection has a dozen, and one for each pass that it waits for by a given id.
 */
const AGENT_SUBSCRIPTIONS = 2_000

/** Everything, as far as the server's limits go. Zero means none. */
const UNLIMITED = { subs: -1, data: -1, payload: -1, imports: -1, exports: -1, wildcards: true, conn: -1 }
const ALL_STORAGE = { mem_storage: -1, disk_storage: -1, streams: -1, consumer: -1 }

/**
 * Claims of the account that JetStream, services and people are in. It exports every subject that some agent may use; which agent
 * may use which is fixed by the imports of that agent's account, and only the operator signs accounts. So adding an agent leaves this as it is.
 */
export function coreClaims(subjects: Subjects, { roles, revocations }: CoreOptions): Partial<Account> {
  return {
    exports: exportsFor(subjects),
    limits: { ...UNLIMITED, ...ALL_STORAGE, disallow_bearer: true },
    signing_keys: CORE_ROLES.map((role) => signingKey(roles[role], role, templateOf(role, subjects))),
    revocations,
  }
}

/** Rights of a role, with `{{name()}}` where the server puts the user's name in. */
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

/** The same as the entry of a user in the server's configuration says. */
export function permissionClaims({ publish, never, subscribe, answers }: Permissions): Partial<User> {
  return {
    pub: { allow: publish, ...(never ? { deny: never } : {}) },
    sub: { allow: subscribe },
    ...(answers ? { resp: { max: 1, ttl: RESPONSE_TTL_NS } } : {}),
  }
}

/**
 * Claims of an agent's account: imports of exactly what the agent may do, no JetStream, no leaf nodes, no exports. Its users may do the same
 * and no more: imports alone would keep the agent in, and permissions make the server say that it refuses.
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

/** The library's type lacks subject mappings. */
type AccountClaims = Partial<Account> & { mappings: Record<string, { subject: string; weight: number }[]> }

const INFO = `${API}.CONSUMER.INFO.`

/**
 * The subject by which an import is known within the agent's account. The server answers the JetStream API in every account without
 * JetStream that there is none; so requests that it would answer are mapped to a subject of their own before they are matched with imports.
 */
function withinAccount(subject: string): string {
  return subject.startsWith(INFO) ? `_PASSOVER.CONSUMER.INFO.${subject.slice(INFO.length)}` : subject
}

interface Crossing {
  subject: string
  type: 'service' | 'stream'
}

/** What leaves the agent's account: publishes are service imports, whose replies the server maps back; what it hears are stream imports. */
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

/** One answer, unless it is a pull: a second one from the stream's side has nowhere to go. Where none comes, the server forgets the question. */
function responseOf(subject: string): Pick<Export, 'response_type' | 'response_threshold'> {
  const pull = subject.startsWith(`${API}.CONSUMER.MSG.NEXT.`)
  const remembered_ms = pull ? PULL_REMEMBERED_MS : ANSWER_REMEMBERED_MS
  return { response_type: pull ? 'Stream' : 'Singleton', response_threshold: remembered_ms * NS_PER_MS }
}

/** Whether every subject of the one filter is one of the other. */
function contains(outer: string, inner: string): boolean {
  const [a, b] = [outer.split('.'), inner.split('.')]
  for (const [at, token] of a.entries()) {
    if (token === '>') return b.length > at
    if (b[at] === undefined || b[at] === '>') return false
    if (token !== '*' && token !== b[at]) return false
  }
  return a.length === b.length
}
