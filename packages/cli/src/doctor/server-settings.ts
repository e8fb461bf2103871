import { lookup } from 'node:dns/promises'
import { statfsSync } from 'node:fs'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { readRegularFileSync } from '@passover/bus/settings'

/** Visible settings of a server: from its monitoring address, or for a project's own server from its configuration. */
export interface ServerSettings {
  /** Interval at which the server syncs its files, in ms; 0 if every write is synced. */
  sync_ms?: number | undefined
  /** Maximum bytes on disk for all streams. */
  max_storage?: number | undefined
  /** Kind of an unreliable file system that holds its files; absent if it is reliable or on another machine. */
  file_system?: string | undefined
  /** Size and free space of that file system, in bytes. */
  disk?: { total: number; free: number } | undefined
  store?: string | undefined
  /** Number of messages in this server's own copy of each stream, by stream name. Names that several accounts use are left out. */
  copies?: Readonly<Record<string, number>> | undefined
}

const NS_PER_MS = 1_000_000
const ANSWER_TIMEOUT_MS = 3_000

/** JetStream configuration as `/varz` returns it. */
interface StoreConfig {
  max_storage?: unknown
  store_dir?: unknown
  /** In ns. */
  sync_interval?: unknown
  sync_always?: unknown
}

/** Types from statfs(2) of file systems that may lose a synced write or do not lock reliably. */
const FILE_SYSTEMS: Readonly<Record<number, string>> = {
  26985: 'NFS',
  4266872130: 'SMB',
  4283649346: 'CIFS',
  20859: 'SMB',
  16914839: '9p',
  1702057286: 'FUSE',
  12805120: 'CephFS',
  16914836: 'tmpfs',
  2240043254: 'ramfs',
}

/** Returns the kind of an unreliable file system, or `undefined` if the type is not known as unreliable. */
export function doubtfulFileSystem(type: number): string | undefined {
  return FILE_SYSTEMS[type >>> 0]
}

/** Reads settings from `/varz` of a monitoring address. On failure, returns the reason as `unseen`. */
export async function readMonitoring(address: string): Promise<ServerSettings | { unseen: string }> {
  try {
    const answer = await fetch(new URL('/varz', address), { signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS) })
    const told = (await answer.json()) as { jetstream?: { config?: StoreConfig } } | null
    const { max_storage, store_dir, sync_interval, sync_always } = told?.jetstream?.config ?? {}
    const every = typeof sync_interval === 'number' ? sync_interval / NS_PER_MS : undefined
    const store = typeof store_dir === 'string' ? store_dir : undefined
    return {
      sync_ms: sync_always === true ? 0 : every,
      max_storage: typeof max_storage === 'number' ? max_storage : undefined,
      store,
      // If the server is on another machine, a local folder of the same path says nothing about its disk.
      ...(store !== undefined && (await isLocalAddress(address)) && diskOf(store)),
      copies: await readStoredMessageCounts(address),
    }
  } catch (error) {
    return { unseen: `cannot read ${address}: ${error instanceof Error ? error.message : String(error)}` }
  }
}

/** Reads how many messages this server itself has stored, whether it leads the streams or not. */
async function readStoredMessageCounts(address: string): Promise<ServerSettings['copies']> {
  const answer = await fetch(new URL('/jsz?accounts=1&streams=1', address), { signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS) })
  return storedMessageCounts(((await answer.json()) as StoredStreams | null) ?? {})
}

/** Streams of every account as `/jsz` returns them. */
interface StoredStreams {
  account_details?: { stream_detail?: { name: string; state?: { messages?: number } }[] }[]
}

/**
 * Returns message counts by stream name. Leaves out names that exist in two accounts: the count of the wrong one could lead a person to
 * empty a healthy store.
 */
export function storedMessageCounts({ account_details = [] }: StoredStreams): Readonly<Record<string, number>> {
  const streams = account_details.flatMap(({ stream_detail = [] }) => stream_detail)
  const once = streams.filter(({ name }) => streams.filter((other) => other.name === name).length === 1)
  return Object.fromEntries(once.flatMap(({ name, state }) => (state?.messages === undefined ? [] : [[name, state.messages]])))
}

/** True if a monitoring address belongs to this machine: to loopback or one of its interfaces. */
export async function isLocalAddress(address: string): Promise<boolean> {
  const own = Object.values(networkInterfaces()).flatMap((all = []) => all.map((one) => one.address))
  const host = new URL(address).hostname.replace(/^\[|\]$/g, '')
  const found = await lookup(host, { all: true }).catch(() => [])
  return found.length > 0 && found.every((one) => one.address === '::1' || one.address.startsWith('127.') || own.includes(one.address))
}

/** Maximum size of a configuration in bytes. It grows with the number of agents. */
const MAX_CONFIG_BYTES = 64 * 1024 * 1024

/** Reads settings from the configuration that `passover up` wrote. */
export function projectServerSettings(project: string): ServerSettings {
  const folder = join(project, 'nats')
  try {
    const config = JSON.parse(readRegularFileSync(join(folder, 'nats-server.conf'), { max: MAX_CONFIG_BYTES }).toString()) as {
      jetstream?: { sync_interval?: unknown; max_file_store?: unknown }
    }
    const { sync_interval, max_file_store } = config.jetstream ?? {}
    return {
      sync_ms: typeof sync_interval === 'string' ? spanOf(sync_interval) : undefined,
      max_storage: typeof max_file_store === 'number' ? max_file_store : undefined,
      store: folder,
      ...diskOf(folder),
    }
  } catch {
    return {}
  }
}

function spanOf(text: string): number | undefined {
  if (text === 'always') return 0
  const found = /^(\d+)(s|m|h)$/.exec(text)
  const unit = { s: 1_000, m: 60_000, h: 3_600_000 }[found?.[2] ?? '']
  return found?.[1] && unit ? Number(found[1]) * unit : undefined
}

/** Returns nothing if the folder cannot be read, for example because it is on another machine. */
function diskOf(folder: string): Pick<ServerSettings, 'file_system' | 'disk'> {
  try {
    const { type, bsize, blocks, bavail } = statfsSync(folder)
    return { file_system: doubtfulFileSystem(type), disk: { total: blocks * bsize, free: bavail * bsize } }
  } catch {
    return {}
  }
}
