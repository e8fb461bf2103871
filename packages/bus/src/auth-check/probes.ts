import { HEADER, PRIORITIES, SYSTEM, sha256 } from '@passover/schemas'
import { CONTENT_TYPE, encode } from '../codec/codec.js'
import { API } from '../permissions/grants.js'
import type { Subjects } from '../subjects/subjects.js'
import { DISPATCHER } from '../topology/configs.js'
import type { CheckHeaders } from './check-connection.js'

/** Name of an agent, person, pass and consumer that do not exist; every probe uses it. */
export const NOBODY = 'passover-auth-check'

/** One message that the agent tries to send. */
export interface Attempt {
  subject: string
  data: Uint8Array
  headers?: CheckHeaders
}

/** A subject the agent must not be able to publish to. */
export interface DirectProbe extends Attempt {
  text: string
}

/**
 * A way to make the server, or a service, publish to a subject of the sender's choice. It is enough if the agent may make one of the attempts. The
 * answer is aimed by the reply subject, or by the header `aimed_by`.
 */
export interface BounceProbe {
  name: string
  text: string
  attempts: Attempt[]
  aimed_by?: string
}

const NOTHING = new Uint8Array(0)
/** Larger than any sequence of a real stream, and exact in JSON. */
const NO_SEQUENCE = Number.MAX_SAFE_INTEGER
/** Guard that never holds. The stream checks it after the permissions, so an attempt proves the permission without storing a message. */
const GUARDED: CheckHeaders = { 'Nats-Expected-Last-Sequence': String(NO_SEQUENCE) }
const BODY: CheckHeaders = { [HEADER.contentType]: CONTENT_TYPE.msgpack }

/** Invalid JSON: the server answers 400. Any text that does not begin with a brace would count as a pull of one message. */
const BAD_PULL = text('{')
/** Extends the lease of a delivery that does not exist; the server confirms it to the reply subject. */
const IN_PROGRESS = text('+WPI')

/** Lists subjects to which an agent must not be able to publish directly. The attempts store, delete and change nothing. */
export function directProbes(subjects: Subjects, agent: string, peers: readonly string[]): DirectProbe[] {
  const { stream } = subjects
  const key = { originator: NOBODY, subagent: NOBODY, id: NOBODY }
  const stored = (subject: string, what: string): DirectProbe => ({ text: what, subject, data: NOTHING, headers: GUARDED })
  const api = (call: string, body: object | undefined, what: string): DirectProbe => ({
    text: what,
    subject: `${API}.${call}`,
    data: body === undefined ? NOTHING : text(JSON.stringify(body)),
  })
  const table = (bucket: string, what: string) => stored(`$KV.${subjects.bucket(bucket)}.${NOBODY}`, what)
  return [
    stored(subjects.decision(key, 'dispatch', NOBODY), 'approve or deny as a person'),
    api('STREAM.NAMES', undefined, 'list all streams'),
    stored(subjects.request(NOBODY, NOBODY), 'request a pass as another agent'),
    stored(subjects.work(key, 'high'), 'admit work without the dispatcher'),
    stored(subjects.held(key), 'hold a pass as the dispatcher'),
    stored(subjects.fence(key, NOBODY), 'begin an attempt as another worker'),
    stored(subjects.return(key, NOBODY), 'return as another worker'),
    stored(subjects.return(key, SYSTEM), 'end a pass as the dispatcher'),
    stored(subjects.event(key, 'cancel', NOBODY), 'cancel passes of another agent'),
    stored(subjects.acknowledged(NOBODY), 'acknowledge returns of another agent'),
    stored(subjects.policy(NOBODY), 'publish a policy version'),
    stored(subjects.agent(NOBODY), 'register an agent'),
    stored(subjects.custody(NOBODY), 'hold or erase evidence'),
    table('agents', 'write the registry'),
    table('policy', 'put a policy into force'),
    table('budgets', 'change budgets'),
    table('passes', 'change records of passes'),
    table('archive', 'change the manifest of the archive'),
    stored(`$O.${subjects.bucket('archive')}.C.${NOBODY}.0`, 'write segments of the archive'),
    ...peers
      .filter((peer) => peer !== agent)
      .slice(0, 1)
      .map((peer) => stored(`${subjects.parts(peer, 'C')}.${NOBODY}.0`, `write into the bucket of ${peer}`)),
    { text: 'ask the audit as another agent', subject: subjects.ask(NOBODY), data: encode({ op: 'time' }), headers: BODY },
    api(`STREAM.INFO.${stream}`, undefined, 'read the configuration of the stream'),
    api(`STREAM.MSG.GET.${stream}`, { seq: NO_SEQUENCE }, 'read any message by its sequence'),
    api(`DIRECT.GET.${stream}`, { seq: NO_SEQUENCE }, 'read any message by its sequence (direct get)'),
    api(`DIRECT.GET.${stream}.${subjects.policy(NOBODY)}`, undefined, 'read messages of any subject'),
    api(`STREAM.MSG.DELETE.${stream}`, { seq: NO_SEQUENCE }, 'delete messages'),
    api(`STREAM.UPDATE.${stream}`, { name: NOBODY }, 'change the stream'),
    api(`CONSUMER.CREATE.${stream}.${NOBODY}`, { stream_name: NOBODY }, 'create consumers'),
    api(`CONSUMER.DELETE.${stream}.${NOBODY}`, undefined, 'delete consumers'),
    { text: 'take requests from the dispatcher', subject: `${API}.CONSUMER.MSG.NEXT.${stream}.${DISPATCHER}`, data: BAD_PULL },
    { text: 'acknowledge requests of the dispatcher', subject: ackOf(stream, DISPATCHER), data: IN_PROGRESS },
  ]
}

/** Returns an attempt to admit work, which no agent and no person may do. The stream rejects it. */
export function admission(subjects: Subjects): Attempt {
  return { subject: subjects.work({ originator: NOBODY, subagent: NOBODY, id: NOBODY }, 'high'), data: NOTHING, headers: GUARDED }
}

/** Lists the ways to aim an answer at a foreign subject. Each attempt uses only subjects to which correct agents publish. */
export function bounceProbes(subjects: Subjects, agent: string): BounceProbe[] {
  const { stream } = subjects
  const own = { originator: agent, subagent: NOBODY, id: NOBODY }
  const toIt = { originator: NOBODY, subagent: agent, id: NOBODY }
  const direct = (subject: string): Attempt => ({ subject: `${API}.DIRECT.GET.${stream}.${subject}`, data: NOTHING })
  const guarded = (subject: string): Attempt => ({ subject, data: NOTHING, headers: GUARDED })
  const consumers = [...PRIORITIES.map((priority) => subjects.workConsumer(agent, priority)), subjects.returnsConsumer(agent)]
  const ask: Attempt = { subject: subjects.ask(agent), data: encode({ op: 'time' }), headers: BODY }
  return [
    { name: 'direct_get', text: 'the answer of a direct get', attempts: [direct(subjects.held(own)), direct(subjects.held(toIt))] },
    {
      name: 'publish_ack',
      text: 'the acknowledgment of a publish',
      attempts: [
        guarded(markerSubject(subjects, agent, NOTHING)),
        guarded(subjects.request(NOBODY, agent)),
        guarded(subjects.return(toIt, agent)),
        guarded(subjects.acknowledged(agent)),
      ],
    },
    {
      name: 'pull_status',
      text: 'the status of a pull request',
      attempts: consumers.map((name) => ({ subject: `${API}.CONSUMER.MSG.NEXT.${stream}.${name}`, data: BAD_PULL })),
    },
    {
      name: 'ack_confirmation',
      text: 'the confirmation of a message acknowledgment',
      attempts: consumers.map((name) => ({ subject: ackOf(stream, name), data: IN_PROGRESS })),
    },
    {
      name: 'api_answer',
      text: 'the answer of a JetStream API call',
      attempts: consumers.map((name) => ({ subject: `${API}.CONSUMER.INFO.${stream}.${name}`, data: NOTHING })),
    },
    { name: 'service_answer', text: 'the answer of the audit service', attempts: [ask] },
    {
      name: 'message_trace',
      text: 'a message trace (Nats-Trace-Dest)',
      attempts: [{ ...ask, headers: { ...BODY, 'Nats-Trace-Only': 'true' } }],
      aimed_by: 'Nats-Trace-Dest',
    },
  ]
}

/** Returns the subject of a check's marker in the agent's own bucket. It depends only on the body, so that later checks find the marker there. */
export function markerSubject(subjects: Subjects, agent: string, body: Uint8Array): string {
  return `${subjects.parts(agent, 'C')}.${NOBODY}-${sha256(body).slice(0, 16)}.0`
}

function ackOf(stream: string, consumer: string): string {
  return `$JS.ACK.${stream}.${consumer}.1.${NO_SEQUENCE}.${NO_SEQUENCE}.0.0`
}

function text(value: string): Uint8Array {
  return new TextEncoder().encode(value)
}
