import type { Inspection } from '@passover/bus'
import { duration } from '../terminal/duration.js'
import { broken, type Check, ok, warning } from './check.js'
import type { ServerSettings } from './server-settings.js'

type Stream = NonNullable<Inspection['stream']>

/** Longest plausible sync interval. The server reads a time without quotes, such as 2m, as millions of seconds. */
const MAX_PLAUSIBLE_SYNC_MS = 3_600_000
const RECOMMENDED_REPLICAS = 3
const MIN_FREE_BYTES = 1024 ** 3
/** Messages that may be stored between the two requests that count them. */
const REPLICA_LAG_MESSAGES = 1_000
const REPLICA_LAG_SHARE = 0.01
const EDIT = 'nats stream edit PASSOVER'

/** Checks settings under which acknowledged steps can be lost (docs/operations/production-settings.md). */
export function checkDurability(
  { stream, server, buckets }: Pick<Inspection, 'stream' | 'server' | 'buckets'>,
  settings: ServerSettings,
): Check[] {
  if (!stream) return []
  return [
    ...checkForgetting(stream),
    ...checkStorage(stream, buckets),
    ...checkReplicas(stream, server, buckets),
    ...checkCopy(stream, settings),
    ...checkSync(stream, settings),
    ...checkStore(settings),
  ]
}

function checkForgetting({ max_age_ms, discard }: Stream): Check[] {
  const checks: Check[] = []
  if (max_age_ms > 0) {
    const text = `the stream deletes messages after ${duration(max_age_ms)} (max_age): passes that are open or held longer are lost, and so is evidence that is not archived yet`
    checks.push(broken('durability', text, `${EDIT} --max-age 0: the audit service deletes messages when that is safe`))
  }
  if (discard !== 'new') {
    const text = `a full stream drops its oldest messages (discard: ${discard}): open passes and their evidence are lost without a warning`
    checks.push(broken('durability', text, `${EDIT} --discard new`))
  }
  return checks
}

function checkStorage(stream: Stream, buckets: Inspection['buckets']): Check[] {
  const names = [
    ...(stream.storage === 'file' ? [] : [stream.name]),
    ...buckets.filter(({ storage }) => storage !== 'file').map(({ name }) => name),
  ]
  if (names.length === 0) return []
  const text = `stored in memory only: ${names.join(', ')}; a restart of the server loses all of it`
  return [broken('storage', text, 'the storage of a stream cannot be changed: back it up, delete it, and restore it with storage: file')]
}

function checkReplicas(stream: Stream, server: Inspection['server'], buckets: Inspection['buckets']): Check[] {
  const checks: Check[] = []
  const offline = stream.peers.filter((peer) => peer.offline).map(({ name }) => name)
  const behind = stream.peers.filter((peer) => !peer.offline && !peer.current).map(({ name }) => name)
  if (offline.length > 0) {
    const text = `replicas offline: ${offline.join(', ')}; if one more fails, nothing can be stored`
    checks.push(broken('replicas', text, 'start these servers again; check with: nats server report jetstream'))
  }
  if (behind.length > 0)
    checks.push(warning('replicas', `behind: ${behind.join(', ')}`, 'wait until they are up to date before you stop another server'))
  if (server.cluster !== undefined && stream.replicas < RECOMMENDED_REPLICAS) {
    const text = `a cluster, but the stream has ${stream.replicas === 1 ? 'one replica' : `${stream.replicas} replicas`}: if one server fails, every pass stops; if its disk fails, all passes are lost`
    checks.push(warning('replicas', text, `${EDIT} --replicas 3, and the same for the buckets (KV_…, OBJ_…)`))
  }
  const fewer = buckets.filter(({ replicas }) => replicas < stream.replicas).map(({ name }) => name)
  if (fewer.length > 0) {
    const text = `fewer replicas than the stream: ${fewer.join(', ')}; if their server fails, registry, policy or archive cannot be reached`
    checks.push(warning('replicas', text, `for each: nats stream edit <name> --replicas ${stream.replicas}`))
  }
  return checks
}

/**
 * Detects a replica with missing messages. A server that starts on a damaged block drops the messages after it without reporting that, and
 * counts as current (decision 86).
 */
function checkCopy({ name, messages, replicas }: Stream, { copies }: ServerSettings): Check[] {
  // With one replica there is no other to copy from: emptying its store would lose everything.
  const copy = replicas < 2 ? undefined : copies?.[name]
  // The copy was counted shortly before the leader, so a small difference is normal.
  if (copy === undefined || messages - copy <= Math.max(REPLICA_LAG_MESSAGES, messages * REPLICA_LAG_SHARE)) return []
  const text = `the monitored server has ${copy} of the ${messages} messages of ${name}: its store is damaged, or it is still catching up; if it becomes the leader, the other messages are lost`
  return [
    broken(
      'replicas',
      text,
      'unless it is catching up: stop this server, empty its store_dir, and start it; it then copies all messages from the other servers',
    ),
  ]
}

function checkSync({ replicas }: Stream, { sync_ms }: ServerSettings): Check[] {
  if (sync_ms === 0)
    return [
      ok(
        'durability',
        replicas >= RECOMMENDED_REPLICAS
          ? `${replicas} replicas, every write is synced`
          : 'every write is synced; with one replica, losing the disk means losing the stream (passover verify --save makes a copy)',
      ),
    ]
  if (sync_ms !== undefined && sync_ms > MAX_PLAUSIBLE_SYNC_MS) {
    const text = `synced every ${duration(sync_ms)}: an unquoted time such as 2m is read as two million seconds, so a power failure loses nearly everything since the start`
    return [broken('durability', text, 'put the value in quotes (sync_interval: "2m"), or better: sync_interval: always')]
  }
  if (replicas >= RECOMMENDED_REPLICAS) {
    const rarely = sync_ms === undefined ? 'their sync interval cannot be read from here' : `synced every ${duration(sync_ms)}`
    const text = `${replicas} replicas, ${rarely}: a power failure of all of them at once loses messages that none had synced (sync_interval: always prevents that)`
    return [ok('durability', text)]
  }
  const how =
    sync_ms === undefined ? 'one replica, whose sync interval cannot be read from here' : `one replica, synced every ${duration(sync_ms)}`
  const where = sync_ms === undefined ? ' (check jetstream.sync_interval in its configuration, or use --monitor)' : ''
  return [
    warning(
      'durability',
      `${how}: a crash loses nothing, but a power failure loses acknowledged steps since the last sync`,
      `for production: three replicas, or sync_interval: always${where}`,
    ),
  ]
}

function checkStore(settings: ServerSettings): Check[] {
  return [...checkFileSystem(settings), ...checkDisk(settings)]
}

/** Checks the disk of the store. When it is full, the server turns JetStream off and stores nothing more. */
function checkDisk({ disk, store, max_storage = 0 }: ServerSettings): Check[] {
  if (disk === undefined) return []
  const checks: Check[] = []
  if (max_storage > disk.total) {
    const text = `the server may store ${gib(max_storage)}, but the disk of ${store} has ${gib(disk.total)}: the disk is full before the server reports its limit`
    checks.push(warning('disk', text, 'set max_file_store below the size of the disk'))
  }
  if (disk.free < MIN_FREE_BYTES) {
    const text = `${Math.floor(disk.free / 1024 ** 2)} MiB left on the disk of ${store}: when it is full, the server disables JetStream and nothing can be stored`
    checks.push(warning('disk', text, 'free disk space, and set max_file_store below the size of the disk'))
  }
  return checks
}

function gib(bytes: number): string {
  return `${(bytes / 1024 ** 3).toFixed(1)} GiB`
}

function checkFileSystem({ file_system, store }: ServerSettings): Check[] {
  if (file_system === undefined) return []
  const memory = file_system === 'tmpfs' || file_system === 'ramfs'
  const text = memory
    ? `${store} is in memory (${file_system}): a restart of the machine loses everything`
    : `${store} is on ${file_system}: a network file system can lose writes that it reported as synced, and two servers can write to it at the same time`
  return [(memory ? broken : warning)('disk', text, 'give the server a store_dir on a local disk')]
}
