import { API_ERROR, type JetStreamApi } from '../messaging/jetstream-api.js'
import type { Subjects } from '../subjects/subjects.js'
import type { TopologyOptions } from '../types/bus.js'
import { BusReadError, NoStorageError } from '../types/errors.js'
import type { PartsUsage } from '../types/inspection.js'
import type { Config, Loose } from './config-diff.js'
import { streamConfig } from './configs.js'
import { ensureStream, refused } from './ensure-resource.js'
import { MIN_BUCKET_BYTES, streamSizes, TOTAL_SHARE } from './storage-plan.js'

interface Info {
  config: Config & { max_bytes?: number }
  state: { bytes: number }
}

/** Minimum ratio of a limit to the bytes already stored. */
const GROWTH = 2

/**
 * Creates the main stream with a byte limit, or gives an existing one a limit if it has none.
 *
 * A limit that the caller or the stream's owner set is kept. Otherwise takes the largest of STREAM_BYTES at which the server can also hold the
 * buckets. A client cannot see the limits of server and account, so the stream itself reserves all of that for a moment. If the server is too small
 * for the smallest limit, the stream gets none; `passover doctor` reports it.
 */
export async function reserveStream(api: JetStreamApi, subjects: Subjects, options: TopologyOptions): Promise<void> {
  if (options.max_bytes !== undefined) return
  const found = await streamOf(api, subjects.stream)
  if (found && isBounded(found.config)) return raiseStream(api, found.config, options.storage_bytes)
  for (const size of streamSizes(options.storage_bytes, (found?.state.bytes ?? 0) * GROWTH)) {
    const config = { ...(found?.config ?? streamConfig(subjects, options)), max_bytes: Math.floor(size * TOTAL_SHARE) }
    const reply = await api.call<Info>(`STREAM.${found ? 'UPDATE' : 'CREATE'}.${subjects.stream}`, config).catch(ignorePermission)
    // No permission to change it, or another process created it after the lookup.
    if (!reply || (!reply.ok && reply.err_code === API_ERROR.streamNameInUse)) return
    if (reply.ok) return updateIfAllowed(api, { ...reply.value.config, max_bytes: size })
    const error = refused(`stream ${subjects.stream}`, reply)
    if (!(error instanceof NoStorageError)) throw error
  }
}

/** Raises the limit to the value that an explicit `storage_bytes` allows; never lowers it. */
async function raiseStream(api: JetStreamApi, config: Info['config'], storage_bytes: number | undefined): Promise<void> {
  const max_bytes = storage_bytes === undefined ? 0 : Math.floor(storage_bytes / TOTAL_SHARE)
  if (max_bytes > Number(config.max_bytes)) await updateIfAllowed(api, { ...config, max_bytes })
}

/**
 * Creates a bucket with `wanted.max_bytes`, halving it as long as the server cannot reserve it. An existing bucket keeps its limit. Returns the
 * configuration found, as `ensureStream` does.
 *
 * @throws NoStorageError if the server cannot reserve even the smallest limit
 */
export async function ensureBounded(api: JetStreamApi, wanted: Config, loose: Loose): Promise<Config | undefined> {
  for (let max_bytes = Number(wanted.max_bytes); ; max_bytes = Math.floor(max_bytes / 2)) {
    try {
      return await ensureStream(api, { ...wanted, max_bytes }, (field, found) => field === 'max_bytes' || loose(field, found))
    } catch (error) {
      if (!(error instanceof NoStorageError) || max_bytes / 2 < MIN_BUCKET_BYTES) throw error
    }
  }
}

/**
 * Returns the new limit for a bucket. A bucket of an earlier version without a limit gets the wanted one, but at least twice its current size. With
 * `raises`, a lower limit is raised to the wanted one. Returns `undefined` if it keeps its limit, or if none is wanted.
 */
export async function missingLimit(
  api: JetStreamApi,
  { wanted, found, raises }: { wanted: Config; found: Config; raises: boolean },
): Promise<number | undefined> {
  const max_bytes = Number(wanted.max_bytes)
  if (!(max_bytes > 0)) return undefined
  if (isBounded(found)) return raises && max_bytes > Number(found.max_bytes) ? max_bytes : undefined
  const used = (await streamOf(api, String(wanted.name)))?.state.bytes ?? 0
  return Math.max(max_bytes, used * GROWTH)
}

/** Changes a bucket's configuration. Does nothing if these permissions do not allow it, or if the server cannot reserve that much. */
export async function updateIfAllowed(api: JetStreamApi, config: Config): Promise<void> {
  const name = String(config.name)
  const reply = await api.call(`STREAM.UPDATE.${name}`, config).catch(ignorePermission)
  if (!reply || reply.ok) return
  const error = refused(`stream ${name}`, reply)
  if (!(error instanceof NoStorageError)) throw error
}

/** Returns the fill level of an agent's parts bucket, or `undefined` if it has none. */
export async function partsUsage(api: JetStreamApi, subjects: Subjects, agent: string): Promise<PartsUsage | undefined> {
  const info = await streamOf(api, `OBJ_${subjects.partsBucket(agent)}`)
  return info && { bytes: info.state.bytes, ...(isBounded(info.config) && { max_bytes: Number(info.config.max_bytes) }) }
}

function isBounded({ max_bytes }: Config): boolean {
  return Number(max_bytes ?? -1) > 0
}

async function streamOf(api: JetStreamApi, name: string): Promise<Info | undefined> {
  const reply = await api.call<Info>(`STREAM.INFO.${name}`)
  if (reply.ok) return reply.value
  if (reply.err_code === API_ERROR.streamNotFound) return undefined
  throw refused(`stream ${name}`, reply)
}

function ignorePermission(error: unknown): undefined {
  if (!(error instanceof BusReadError) || error.reason !== 'permission') throw error
}
