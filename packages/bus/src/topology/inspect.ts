import { PRIORITIES } from '@passover/schemas'
import type { Connection } from '../connection/connection.js'
import type { JetStreamApi } from '../messaging/jetstream-api.js'
import type { Subjects } from '../subjects/subjects.js'
import { BusReadError } from '../types/errors.js'
import type { AccountLimits, ConsumerState, Consuming, Inspection, PriorityLoad } from '../types/inspection.js'
import { topologyDifferences } from './topology.js'

interface ConsumerInfo {
  created: string
  num_waiting: number
  num_pending: number
  num_ack_pending: number
  delivered: { stream_seq: number }
}

interface AccountInfo {
  streams: number
  consumers: number
  domain?: string
  limits: Omit<AccountLimits, 'streams' | 'consumers'>
}

interface StreamInfo {
  config: {
    name: string
    subjects?: string[]
    max_bytes: number
    num_replicas: number
    discard: string
    retention: string
    max_age: number
    allow_direct?: boolean
    republish?: unknown
    sealed?: boolean
    storage: string
  }
  ts: string
  cluster?: { leader?: string; replicas?: { name: string; current: boolean; offline?: boolean }[] }
  state: { messages: number; bytes: number; first_seq: number; last_seq: number }
}

const NS_PER_MS = 1_000_000

/** Returns the state of a subagent's work consumers, without those that do not exist. */
export async function workload(api: JetStreamApi, subjects: Subjects, subagent: string): Promise<PriorityLoad[]> {
  const loads = await Promise.all(
    PRIORITIES.map(async (priority): Promise<PriorityLoad[]> => {
      const reply = await api.call<ConsumerInfo>(`CONSUMER.INFO.${subjects.stream}.${subjects.workConsumer(subagent, priority)}`)
      if (!reply.ok) return []
      const { created, num_waiting, num_pending, num_ack_pending, delivered } = reply.value
      const counts = { idle: num_waiting, queued: num_pending, running: num_ack_pending, delivered: delivered.stream_seq }
      return [{ priority, ...counts, created: Date.parse(created) }]
    }),
  )
  return loads.flat()
}

/** Returns the agents with durable returns. */
export async function listReturnConsumers(api: JetStreamApi, subjects: Subjects): Promise<string[]> {
  const ours = subjects.returnsConsumer('x').slice(0, -1)
  const names = await listed<string>(api, `CONSUMER.NAMES.${subjects.stream}`, 'consumers')
  return names.filter((name) => name.startsWith(ours)).map((name) => name.slice(ours.length))
}

/** Returns the agents that lack a consumer they should have, from one listing of all consumers. */
export async function findMissingConsumers(api: JetStreamApi, subjects: Subjects, agents: readonly Consuming[]): Promise<string[]> {
  const names = new Set(await listed<string>(api, `CONSUMER.NAMES.${subjects.stream}`, 'consumers'))
  const wanted = ({ name, work, returns }: Consuming) => [
    ...(work ? PRIORITIES.map((priority) => subjects.workConsumer(name, priority)) : []),
    ...(returns ? [subjects.returnsConsumer(name)] : []),
  ]
  return agents.filter((agent) => wanted(agent).some((consumer) => !names.has(consumer))).map(({ name }) => name)
}

/** Collects the data for `passover doctor`. */
export async function inspect(context: {
  link: Connection
  api: JetStreamApi
  subjects: Subjects
  skew: () => number
}): Promise<Inspection> {
  const { link, api, subjects } = context
  const info = link.nc.info
  const rtt_ms = await link.nc.rtt()
  const stream = await api.call<StreamInfo>(`STREAM.INFO.${subjects.stream}`)
  const account = await accountOf(api)
  const names = stream.ok ? await listed<string>(api, `CONSUMER.NAMES.${subjects.stream}`, 'consumers') : []
  const streams = await listed<StreamInfo>(api, 'STREAM.LIST', 'streams')
  const ours = subjects.bucket('x').slice(0, -1)
  return {
    server: {
      version: info?.version ?? '',
      name: info?.server_name ?? '',
      id: info?.server_id ?? '',
      ...(info?.cluster === undefined ? {} : { cluster: info.cluster }),
      max_payload: link.maxPayload,
      jetstream: info?.jetstream ?? false,
      rtt_ms,
    },
    clock_skew_ms: context.skew(),
    ...(stream.ok ? { stream: streamView(stream.value) } : {}),
    ...account,
    clocks: await clocksOf(
      api,
      streams.map(({ config }) => config.name).filter((name) => isOurs(name, subjects.stream, ours)),
    ),
    differences: await topologyDifferences(api, subjects),
    consumers: names,
    paused: await pausedOf(api, subjects, names),
    buckets: streams.flatMap((one) => bucketView(one, ours)),
    unbounded: streams.flatMap(({ config }) => (config.max_bytes > 0 || config.storage !== 'file' ? [] : [config.name])),
  }
}

const MAX_CONSUMERS = 200

async function pausedOf(api: JetStreamApi, subjects: Subjects, names: readonly string[]): Promise<string[]> {
  const own = names.filter((name) => !name.startsWith('work_') && !name.startsWith('returns_'))
  const looked = [...own, ...names.filter((name) => !own.includes(name)).slice(0, MAX_CONSUMERS)]
  const paused: string[] = []
  for (const name of looked) if ((await consumerState(api, subjects, name))?.paused) paused.push(name)
  return paused
}

/** Returns the state of a consumer, or `undefined` if it does not exist or these permissions do not allow reading it. */
export async function consumerState(api: JetStreamApi, subjects: Subjects, durable: string): Promise<ConsumerState | undefined> {
  const reply = await api
    .call<{
      num_pending: number
      num_ack_pending: number
      delivered: { consumer_seq: number }
      ack_floor: { stream_seq: number }
      paused?: boolean
    }>(`CONSUMER.INFO.${subjects.stream}.${durable}`)
    .catch((error: unknown) => {
      if (!(error instanceof BusReadError) || error.reason !== 'permission') throw error
    })
  if (!reply?.ok) return undefined
  const { num_pending, num_ack_pending, delivered, ack_floor, paused } = reply.value
  return {
    pending: num_pending,
    delivered: delivered.consumer_seq,
    unacknowledged: num_ack_pending,
    settled: ack_floor.stream_seq,
    paused: paused === true,
  }
}

/** Returns nothing if these permissions do not allow reading it. */
async function accountOf(api: JetStreamApi): Promise<Pick<Inspection, 'account' | 'domain'>> {
  try {
    const { streams, consumers, domain, limits } = await api.must<AccountInfo>('INFO')
    const { max_streams, max_consumers, max_storage, max_ack_pending, storage_max_stream_bytes } = limits
    const bounds = { max_streams, max_consumers, max_storage, max_ack_pending, storage_max_stream_bytes }
    return { account: { streams, consumers, ...bounds }, ...(domain ? { domain } : {}) }
  } catch (error) {
    if (error instanceof BusReadError && error.reason === 'permission') return {}
    throw error
  }
}

const MAX_CLOCKS = 16

/** Measures the clocks of the servers that lead our streams: compares each answer with the middle of its round trip. */
async function clocksOf(api: JetStreamApi, streams: readonly string[]): Promise<Inspection['clocks']> {
  const found = new Map<string, number>()
  for (const name of streams.slice(0, MAX_CLOCKS)) {
    const asked = Date.now()
    const reply = await api.call<StreamInfo>(`STREAM.INFO.${name}`)
    const leader = reply.ok ? reply.value.cluster?.leader : undefined
    if (reply.ok && leader !== undefined) found.set(leader, Date.parse(reply.value.ts) - (asked + Date.now()) / 2)
  }
  return [...found].map(([server, skew_ms]) => ({ server, skew_ms: Math.round(skew_ms) }))
}

function isOurs(name: string, stream: string, ours: string): boolean {
  return name === stream || name.startsWith(`KV_${ours}`) || name.startsWith(`OBJ_${ours}`)
}

function streamView({ config, state, cluster }: StreamInfo): NonNullable<Inspection['stream']> {
  return {
    name: config.name,
    messages: state.messages,
    bytes: state.bytes,
    first: state.first_seq,
    last: state.last_seq,
    max_bytes: config.max_bytes,
    replicas: config.num_replicas,
    discard: config.discard,
    retention: config.retention,
    max_age_ms: config.max_age / NS_PER_MS,
    allow_direct: config.allow_direct === true,
    republish: config.republish !== undefined,
    sealed: config.sealed === true,
    storage: config.storage,
    peers: (cluster?.replicas ?? []).map(({ name, current, offline }) => ({ name, current, offline: offline === true })),
    subjects: config.subjects ?? [],
  }
}

function bucketView({ config, state }: StreamInfo, ours: string): Inspection['buckets'] {
  const [, kind, bucket = ''] = /^(KV|OBJ)_(.+)$/.exec(config.name) ?? []
  if (!kind || !bucket.startsWith(ours)) return []
  const { messages, bytes } = state
  const { storage, num_replicas: replicas, max_bytes } = config
  const sealed = config.sealed === true
  return [{ name: bucket.slice(ours.length), kind: kind === 'KV' ? 'kv' : 'object', messages, bytes, max_bytes, sealed, storage, replicas }]
}

/** Reads all pages of a listing. */
async function listed<T>(api: JetStreamApi, call: string, field: string): Promise<T[]> {
  const found: T[] = []
  for (;;) {
    const page = await api.must<Record<string, unknown> & { total: number }>(call, { offset: found.length })
    const items = (page[field] ?? []) as T[]
    found.push(...items)
    if (items.length === 0 || found.length >= page.total) return found
  }
}
