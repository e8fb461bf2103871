import type { ApiReply, JetStreamApi } from '../messaging/jetstream-api.js'
import { API_ERROR } from '../messaging/jetstream-api.js'
import { BusReadError, NoStorageError } from '../types/errors.js'
import { type Config, compare, type Loose, same } from './config-diff.js'

/** Fields that define where a consumer started. They are not compared, because they no longer matter. */
export const STARTS = new Set(['deliver_policy', 'opt_start_seq'])
const TUNED = new Set(['ack_wait', 'max_deliver', 'max_ack_pending', 'max_waiting', 'headers_only'])

/** Creates a stream, or checks an existing one. Returns the configuration found, or `undefined` if it was created. */
export async function ensureStream(api: JetStreamApi, wanted: Config, loose: Loose): Promise<Config | undefined> {
  const name = String(wanted.name)
  const found = await infoOf(api, `STREAM.INFO.${name}`)
  if (found) {
    compare(`stream ${name}`, { found, wanted }, loose)
    return found
  }
  const made = await api.call(`STREAM.CREATE.${name}`, wanted)
  if (made.ok) return undefined
  if (made.err_code !== API_ERROR.streamNameInUse) throw refused(`stream ${name}`, made)
  // Another process created it between the lookup and the attempt.
  const now = await infoOf(api, `STREAM.INFO.${name}`)
  if (now) compare(`stream ${name}`, { found: now, wanted }, loose)
  return now
}

export async function ensureConsumer(api: JetStreamApi, stream: string, wanted: Config): Promise<void> {
  if (await tuneConsumer(api, stream, wanted)) return
  const made = await putConsumer(api, stream, { config: wanted, action: 'create' })
  if (made.ok || made.err_code === API_ERROR.consumerExists || made.err_code === API_ERROR.consumerNameExists) return
  throw refused(entityOf(stream, wanted), made)
}

/** Updates an existing consumer to the lease and attempts of the policy in force. Returns false if it does not exist. */
export async function tuneConsumer(api: JetStreamApi, stream: string, wanted: Config): Promise<boolean> {
  const found = await infoOf(api, `CONSUMER.INFO.${stream}.${wanted.durable_name}`)
  if (!found) return false
  const entity = entityOf(stream, wanted)
  compare(entity, { found, wanted }, (field) => STARTS.has(field) || TUNED.has(field))
  if ([...TUNED].every((field) => same(found[field], wanted[field]))) return true
  const tuned = Object.fromEntries([...TUNED].map((field) => [field, wanted[field]]))
  const updated = await putConsumer(api, stream, { config: { ...found, ...tuned, durable_name: wanted.durable_name }, action: 'update' })
  if (!updated.ok) throw refused(entity, updated)
  return true
}

function putConsumer(
  api: JetStreamApi,
  stream: string,
  { config, action }: { config: Config; action: 'create' | 'update' },
): Promise<ApiReply<unknown>> {
  const name = String(config.durable_name)
  return api.call(`CONSUMER.CREATE.${stream}.${name}`, { stream_name: stream, config: { ...config, name }, action })
}

function entityOf(stream: string, { durable_name }: Config): string {
  return `consumer ${durable_name} of stream ${stream}`
}

export async function infoOf(api: JetStreamApi, call: string): Promise<Config | undefined> {
  const reply = await api.call<{ config: Config }>(call)
  if (reply.ok) return reply.value.config
  if (reply.err_code === API_ERROR.streamNotFound || reply.err_code === API_ERROR.consumerNotFound) return undefined
  throw refused(call, reply)
}

/** JetStream is starting, or has no leader at the moment. */
const UNAVAILABLE = 503
/** The storage of server or account is used or reserved, no server of a cluster has enough, or the account limits a stream's bytes. */
const NO_STORAGE = new Set([10005, 10023, 10047, 10122])

export function refused(entity: string, reply: Extract<ApiReply<unknown>, { ok: false }>): BusReadError {
  if (NO_STORAGE.has(reply.err_code)) return new NoStorageError(`${entity}: ${reply.description} (${reply.err_code})`)
  return new BusReadError(`${entity}: ${reply.description} (${reply.err_code})`, 'refused_by_server', {
    unavailable: reply.code === UNAVAILABLE,
  })
}

/**
 * Returns the stream sequence up to which every delivery of a durable is acknowledged, or `undefined` if it does not exist. Throws if the server
 * returns another error.
 */
export async function settledUpTo(api: JetStreamApi, stream: string, durable: string): Promise<number | undefined> {
  const reply = await api.call<{ ack_floor: { stream_seq: number } }>(`CONSUMER.INFO.${stream}.${durable}`)
  if (reply.ok) return reply.value.ack_floor.stream_seq
  if (reply.err_code === API_ERROR.streamNotFound || reply.err_code === API_ERROR.consumerNotFound) return undefined
  throw refused(`consumer ${durable}`, reply)
}
