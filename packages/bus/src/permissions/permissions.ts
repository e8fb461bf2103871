import type { Permissions, ServerUser } from '@passover/nats-server'
import { PRIORITIES, STEP_KINDS, SYSTEM } from '@passover/schemas'
import { inboxPrefixOf, type Subjects } from '../subjects/subjects.js'
import { BUCKETS, DECISIONS, DISPATCHER, NOTIFIERS, wantedStreams } from '../topology/configs.js'
import {
  API,
  agentsConsumers,
  callPartsStreams,
  direct,
  type Grant,
  leaveAlone,
  local,
  makeTopology,
  objects,
  ownParts,
  type PermissionContext,
  publish,
  readObjects,
  readParts,
  readStream,
  readTable,
  subscribe,
  takeFrom,
  writeParts,
  writeTable,
} from './grants.js'

/**
 * A role that connects to the server. Dispatcher and audit service sign as `passover`; each has a user of its own with only the permissions it needs.
 */
export type Principal =
  | { role: 'agent'; name: string; originates: boolean; subagent: boolean }
  | { role: 'person'; name: string }
  /** A person who may also read the archive: `passover verify` and `evidence`. */
  | { role: 'auditor'; name: string }
  /** An auditor who may also put sessions and passes on legal hold. */
  | { role: 'custodian'; name: string }
  | { role: 'dispatcher' }
  | { role: 'audit' }
  | { role: 'notifier' }
  | { role: 'gateway' }

/** Returns the name of the user that a principal connects as. Names of agents and people never contain a dot. */
export function userOf(principal: Principal): string {
  if (principal.role === 'dispatcher') return SYSTEM
  return 'name' in principal ? principal.name : `${SYSTEM}.${principal.role}`
}

/** Returns the identity that a principal signs with. */
function identityOf(principal: Principal): string {
  return 'name' in principal ? principal.name : SYSTEM
}

/** Returns every permission of a principal (docs/architecture/security-model.md#principals). The server denies everything else. */
export function grantsFor(principal: Principal, context: PermissionContext): Grant[] {
  const inbox = local(subscribe(`${inboxPrefixOf(identityOf(principal))}.>`, 'receive replies'))
  switch (principal.role) {
    case 'agent':
      return [inbox, ...agentGrants(principal, context)]
    case 'person':
      return [inbox, ...personGrants(principal.name, context)]
    case 'auditor':
      return [inbox, ...personGrants(principal.name, context), ...auditorGrants(context)]
    case 'custodian':
      return [inbox, ...personGrants(principal.name, context), ...auditorGrants(context), ...custodianGrants(principal.name, context)]
    case 'dispatcher':
      return [inbox, ...dispatcherGrants(context)]
    case 'audit':
      return [inbox, ...auditGrants(context)]
    case 'notifier':
      return [inbox, ...notifierGrants(context)]
    case 'gateway':
      return [inbox, ...gatewayGrants(context)]
  }
}

/** Returns all permissions that an agent of that name could have, in either role. */
export function agentGrantsOf(name: string, subjects: Subjects): Grant[] {
  return agentGrants({ role: 'agent', name, originates: true, subagent: true }, { subjects, agents: 'any' })
}

/** Returns the permissions in the form of the server's configuration. */
export function permissionsFor(principal: Principal, context: PermissionContext): Permissions {
  const grants = grantsFor(principal, context)
  const subjects = (may: Grant['may']) => [...new Set(grants.filter((grant) => grant.may === may).map((grant) => grant.subject))]
  const never = subjects('never publish')
  return {
    publish: subjects('publish'),
    ...(never.length > 0 ? { never } : {}),
    subscribe: subjects('subscribe'),
    ...(principal.role === 'dispatcher' || principal.role === 'audit' ? { answers: true } : {}),
  }
}

/** Returns the users for a server's configuration. */
export function usersFor(principals: Principal[], subjects: Subjects, passwordOf: (user: string) => string): ServerUser[] {
  const agents = principals.flatMap((principal) => (principal.role === 'agent' ? [principal.name] : []))
  return principals.map((principal) => {
    const user = userOf(principal)
    return { user, password: passwordOf(user), permissions: permissionsFor(principal, { subjects, agents }) }
  })
}

function agentGrants({ name, originates, subagent }: Extract<Principal, { role: 'agent' }>, context: PermissionContext): Grant[] {
  const { subjects } = context
  return [
    publish(subjects.ask(name), 'query its own passes, the names and roles of agents, and the time'),
    publish(subjects.register(name), 'register itself where registration is open'),
    ...(originates ? originatorGrants(name, subjects) : []),
    ...(subagent ? subagentGrants(name, subjects) : []),
    ...ownParts(name, subjects),
    ...readParts(subjects, 'read large parts of others: the hash is the capability'),
  ]
}

function originatorGrants(name: string, subjects: Subjects): Grant[] {
  return [
    publish(subjects.pattern('request', '*', name), 'request passes'),
    publish(subjects.pattern('event', name, '*', '*', 'cancel', name), 'cancel its own passes'),
    publish(subjects.pattern('event', name, '*', '*', 'applied', name), 'record applied changes'),
    publish(subjects.acknowledged(name), 'acknowledge returns'),
    ...STEP_KINDS.map((kind) => direct(subjects.stream, subjects.pattern(kind, name, '>'), 'read journals of its own passes')),
    ...takeFrom(subjects.stream, subjects.returnsConsumer(name), 'receive durable returns'),
    local(publish(subjects.pattern('returned', name, '>'), 'ask its other processes whether they are waiting for a return')),
    local(publish(`${inboxPrefixOf(name)}.>`, 'reply to them')),
    subscribe(subjects.pattern('returned', name, '>'), 'receive its returns'),
    subscribe(subjects.decided(name), 'receive notice of decisions'),
    ...subjects.detours(name).map((subject) => subscribe(subject, 'receive which of its passes must be read before a return is trusted')),
  ]
}

function subagentGrants(name: string, subjects: Subjects): Grant[] {
  const { stream } = subjects
  return [
    publish(subjects.pattern('fence', '*', name, '*', name), 'start a later attempt'),
    publish(subjects.pattern('return', '*', name, '*', name), 'return'),
    ...['started', 'progress', 'late'].map((kind) =>
      publish(subjects.pattern('event', '*', name, '*', kind, name), `report on its work: ${kind}`),
    ),
    ...PRIORITIES.flatMap((priority) => takeFrom(stream, subjects.workConsumer(name, priority), `receive its work (${priority})`)),
    ...STEP_KINDS.map((kind) => direct(stream, subjects.pattern(kind, '*', name, '>'), 'read journals of passes to it')),
    publish(`$KV.${subjects.bucket('presence')}.${name}.*`, 'write its heartbeat'),
    subscribe(subjects.endings(name), 'receive notice that a pass it works on was ended'),
  ]
}

function personGrants(name: string, context: PermissionContext): Grant[] {
  const { subjects } = context
  return [
    publish(subjects.pattern('decision', '*', '*', '*', '*', name), 'approve or deny'),
    publish(subjects.pattern('decided', '*'), 'send notice of a decision'),
    publish(subjects.pattern('event', '*', '*', '*', 'cancel', name), 'cancel a pass'),
    publish(subjects.pattern('event', '*', '*', '*', 'applied', name), 'record applied changes'),
    publish(subjects.pattern('event', '*', '*', '*', 'settled', name), 'requeue or drop a dead letter'),
    publish(subjects.policy(name), 'publish a policy version'),
    publish(subjects.agent(name), 'register agents'),
    ...writeTable(subjects.bucket('agents'), 'register agents'),
    ...writeTable(subjects.bucket('policy'), 'put a policy into force'),
    publish(subjects.ask(name), 'query passes'),
    publish(subjects.register(name), 'doctor: whether a dispatcher answers'),
    ...readStream(subjects.stream, 'show and watch passes'),
    ...['agents', 'policy', 'presence'].flatMap((table) => readTable(subjects.bucket(table), 'show agents and policy')),
    ...readParts(subjects, 'show large parts'),
    ...['INFO', 'STREAM.INFO.*', 'STREAM.LIST', 'CONSUMER.INFO.*.*', `CONSUMER.NAMES.${subjects.stream}`].map((call) =>
      publish(`${API}.${call}`, 'doctor'),
    ),
    ...leaveAlone([DISPATCHER, DECISIONS, ...NOTIFIERS, ...agentsConsumers(context)], subjects.stream),
  ]
}

/** Grants reading the archive, in addition to the stream that every person may read. */
function auditorGrants({ subjects }: PermissionContext): Grant[] {
  return [
    ...['archive', 'passes'].flatMap((table) => readTable(subjects.bucket(table), 'verify, export: manifest and records')),
    ...readObjects(subjects.bucket('archive'), 'verify, export: segments'),
  ]
}

/** Grants publishing holds and their releases; the audit service carries them out. */
function custodianGrants(name: string, { subjects }: PermissionContext): Grant[] {
  return [publish(subjects.custody(name), 'hold and release')]
}

function dispatcherGrants(context: PermissionContext): Grant[] {
  const { subjects } = context
  const { stream } = subjects
  return [
    publish(subjects.pattern('held', '*', '*', '*', SYSTEM), 'hold a pass'),
    ...PRIORITIES.map((priority) => publish(subjects.pattern('work', '*', '*', '*', priority), 'admit a pass')),
    publish(subjects.pattern('return', '*', '*', '*', SYSTEM), 'refuse, time out, cancel'),
    ...['dead_letter', 'violation'].map((kind) => publish(subjects.pattern('event', '*', '*', '*', kind, SYSTEM), `record: ${kind}`)),
    publish(subjects.agent(SYSTEM), 'record open registrations'),
    publish(`${API}.STREAM.UPDATE.${stream}`, 'stop accepting requests when the stream is nearly full'),
    ...takeFrom(stream, DISPATCHER, 'receive requests'),
    ...takeFrom(stream, DECISIONS, 'receive decisions'),
    ...readStream(stream, 'timekeeper: read journals'),
    ...makeTopology(subjects),
    ...callPartsStreams('STREAM.UPDATE', context, {
      why: 'update the buckets of agents',
      except: ownStreams(subjects).filter(
        (name) => name !== stream && !BUCKETS.some(({ kind, bucket }) => name === `${kind}_${subjects.bucket(bucket)}`),
      ),
    }),
    ...['agents', 'policy', 'budgets', 'presence'].flatMap((table) => readTable(subjects.bucket(table), 'agents, policy, budgets')),
    ...['agents', 'budgets'].flatMap((table) => writeTable(subjects.bucket(table), 'agents, budgets')),
    ...writeTable(subjects.bucket('policy'), 'finish publishing a policy or agent whose process died'),
    ...objects(subjects.bucket('snapshots'), 'snapshots of the timekeeper'),
    ...readParts(subjects, 'check large parts'),
    ...writeParts(subjects, 'store large parts of clients without the SDK'),
    subscribe(subjects.service('register'), 'answer registrations'),
  ]
}

/** Streams from which the audit service erases messages. */
const ERASED = [
  (subjects: Subjects) => `KV_${subjects.bucket('passes')}`,
  (subjects: Subjects) => `KV_${subjects.bucket('inbox')}`,
  (subjects: Subjects) => `OBJ_${subjects.bucket('archive')}`,
]
const PURGED_BY_AUDIT = [...ERASED, (subjects: Subjects) => `OBJ_${subjects.bucket('snapshots')}`]

/** Returns the streams of an installation, without those of its agents. */
function ownStreams(subjects: Subjects): string[] {
  return wantedStreams(subjects, {}).map(({ name }) => String(name))
}

function auditGrants(context: PermissionContext): Grant[] {
  const { subjects } = context
  const { stream } = subjects
  return [
    ...['violation', 'dead_letter', 'undelivered', 'expired'].map((kind) =>
      publish(subjects.pattern('event', '*', '*', '*', kind, SYSTEM), `record: ${kind}`),
    ),
    publish(subjects.custody(SYSTEM), 'record erasures and removals'),
    publish(subjects.acknowledged(SYSTEM), 'fill up the last segment of a stream that accepts no requests'),
    ...readStream(stream, 'project and archive'),
    publish(`${API}.STREAM.MSG.DELETE.${stream}`, 'delete what is archived and closed, message by message'),
    ...makeTopology(subjects),
    ...['passes', 'agents', 'policy', 'archive', 'inbox', 'acknowledged'].flatMap((table) =>
      readTable(subjects.bucket(table), 'passes, agents, policy, manifest, inbox, acknowledged returns'),
    ),
    publish(`${API}.DIRECT.GET.KV_${subjects.bucket('passes')}`, 'read records by position'),
    ...['passes', 'inbox', 'acknowledged'].flatMap((table) => writeTable(subjects.bucket(table), 'write the projection')),
    ...writeTable(subjects.bucket('archive'), 'write the manifest'),
    ...['archive', 'snapshots'].flatMap((bucket) => objects(subjects.bucket(bucket), 'archive')),
    ...ERASED.flatMap((held) =>
      ['STREAM.MSG.DELETE', 'STREAM.PURGE'].map((call) =>
        publish(`${API}.${call}.${held(subjects)}`, 'remove and erase records and segments'),
      ),
    ),
    ...readParts(subjects, 'archive large parts'),
    ...callPartsStreams('STREAM.PURGE', context, {
      why: 'delete parts of deleted passes',
      except: ownStreams(subjects).filter((name) => !PURGED_BY_AUDIT.some((held) => held(subjects) === name)),
    }),
    ...leaveAlone([...NOTIFIERS, ...agentsConsumers(context)], stream),
    subscribe(subjects.service('ask'), 'answer queries'),
  ]
}

/** Grants reading the stream, and recording dead letters. */
function notifierGrants(context: PermissionContext): Grant[] {
  const { stream } = context.subjects
  return [
    publish(context.subjects.pattern('event', '*', '*', '*', 'dead_letter', SYSTEM), 'record: dead_letter'),
    ...NOTIFIERS.flatMap((durable) => takeFrom(stream, durable, 'receive held passes and returns')),
    ...readStream(stream, 'read the passes that it sends notifications about'),
    ...leaveAlone([DISPATCHER, DECISIONS, ...agentsConsumers(context)], stream),
  ]
}

/** Grants only reading for the gateway's own user. Actions for the owner of a token use the owner's permissions (decision 77). */
function gatewayGrants(context: PermissionContext): Grant[] {
  const { subjects } = context
  return [
    ...readStream(subjects.stream, 'feed of events; agents see only their own'),
    publish(subjects.ask(SYSTEM), 'check that the audit service answers, and read metrics'),
    ...leaveAlone([DISPATCHER, DECISIONS, ...NOTIFIERS, ...agentsConsumers(context)], subjects.stream),
  ]
}
