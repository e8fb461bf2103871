import { SLOTS } from '@passover/schemas'
import type { Subjects } from '../subjects/subjects.js'
import { BUCKETS } from '../topology/configs.js'

export interface PermissionContext {
  subjects: Subjects
  /**
   * All registered agents: wildcards do not match parts of the names of buckets and consumers, so that each agent is listed. `any`: agents
   * are added while services run, and rights must not depend on the list.
   */
  agents: string[] | 'any'
}

/** One thing that a principal may do, and the purpose. */
export interface Grant {
  may: 'publish' | 'subscribe' | 'never publish'
  subject: string
  why: string
  /** Only the agent's own connections take part: an account of its own needs no import for it. */
  local?: true
}

export const API = '$JS.API'

/** Streams, consumers and buckets as they should be. Nobody may delete or purge the stream. */
export function makeTopology(subjects: Subjects): Grant[] {
  const { stream } = subjects
  const calls = ['STREAM.INFO.*', 'STREAM.CREATE.*', 'STREAM.LIST', 'STREAM.NAMES', 'INFO', `CONSUMER.NAMES.${stream}`]
  const limits = BUCKETS.map(({ kind, bucket }) => `STREAM.UPDATE.${kind}_${subjects.bucket(bucket)}`)
  return [...calls, ...limits].map((call) => publish(`${API}.${call}`, 'make streams, consumers and buckets'))
}

/** Those of all agents: of their work, and of the returns that wait for them. */
export function agentsConsumers({ subjects, agents }: PermissionContext): string[] {
  return listed(agents).flatMap((agent) => [...SLOTS.map((slot) => subjects.workConsumer(agent, slot)), subjects.returnsConsumer(agent)])
}

/** Who may make readers of its own must not change, delete or empty what others consume by. */
export function leaveAlone(consumers: string[], stream: string): Grant[] {
  const calls = ['CREATE', 'DELETE', 'MSG.NEXT']
  return consumers.flatMap((consumer) =>
    calls.map((call) => never(`${API}.CONSUMER.${call}.${stream}.${consumer}`, 'consumers of others stay as they are')),
  )
}

/** Bind a durable that somebody else made, and answer for what it delivers. */
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

/** Short-lived ordered readers. */
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

/** A bucket of objects of its own: chunks are read by direct gets, lists by a reader. */
export function objects(bucket: string, why: string): Grant[] {
  const stream = `OBJ_${bucket}`
  const calls = [`DIRECT.GET.${stream}`, `DIRECT.GET.${stream}.>`, `STREAM.PURGE.${stream}`]
  return [`$O.${bucket}.>`, ...readers(stream), ...calls.map((call) => `${API}.${call}`)].map((subject) => publish(subject, why))
}

/** What is in a bucket of objects, to be read and no more. */
export function readObjects(bucket: string, why: string): Grant[] {
  const stream = `OBJ_${bucket}`
  const calls = [`DIRECT.GET.${stream}`, `DIRECT.GET.${stream}.>`]
  return [...readers(stream), ...calls.map((call) => `${API}.${call}`)].map((subject) => publish(subject, why))
}

export function ownParts(name: string, subjects: Subjects): Grant[] {
  return partFilters(subjects, name).map((subject) => publish(subject, 'put large parts into its own bucket'))
}

/** Of all agents: for clients that publish large requests without the SDK. */
export function writeParts(subjects: Subjects, why: string): Grant[] {
  return partFilters(subjects, '*').map((subject) => publish(subject, why))
}

/** Of all agents: no other bucket has such subjects. */
export function readParts(subjects: Subjects, why: string): Grant[] {
  return partFilters(subjects, '*').map((subject) => direct('*', subject, why))
}

/** A call to the stream of each agent's bucket; where agents are not listed, to any stream but those of `except`. */
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

/** The agents that are known by name. */
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

/** Among the agent's own connections. */
export function local(grant: Grant): Grant {
  return { ...grant, local: true }
}

export function direct(stream: string, subject: string, why: string): Grant {
  return publish(`${API}.DIRECT.GET.${stream}.${subject}`, why)
}
