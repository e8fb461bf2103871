import { PRIORITIES } from '@passover/schemas'
import type { Subjects } from '../subjects/subjects.js'
import { BUCKETS } from '../topology/configs.js'

export interface PermissionContext {
  subjects: Subjects
  /**
   * All registered agents. Each is listed, because wildcards do not match parts of bucket and consumer names. `any`: agents are added while services
   * run, so the permissions must not depend on the list.
   */
  agents: string[] | 'any'
}

/** One permission of a principal, and its purpose. */
export interface Grant {
  may: 'publish' | 'subscribe' | 'never publish'
  subject: string
  why: string
  /** True if only the agent's own connections are involved: an agent account needs no import for it. */
  local?: true
}

export const API = '$JS.API'

/** Grants creating streams, consumers and buckets, and changing bucket limits. Includes no right to delete or purge the stream. */
export function makeTopology(subjects: Subjects): Grant[] {
  const { stream } = subjects
  const calls = ['STREAM.INFO.*', 'STREAM.CREATE.*', 'STREAM.LIST', 'STREAM.NAMES', 'INFO', `CONSUMER.NAMES.${stream}`]
  const limits = BUCKETS.map(({ kind, bucket }) => `STREAM.UPDATE.${kind}_${subjects.bucket(bucket)}`)
  return [...calls, ...limits].map((call) => publish(`${API}.${call}`, 'create streams, consumers and buckets'))
}

/** Names the consumers of all agents: for their work and for their durable returns. */
export function agentsConsumers({ subjects, agents }: PermissionContext): string[] {
  return listed(agents).flatMap((agent) => [
    ...PRIORITIES.map((priority) => subjects.workConsumer(agent, priority)),
    subjects.returnsConsumer(agent),
  ])
}

/** Denies changing, deleting or draining the consumers of others. For principals that may create readers. */
export function leaveAlone(consumers: string[], stream: string): Grant[] {
  const calls = ['CREATE', 'DELETE', 'MSG.NEXT']
  return consumers.flatMap((consumer) =>
    calls.map((call) => never(`${API}.CONSUMER.${call}.${stream}.${consumer}`, 'consumers of others stay as they are')),
  )
}

/** Grants consuming from a durable that another principal created, and acknowledging its deliveries. */
export function takeFrom(stream: string, consumer: string, why: string): Grant[] {
  return [
    `${API}.CONSUMER.INFO.${stream}.${consumer}`,
    `${API}.CONSUMER.MSG.NEXT.${stream}.${consumer}`,
    `$JS.ACK.${stream}.${consumer}.>`,
  ].map((subject) => publish(subject, why))
}

export function readStream(stream: string, why: string): Grant[] {
  return [...readers(stream), `${API}.STREAM.MSG.GET.${stream}`, `${API}.DIRECT.GET.${stream}.>`].map((subject) => publish(subject, why))
}

/** API calls for short-lived ordered readers. */
function readers(stream: string): string[] {
  return ['STREAM.INFO', 'CONSUMER.CREATE', 'CONSUMER.INFO', 'CONSUMER.DELETE', 'CONSUMER.MSG.NEXT'].map((call) =>
    call === 'STREAM.INFO' ? `${API}.${call}.${stream}` : `${API}.${call}.${stream}.*`,
  )
}

export function readTable(bucket: string, why: string): Grant[] {
  return [...readers(`KV_${bucket}`), `${API}.DIRECT.GET.KV_${bucket}.>`].map((subject) => publish(subject, why))
}

export function writeTable(bucket: string, why: string): Grant[] {
  return [publish(`$KV.${bucket}.>`, why)]
}

/** Grants writing and reading an object bucket: chunks are read by direct gets, lists by a reader. */
export function objects(bucket: string, why: string): Grant[] {
  const stream = `OBJ_${bucket}`
  const calls = [`DIRECT.GET.${stream}`, `DIRECT.GET.${stream}.>`, `STREAM.PURGE.${stream}`]
  return [`$O.${bucket}.>`, ...readers(stream), ...calls.map((call) => `${API}.${call}`)].map((subject) => publish(subject, why))
}

/** Grants read-only access to an object bucket. */
export function readObjects(bucket: string, why: string): Grant[] {
  const stream = `OBJ_${bucket}`
  const calls = [`DIRECT.GET.${stream}`, `DIRECT.GET.${stream}.>`]
  return [...readers(stream), ...calls.map((call) => `${API}.${call}`)].map((subject) => publish(subject, why))
}

export function ownParts(name: string, subjects: Subjects): Grant[] {
  return partFilters(subjects, name).map((subject) => publish(subject, 'store large parts in its own bucket'))
}

/** Grants writing the parts of all agents, for clients that publish large requests without the SDK. */
export function writeParts(subjects: Subjects, why: string): Grant[] {
  return partFilters(subjects, '*').map((subject) => publish(subject, why))
}

/** Grants reading the parts of all agents. No other bucket has such subjects. */
export function readParts(subjects: Subjects, why: string): Grant[] {
  return partFilters(subjects, '*').map((subject) => direct('*', subject, why))
}

/** Grants a call to the parts stream of each agent. If agents are not listed, to any stream except those in `except`. */
export function callPartsStreams(
  call: string,
  { subjects, agents }: PermissionContext,
  { why, except }: { why: string; except: string[] },
): Grant[] {
  if (agents !== 'any') return agents.map((agent) => publish(`${API}.${call}.OBJ_${subjects.partsBucket(agent)}`, why))
  return [
    publish(`${API}.${call}.*`, why),
    ...except.map((stream) => never(`${API}.${call}.${stream}`, 'streams of others stay as they are')),
  ]
}

/** Returns the agents known by name. */
export function listed(agents: PermissionContext['agents']): string[] {
  return agents === 'any' ? [] : agents
}

function partFilters(subjects: Subjects, agent: string): string[] {
  return [`${subjects.parts(agent, 'C')}.*.*`, `${subjects.parts(agent, 'M')}.*`]
}

export function publish(subject: string, why: string): Grant {
  return { may: 'publish', subject, why }
}

function never(subject: string, why: string): Grant {
  return { may: 'never publish', subject, why }
}

export function subscribe(subject: string, why: string): Grant {
  return { may: 'subscribe', subject, why }
}

/** Marks a grant as limited to the agent's own connections. */
export function local(grant: Grant): Grant {
  return { ...grant, local: true }
}

export function direct(stream: string, subject: string, why: string): Grant {
  return publish(`${API}.DIRECT.GET.${stream}.${subject}`, why)
}
