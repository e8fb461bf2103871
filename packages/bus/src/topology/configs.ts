import { PRESENCE_MAX_AGE_MS, PRESENCE_MAX_BYTES, PRESENCE_PLACES, type Priority } from '@passover/schemas'
import type { Subjects } from '../subjects/subjects.js'
import type { TopologyOptions } from '../types/bus.js'
import type { Config } from './config-diff.js'
import { idWindowMetadata } from './id-window.js'
import { bucketBytes } from './storage-plan.js'

const NS_PER_MS = 1_000_000
/**
 * Shortest duplicate window that the server allows. Passover does not use `Nats-Msg-Id`, but the server keeps that header of each message in memory
 * during the window, whatever its size: with the default of two minutes one agent could fill the server's memory.
 */
const NO_DUPLICATES = { duplicate_window: 100 * NS_PER_MS }
const MAX_CONSUMERS = 100_000
/** Maximum number of records in the projection of passes; older ones are in the archive. */
const PASSES_KEPT = 1_000_000
/** Maximum number of entries in the index of acknowledged returns, of at most 8 KiB each. */
const ACKNOWLEDGED_KEPT = 100_000
/** Name of the durable consumer for requests, which dispatchers share. */
export const DISPATCHER = 'dispatcher'
/** Name of the durable consumer for decisions about held passes. */
export const DECISIONS = 'dispatcher_decisions'
/** Names of the durable consumers that notifiers share: for returns, for held passes, and for decisions about returns. */
export const NOTIFIER = 'notifier'
export const NOTIFIER_HELD = 'notifier_held'
export const NOTIFIER_DECISIONS = 'notifier_decisions'
export const NOTIFIERS = [NOTIFIER, NOTIFIER_HELD, NOTIFIER_DECISIONS] as const
/** Ack wait of notifiers: a killed notifier's deliveries go to another after this. Queued deliveries are renewed. */
export const NOTIFIER_ACK_WAIT_MS = 30_000
/**
 * Maximum number of unacknowledged notices of one kind. At the limit the server delivers nothing new, so the notifier gives up those of an agent that
 * floods.
 */
export const NOTIFIER_PENDING = 20_000
/** Ack wait of dispatchers. Short, so that a killed dispatcher's deliveries soon go to another; a slow one renews them. */
export const DISPATCHER_ACK_WAIT_MS = 5_000
/**
 * Ack wait for durable returns, since a listener may take its time. A slow process renews its deliveries; those of a killed one go to another after
 * this.
 */
export const RETURNS_ACK_WAIT_MS = 10_000
/** Number of work deliveries that may be lost before an attempt begins (decision 142). */
const SPARE_DELIVERIES = 6
/**
 * Maximum number of deliveries to dispatchers: enough for five minutes of trouble with backoff up to 15 s, and for two and a half minutes if the
 * dispatchers crash.
 */
const DISPATCHER_DELIVERIES = 30
/** Key-value buckets. `archive` is the manifest of the object bucket of the same name. */
const TABLES = ['agents', 'policy', 'presence', 'budgets', 'archive']
const OBJECTS = ['snapshots', 'archive']
/** Maximum age of entries in ms: of silent workers, and of budgets of trees that ended long ago. */
const MAX_AGES: Partial<Record<string, number>> = { presence: PRESENCE_MAX_AGE_MS, budgets: 172_800_000 }
/** All buckets with fixed names, without prefix. Buckets of earlier versions get the limits they lack. */
export const BUCKETS: readonly { kind: 'KV' | 'OBJ'; bucket: string }[] = [
  ...[...TABLES, 'inbox', 'passes', 'acknowledged'].map((bucket) => ({ kind: 'KV' as const, bucket })),
  ...OBJECTS.map((bucket) => ({ kind: 'OBJ' as const, bucket })),
]
/** Maximum message size in bytes of buckets to which agents write directly. */
const MAX_MESSAGES: Partial<Record<string, number>> = { presence: PRESENCE_MAX_BYTES }

export interface AgentTopology {
  subagent: boolean
  max_attempts: number
  lease_ms: number
  /** First sequence that newly created work consumers deliver. */
  from?: number | undefined
  /**
   * `leave`: does not re-create lost consumers. The process that re-creates them waits for some seconds first
   * (docs/architecture/storage.md#durable-consumers).
   */
  lost?: 'leave' | undefined
  /** Byte limit of its parts bucket. */
  parts_bytes: number
  /** False if the limit is a default, which does not replace the limit of an existing bucket. */
  parts_bytes_set: boolean
  replicas: number
}

/** Returns the configurations of all streams of an installation, the main one first. */
export function wantedStreams(subjects: Subjects, options: TopologyOptions): Config[] {
  const shared = { num_replicas: options.replicas ?? 1 }
  const tables = TABLES.map((table) => ({
    ...tableConfig(subjects.bucket(table), MAX_AGES[table]),
    ...(MAX_MESSAGES[table] && { max_msg_size: MAX_MESSAGES[table] }),
    ...(table === 'presence' && { subject_transform: placesOf(subjects.bucket(table)) }),
  }))
  // Erased entries of these two buckets are overwritten on disk.
  const inbox = { ...tableConfig(subjects.bucket('inbox')), deny_delete: false }
  const passes = { ...tableConfig(subjects.bucket('passes')), max_msgs: PASSES_KEPT, discard: 'old', deny_delete: false }
  const acknowledged = { ...tableConfig(subjects.bucket('acknowledged')), max_msgs: ACKNOWLEDGED_KEPT, discard: 'old' }
  const objects = OBJECTS.map((bucket) => objectsConfig(subjects.bucket(bucket)))
  const stream_bytes = options.max_bytes ?? -1
  const limits = new Map<string, number>(
    BUCKETS.map(({ kind, bucket }) => [`${kind}_${subjects.bucket(bucket)}`, bucketBytes(kind, bucket, stream_bytes)] as const),
  )
  const withLimit = (config: Config): Config => ({ ...config, max_bytes: limits.get(String(config.name)) ?? -1 })
  return [
    streamConfig(subjects, options),
    ...[...tables, inbox, passes, acknowledged, ...objects].map((config) => withLimit({ ...config, ...shared })),
  ]
}

/**
 * Configuration of the bucket for an agent's large parts. Each subject is written once: the agent cannot change or remove parts that its messages
 * reference, neither by a second message nor by a rollup. Purges still remove parts.
 */
export function partsConfig(
  subjects: Subjects,
  agent: string,
  { replicas, parts_bytes }: Pick<AgentTopology, 'replicas' | 'parts_bytes'>,
): Config {
  const bucket = subjects.partsBucket(agent)
  const filters = (['C', 'M'] as const).map((what) => `${subjects.parts(agent, what)}.>`)
  return {
    ...objectsConfig(bucket),
    subjects: filters,
    max_msgs_per_subject: 1,
    discard_new_per_subject: true,
    allow_rollup_hdrs: false,
    max_bytes: parts_bytes,
    num_replicas: replicas,
  }
}

/** Returns the subjects of that bucket in earlier versions, to which processes of those versions still write. */
export function earlierPartsSubjects(subjects: Subjects, agent: string): string[] {
  return (['C', 'M'] as const).map((what) => `${subjects.earlierParts(agent, what)}.>`)
}

/**
 * Returns the maximum number of deliveries of a work message. A delivery lost before its attempt begins does not count as an attempt, so there are
 * more deliveries than attempts. If only one attempt is allowed, there is one delivery: the worker that lost it may have begun.
 */
export function deliveriesOf(max_attempts: number): number {
  return max_attempts === 1 ? 1 : max_attempts + SPARE_DELIVERIES
}

/** Configuration of one of a subagent's three work consumers. */
export function workConfig(subjects: Subjects, priority: Priority, agent: AgentTopology & { agent: string }): Config {
  const { from } = agent
  const begin = from === undefined ? { deliver_policy: 'all' } : { deliver_policy: 'by_start_sequence', opt_start_seq: Math.max(1, from) }
  return {
    durable_name: subjects.workConsumer(agent.agent, priority),
    ...begin,
    ack_policy: 'explicit',
    replay_policy: 'instant',
    filter_subjects: [subjects.allWork(agent.agent, priority)],
    ack_wait: agent.lease_ms * NS_PER_MS,
    max_deliver: deliveriesOf(agent.max_attempts),
    max_ack_pending: 100_000,
    max_waiting: 8192,
  }
}

/** Configuration of the main stream (docs/architecture/storage.md#the-stream). */
export function streamConfig(subjects: Subjects, options: TopologyOptions): Config {
  return {
    name: subjects.stream,
    subjects: subjects.streamSubjects(),
    storage: 'file',
    retention: 'limits',
    discard: 'new',
    ...NO_DUPLICATES,
    allow_direct: true,
    deny_delete: false,
    // Messages are only deleted one by one. The server does not allow reverting this setting.
    deny_purge: true,
    max_age: 0,
    max_msgs: -1,
    max_msgs_per_subject: -1,
    max_bytes: options.max_bytes ?? -1,
    max_consumers: MAX_CONSUMERS,
    num_replicas: options.replicas ?? 1,
    compression: options.compression ? 's2' : 'none',
    republish: subjects.republish(),
    // The default is not written: it would be permanent, and a process configured with another window could not start.
    ...(options.id_window_ms !== undefined && { metadata: idWindowMetadata(options.id_window_ms) }),
  }
}

/**
 * Configuration of the consumer for an agent's durable returns, from the time of its subscription on. It only lists where the returns are, so headers
 * alone suffice. Deliveries are unlimited. A lost consumer is re-created at the same start; returns acknowledged since are skipped.
 */
export function returnsConfig(subjects: Subjects, agent: string, from: number): Config {
  return {
    durable_name: subjects.returnsConsumer(agent),
    deliver_policy: 'by_start_sequence',
    opt_start_seq: Math.max(1, from),
    ack_policy: 'explicit',
    replay_policy: 'instant',
    filter_subjects: [subjects.allReturns(agent)],
    headers_only: true,
    ack_wait: RETURNS_ACK_WAIT_MS * NS_PER_MS,
    max_deliver: -1,
    max_ack_pending: 100_000,
    max_waiting: 512,
  }
}

/**
 * Configuration of the durables that dispatchers share, each with one filter: with several filters the server searches all subjects of a block for
 * every message of a backlog, a millisecond each
 * (docs/architecture/storage.md#why-one-filter-each).
 */
export function dispatcherConfigs(subjects: Subjects): [requests: Config, decisions: Config] {
  return [dispatcherConfig(DISPATCHER, subjects.all('request')), dispatcherConfig(DECISIONS, subjects.allDecisions('dispatch'))]
}

function dispatcherConfig(durable_name: string, filter: string): Config {
  return {
    durable_name,
    deliver_policy: 'all',
    ack_policy: 'explicit',
    replay_policy: 'instant',
    filter_subjects: [filter],
    ack_wait: DISPATCHER_ACK_WAIT_MS * NS_PER_MS,
    max_deliver: DISPATCHER_DELIVERIES,
    max_ack_pending: 4096,
    max_waiting: 8192,
  }
}

/**
 * Configuration of the durables that notifiers share. Created when the first notifier starts, and begin there: older messages are no news. Deliveries
 * are unlimited; the notifier decides when to give up. One filter each, as above.
 */
export function notifierConfigs(subjects: Subjects): Record<(typeof NOTIFIERS)[number], Config> {
  return {
    [NOTIFIER]: notifierConfig(NOTIFIER, subjects.all('return')),
    [NOTIFIER_HELD]: notifierConfig(NOTIFIER_HELD, subjects.all('held')),
    [NOTIFIER_DECISIONS]: notifierConfig(NOTIFIER_DECISIONS, subjects.allDecisions('return')),
  }
}

function notifierConfig(durable_name: string, filter: string): Config {
  return {
    durable_name,
    deliver_policy: 'new',
    ack_policy: 'explicit',
    replay_policy: 'instant',
    filter_subjects: [filter],
    ack_wait: NOTIFIER_ACK_WAIT_MS * NS_PER_MS,
    max_deliver: -1,
    max_ack_pending: NOTIFIER_PENDING,
    // Passes are read from the leader: pending deliveries must not hold messages of megabytes.
    headers_only: true,
    max_waiting: 512,
  }
}

function tableConfig(bucket: string, max_age_ms = 0): Config {
  return {
    name: `KV_${bucket}`,
    subjects: [`$KV.${bucket}.>`],
    storage: 'file',
    retention: 'limits',
    discard: 'new',
    ...NO_DUPLICATES,
    max_msgs_per_subject: 1,
    max_msgs: -1,
    max_bytes: -1,
    max_age: max_age_ms * NS_PER_MS,
    allow_direct: true,
    // A message with `Nats-Rollup: all` would remove every other entry. None of our writers needs the header.
    allow_rollup_hdrs: false,
    deny_delete: true,
  }
}

/** Maps every key `<agent>.<name>` to one of a fixed number of places, which limits the entries of an agent. */
function placesOf(bucket: string): Config {
  return { src: `$KV.${bucket}.*.*`, dest: `$KV.${bucket}.{{wildcard(1)}}.{{partition(${PRESENCE_PLACES},2)}}` }
}

function objectsConfig(bucket: string): Config {
  return {
    name: `OBJ_${bucket}`,
    subjects: [`$O.${bucket}.C.>`, `$O.${bucket}.M.>`],
    storage: 'file',
    retention: 'limits',
    discard: 'new',
    ...NO_DUPLICATES,
    max_msgs_per_subject: -1,
    max_msgs: -1,
    max_bytes: -1,
    max_age: 0,
    allow_direct: true,
    allow_rollup_hdrs: true,
  }
}
