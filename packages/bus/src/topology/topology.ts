import { PRIORITIES } from '@passover/schemas'
import type { JetStreamApi } from '../messaging/jetstream-api.js'
import { API_ERROR } from '../messaging/jetstream-api.js'
import type { Subjects } from '../subjects/subjects.js'
import type { TopologyOptions } from '../types/bus.js'
import { differenceText, StreamLost } from '../types/errors.js'
import { type Config, differencesOf, type Loose, same, sameList } from './config-diff.js'
import {
  type AgentTopology,
  dispatcherConfigs,
  earlierPartsSubjects,
  NOTIFIER,
  NOTIFIER_DECISIONS,
  NOTIFIER_HELD,
  notifierConfigs,
  partsConfig,
  returnsConfig,
  wantedStreams,
  workConfig,
} from './configs.js'
import { ensureConsumer, ensureStream, infoOf, refused, STARTS, settledUpTo, tuneConsumer } from './ensure-resource.js'
import { keepIdWindow } from './id-window.js'
import { ensureBounded, missingLimit, reserveStream, updateIfAllowed } from './storage-reservation.js'

/** Fields that earlier versions set differently and that the server does not allow to change. */
const OF_BEFORE = new Set(['deny_delete'])
/** Limits that earlier versions did not set. */
const TIGHTENED = new Set(['duplicate_window', 'max_msg_size', 'discard_new_per_subject', 'subject_transform'])

function looseFor(subjects: Subjects, options: TopologyOptions): Loose {
  const left = unsaid(options)
  // keepIdWindow handles our part of the metadata.
  return (field, found) => field === 'metadata' || left(field) || OF_BEFORE.has(field) || requestsAreOut(subjects, field, found)
}

/** Creates a bucket. An existing bucket of an earlier version gets today's maximum age and limits, if it lacks them. */
async function ensureBucket(
  api: JetStreamApi,
  wanted: Config,
  { loose, raises = false }: { loose: Loose; raises?: boolean },
): Promise<void> {
  const isOlder: Loose = (field) => (field === 'max_age' && wanted.max_age !== 0) || isTightened(wanted, field)
  const before = await ensureBounded(api, wanted, (field, value) => loose(field, value) || isOlder(field, value))
  if (!before) return
  const found = await tighten(api, wanted, before)
  const max_bytes = await missingLimit(api, { wanted, found, raises })
  if (max_bytes !== undefined) await updateIfAllowed(api, { ...found, max_bytes })
  if (found.max_age === wanted.max_age || !wanted.max_age) return
  await api.must(`STREAM.UPDATE.${String(wanted.name)}`, { ...found, ...(max_bytes && { max_bytes }), max_age: wanted.max_age })
}

/** Returns true for a limit that a bucket of an earlier version may lack. */
function isTightened(wanted: Config, field: string): boolean {
  return TIGHTENED.has(field) || (field === 'allow_rollup_hdrs' && wanted.allow_rollup_hdrs === false)
}

/**
 * Sets the limits that earlier versions did not have, and returns the resulting configuration. A process without the permission leaves it to a
 * dispatcher.
 */
async function tighten(api: JetStreamApi, wanted: Config, found: Config): Promise<Config> {
  const config = tightened(wanted, found)
  if (config !== found) await updateIfAllowed(api, config)
  return config
}

/** Returns a configuration with the limits that earlier versions did not have, or `found` itself if it has them. */
function tightened(wanted: Config, found: Config): Config {
  const missing = Object.entries(wanted).filter(([field, value]) => isTightened(wanted, field) && !same(found[field], value))
  return missing.length === 0 ? found : { ...found, ...Object.fromEntries(missing) }
}

/**
 * Creates the main stream. A stream of an earlier version also gets the custody subjects and denies purges, if this process may change it
 * (dispatcher, owner).
 */
async function ensureMain(
  api: JetStreamApi,
  wanted: Config,
  { subjects, loose }: { subjects: Subjects; loose: Loose },
): Promise<Config | undefined> {
  const custody = subjects.all('custody')
  const lacks = (found: unknown) => Array.isArray(found) && !found.includes(custody)
  const completed = (found: unknown) => [...(found as string[]), custody]
  const isOlder: Loose = (field, found) =>
    field === 'deny_purge' ||
    TIGHTENED.has(field) ||
    (field === 'subjects' && lacks(found) && (sameList(completed(found), wanted.subjects as string[]) || loose(field, completed(found))))
  const found = await ensureStream(api, wanted, (field, value) => loose(field, value) || isOlder(field, value))
  if (!found) return found
  const tight = tightened(wanted, found)
  if (tight === found && !lacks(found.subjects) && found.deny_purge === true) return found
  const whole = { ...tight, subjects: lacks(found.subjects) ? completed(found.subjects) : found.subjects, deny_purge: true }
  const updated = await api.call(`STREAM.UPDATE.${subjects.stream}`, whole).catch(() => undefined)
  return updated?.ok ? whole : found
}

/** Creates or updates stream, republish, the dispatchers' durables and the buckets (docs/architecture/storage.md). Idempotent. */
export async function ensureTopology(api: JetStreamApi, subjects: Subjects, options: TopologyOptions = {}): Promise<void> {
  const loose = looseFor(subjects, options)
  if (!(await infoOf(api, `STREAM.INFO.${subjects.stream}`))) await refuseRemains(api, subjects)
  await reserveStream(api, subjects, options)
  const [main] = wantedStreams(subjects, options)
  const found = main && (await ensureMain(api, main, { subjects, loose }))
  const { id_window_ms: wanted, silent_stream: silent = 'write' } = options
  if (found) await keepIdWindow(api, subjects, { found, wanted, silent })
  // First: until it exists, decisions are delivered by the other durable, if that is of an earlier version.
  await ensureDecisions(api, subjects)
  await ensureRequests(api, subjects)
  // Only now: a process that has just created the stream may still have to lower its limit.
  const buckets = await bucketsOf(api, subjects, options.replicas)
  const raises = options.storage_bytes !== undefined
  for (const bucket of buckets) await ensureBucket(api, bucket, { loose, raises })
}

/** Creates only the buckets: a running process must not create the main stream (decision 55). Idempotent. */
export async function ensureBuckets(api: JetStreamApi, subjects: Subjects): Promise<void> {
  for (const bucket of await bucketsOf(api, subjects))
    await ensureBucket(api, bucket, { loose: (field) => field === 'num_replicas' || field === 'compression' || OF_BEFORE.has(field) })
}

/** Returns the configurations of the buckets. Limits and, by default, replicas follow the main stream. */
async function bucketsOf(api: JetStreamApi, subjects: Subjects, replicas?: number): Promise<Config[]> {
  const main = await infoOf(api, `STREAM.INFO.${subjects.stream}`)
  const options = { replicas: replicas ?? Number(main?.num_replicas ?? 1), max_bytes: Number(main?.max_bytes ?? -1) }
  return wantedStreams(subjects, options).slice(1)
}

/** Throws StreamLost if resources derived from a missing stream remain. */
async function refuseRemains(api: JetStreamApi, subjects: Subjects): Promise<void> {
  const remains: string[] = []
  for (const name of MADE_OF_STREAM.map((made) => made(subjects))) {
    const reply = await api.call<{ state: { messages: number } }>(`STREAM.INFO.${name}`)
    if (reply.ok && reply.value.state.messages > 0) remains.push(`${name}: ${reply.value.state.messages}`)
  }
  if (remains.length > 0) throw new StreamLost(subjects.stream, remains)
}

/** Buckets whose entries refer to sequences of the main stream. */
const MADE_OF_STREAM = [
  (subjects: Subjects) => `KV_${subjects.bucket('passes')}`,
  (subjects: Subjects) => `KV_${subjects.bucket('archive')}`,
  (subjects: Subjects) => `KV_${subjects.bucket('policy')}`,
  (subjects: Subjects) => `OBJ_${subjects.bucket('snapshots')}`,
]

/**
 * Returns the main stream (`stream`) and the existing buckets (object buckets as `objects <name>`), each with the server time of its creation. A
 * later time means that it was re-created since it was last read.
 */
export async function storesOf(api: JetStreamApi, subjects: Subjects): Promise<Map<string, number>> {
  const found = await Promise.all(
    wantedStreams(subjects, {}).map(async ({ name }) => {
      const reply = await api.call<{ created: string }>(`STREAM.INFO.${String(name)}`)
      if (reply.ok) return [storeName(subjects, String(name)), Date.parse(reply.value.created)] as const
      if (reply.err_code !== API_ERROR.streamNotFound) throw refused(`stream ${String(name)}`, reply)
      return undefined
    }),
  )
  return new Map(found.filter((one) => one !== undefined))
}

function storeName(subjects: Subjects, name: string): string {
  if (name === subjects.stream) return 'stream'
  const ours = subjects.bucket('x').slice(0, -1)
  const plain = name.replace(`_${ours}`, '_')
  return plain.startsWith('KV_') ? plain.slice('KV_'.length) : `objects ${plain.slice('OBJ_'.length)}`
}

/** Creates the dispatchers' durable for requests, which may get lost while they run. `from`: its start, if it is created now. Idempotent. */
export function ensureRequests(api: JetStreamApi, subjects: Subjects, from?: number): Promise<void> {
  return ensureOwn(api, subjects, begins(dispatcherConfigs(subjects)[0], from))
}

/** Creates the dispatchers' durable for decisions, in the same way. */
export function ensureDecisions(api: JetStreamApi, subjects: Subjects, from?: number): Promise<void> {
  return ensureOwn(api, subjects, begins(dispatcherConfigs(subjects)[1], from))
}

/** Returns a function that creates one of the notifiers' durables. Idempotent. */
export function ensureNotifier(
  durable: keyof ReturnType<typeof notifierConfigs>,
): (api: JetStreamApi, subjects: Subjects, from?: number) => Promise<void> {
  return (api, subjects, from) => ensureOwn(api, subjects, begins(notifierConfigs(subjects)[durable], from))
}

/**
 * Creates all three durables of the notifiers. In an installation that only had the first one, the others continue at its position; it gets its
 * single filter last.
 */
export async function ensureNotifiers(api: JetStreamApi, subjects: Subjects): Promise<void> {
  const settled = await settledUpTo(api, subjects.stream, NOTIFIER)
  const from = settled === undefined ? undefined : settled + 1
  for (const durable of [NOTIFIER_HELD, NOTIFIER_DECISIONS] as const) await ensureNotifier(durable)(api, subjects, from)
  await ensureNotifier(NOTIFIER)(api, subjects)
}

/** Creates a durable. One of an earlier version with other filters is updated and keeps its position. */
async function ensureOwn(api: JetStreamApi, subjects: Subjects, wanted: Config): Promise<void> {
  const name = String(wanted.durable_name)
  const found = await infoOf(api, `CONSUMER.INFO.${subjects.stream}.${name}`)
  if (found && !sameList(found.filter_subjects, wanted.filter_subjects as string[])) {
    const { filter_subject: _, ...rest } = found
    const config = { ...rest, name, filter_subjects: wanted.filter_subjects }
    await api.must(`CONSUMER.CREATE.${subjects.stream}.${name}`, { stream_name: subjects.stream, config, action: 'update' })
  }
  await ensureConsumer(api, subjects.stream, wanted)
}

function begins(config: Config, from: number | undefined): Config {
  return from === undefined ? config : { ...config, deliver_policy: 'by_start_sequence', opt_start_seq: Math.max(1, from) }
}

/** Creates the consumer of an agent with durable returns. Idempotent. */
export function ensureReturns(api: JetStreamApi, subjects: Subjects, agent: { name: string; from: number }): Promise<void> {
  return ensureConsumer(api, subjects.stream, returnsConfig(subjects, agent.name, agent.from))
}

/** Deletes the consumer of an agent that no longer has durable returns. */
export async function removeReturns(api: JetStreamApi, subjects: Subjects, agent: string): Promise<void> {
  const consumer = subjects.returnsConsumer(agent)
  const reply = await api.call(`CONSUMER.DELETE.${subjects.stream}.${consumer}`)
  if (!reply.ok && reply.err_code !== API_ERROR.consumerNotFound) throw refused(`consumer ${consumer}`, reply)
}

/** Describes what ensureTopology would create or refuse. */
export async function topologyDifferences(api: JetStreamApi, subjects: Subjects): Promise<string[]> {
  const loose = looseFor(subjects, {})
  const told: string[] = []
  const look = async (entity: string, call: string, wanted: Config, allowed: Loose) => {
    const found = await infoOf(api, call)
    if (!found) told.push(`${entity} does not exist`)
    else told.push(...differencesOf({ found, wanted }, allowed).map((one) => `${entity}: ${differenceText(one)}`))
  }
  for (const wanted of wantedStreams(subjects, {}))
    await look(`stream ${String(wanted.name)}`, `STREAM.INFO.${String(wanted.name)}`, wanted, loose)
  const ours = (field: string) => STARTS.has(field)
  for (const wanted of dispatcherConfigs(subjects)) {
    const name = String(wanted.durable_name)
    await look(`consumer ${name}`, `CONSUMER.INFO.${subjects.stream}.${name}`, wanted, ours)
  }
  return told
}

/** Ignores fields that the caller did not set: we choose them for a new stream, and its owner for an existing one. */
function unsaid(options: TopologyOptions): (field: string) => boolean {
  const fields = { max_bytes: options.max_bytes, num_replicas: options.replicas, compression: options.compression }
  return (field) => field in fields && fields[field as keyof typeof fields] === undefined
}

/**
 * Creates an agent's parts bucket, and a subagent's three work consumers, to which workers only bind. `lost: 'leave'`: only updates existing
 * consumers.
 */
export async function ensureAgent(api: JetStreamApi, subjects: Subjects, agent: AgentTopology & { agent: string }): Promise<void> {
  await ensureParts(api, subjects, agent)
  if (!agent.subagent) return
  const ensure = agent.lost === 'leave' ? tuneConsumer : ensureConsumer
  await Promise.all(PRIORITIES.map((priority) => ensure(api, subjects.stream, workConfig(subjects, priority, agent))))
}

/**
 * Creates the parts bucket, or adds today's subjects to one of an earlier version, whose content stays readable. A bucket with a byte limit keeps it,
 * unless this agent's limit was set explicitly.
 */
async function ensureParts(api: JetStreamApi, subjects: Subjects, topology: AgentTopology & { agent: string }): Promise<void> {
  const wanted = partsConfig(subjects, topology.agent, topology)
  const [today, earlier] = [wanted.subjects as string[], earlierPartsSubjects(subjects, topology.agent)]
  const both = [...today, ...earlier]
  const known = (found: unknown) => sameList(found, both) || sameList(found, earlier)
  const found = await ensureBounded(
    api,
    wanted,
    (field, value) => field === 'num_replicas' || isTightened(wanted, field) || (field === 'subjects' && known(value)),
  )
  if (!found) return
  const tight = await tighten(api, wanted, found)
  const config = sameList(found.subjects, earlier) ? { ...tight, subjects: both } : tight
  if (config !== tight) await api.must(`STREAM.UPDATE.${wanted.name}`, config)
  if (found.max_bytes === wanted.max_bytes) return
  const max_bytes = topology.parts_bytes_set ? wanted.max_bytes : await missingLimit(api, { wanted, found, raises: false })
  if (max_bytes !== undefined) await updateIfAllowed(api, { ...config, max_bytes })
}

/**
 * Removes `request.>` from the stream's subjects, so that returns still fit, or adds it again (docs/architecture/storage.md#storage-backpressure).
 */
export async function setRequests(api: JetStreamApi, subjects: Subjects, state: 'open' | 'closed'): Promise<void> {
  const info = await api.must<{ config: Config }>(`STREAM.INFO.${subjects.stream}`)
  const wanted = subjects.streamSubjects().filter((subject) => state === 'open' || subject !== subjects.all('request'))
  if (sameList(info.config.subjects, wanted)) return
  await api.must(`STREAM.UPDATE.${subjects.stream}`, { ...info.config, subjects: wanted })
}

/** Returns true if `request.>` is removed, as it is while the stream is above its high-water mark. */
function requestsAreOut(subjects: Subjects, field: string, found: unknown): boolean {
  return (
    field === 'subjects' &&
    sameList(
      found,
      subjects.streamSubjects().filter((subject) => subject !== subjects.all('request')),
    )
  )
}
