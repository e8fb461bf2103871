import { lookup } from 'node:dns/promises'
import { readFileSync, statfsSync } from 'node:fs'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'

/** What a server is set to, as far as it can be seen: by its monitoring address, or for a project's own server by its configuration. */
export interface ServerSettings {
  /** How often its files are synced, ms; 0: every write. */
  sync_ms?: number | undefined
  /** Most bytes on disk for streams. */
  max_storage?: number | undefined
  /** Kind of file system that its files are on, where they are on this machine. */
  file_system?: string | undefined
  /** Of that file system, bytes. */
  disk?: { total: number; free: number } | undefined
  store?: string | undefined
  /** Messages in this server's own copy of each stream, by the stream's name; without those that several accounts have. */
  copies?: Readonly<Record<string, number>> | undefined
}

const NS_PER_MS = 1_000_000
const ANSWER_TIMEOUT_MS = 3_000

/** As `/varz` tells it. */
interface StoreConfig {
  max_storage?: unknown
  store_dir?: unknown
  /** ns */
  sync_interval?: unknown
  sync_always?: unknown
}

/** Of statfs(2). Names of those on which a write that was synced may be lost or a lock is worth nothing. */
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

/** Name of a kind of file system that loses what it took; undefined: none that is known for it. */
export function doubtfulFileSystem(type: number): string | undefined {
  return FILE_SYSTEMS[type >>> 0]
}

/** By `/varz`; the text says why nothing can be seen. */
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
      // The same path on another machine's disk says nothing of the server's.
      ...(store !== undefined && (await isLocalAddress(address)) && diskOf(store)),
      copies: await readStoredMessageCounts(address),
    }
  } catch (error) {
    return { unseen: `${address} does not tell: ${error instanceof Error ? error.message : String(error)}` }
  }
}

/** What this very server has stored, whoever leads. */
async function readStoredMessageCounts(address: string): Promise<ServerSettings['copies']> {
  const answer = await fetch(new URL('/jsz?accounts=1&streams=1', address), { signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS) })
  return storedMessageCounts(((await answer.json()) as StoredStreams | null) ?? {})
}

/** As `/jsz` tells it, of every account. */
interface StoredStreams {
  account_details?: { stream_detail?: { name: string; state?: { messages?: number } }[] }[]
}

/** Whose stream is meant cannot be seen where two accounts have one of a name: a wrong one would have a healthy store emptied. */
export function storedMessageCounts({ account_details = [] }: StoredStreams): Readonly<Record<string, number>> {
  const streams = account_details.flatMap(({ stream_detail = [] }) => stream_detail)
  const once = streams.filter(({ name }) => streams.filter((other) => other.name === name).length === 1)
  return Object.fromEntries(once.flatMap(({ name, state }) => (state?.messages === undefined ? [] : [[name, state.messages]])))
}

/** Whether a monitoring address is of this machine: its loopback, or one of its interfaces. */
export async function isLocalAddress(address: string): Promise<boolean> {
  const own = Object.values(networkInterfaces()).flatMap((all = []) => all.map((one) => one.address))
  const host = new URL(address).hostname.replace(/^\[|\]$/g, '')
  const found = await lookup(host, { all: true }).catch(() => [])
  return found.length > 0 && found.every((one) => one.address === '::1' || one.address.startsWith('127.') || own.includes(one.address))
}

/** By the configuration that `passover up` wrote. */
export function projectServerSettings(project: string): ServerSettings {
  const folder = join(project, 'nats')
  try {
    const config = JSON.parse(readFileSync(join(folder, 'nats-server.conf'), 'utf8')) as {
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

/** Nothing where the folder is on another machine. */
function diskOf(folder: string): Pick<ServerSettings, 'file_system' | 'disk'> {
  try {
    const { type, bsize, blocks, bavail } = statfsSync(folder)
    return { file_system: doubtfulFileSystem(type), disk: { total: blocks * bsize, free: bavail * bsize } }
  } catch {
    return {}
  }
}
