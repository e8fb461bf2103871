import { type Bus, type Inspection, unannouncedEntries, unannouncedText } from '@passover/bus'
import { count } from '../terminal/text.js'
import { broken, type Check, ok, warning } from './check.js'
import type { ServerSettings } from './server-settings.js'

const MIB = 1024 ** 2
const FULL_SHARE = 0.98
const HIGH_USE_SHARE = 0.9
const PARTS_PREFIX = 'parts_'
const MAX_SHOWN = 5

type Seen = Pick<Inspection, 'stream' | 'buckets' | 'paused' | 'unbounded' | 'account'>

/** Checks for problems that stop writes or deliveries although the server answers, and for high storage use. */
export function checkStores(inspection: Seen, settings: Pick<ServerSettings, 'max_storage'>): Check[] {
  return [...checkSealed(inspection), ...checkPaused(inspection), ...checkStorage(inspection, settings), ...checkUse(inspection)]
}

function checkSealed({ stream, buckets }: Seen): Check[] {
  const sealed = [...(stream?.sealed ? [stream.name] : []), ...buckets.filter((bucket) => bucket.sealed).map(({ name }) => name)]
  if (sealed.length === 0) return []
  const fix = 'a seal cannot be removed: back the stream up, delete it, and restore it without sealed (nats stream backup, rm, restore)'
  return [broken('sealed', `sealed, so nothing more can be stored: ${sealed.join(', ')}`, fix)]
}

function checkPaused({ stream, paused }: Seen): Check[] {
  return paused.map((name) =>
    broken(
      'consumers',
      `the consumer ${name} is paused: it delivers nothing`,
      `nats consumer resume ${stream?.name ?? 'PASSOVER'} ${name}`,
    ),
  )
}

function checkStorage({ stream, buckets, unbounded, account }: Seen, { max_storage }: Pick<ServerSettings, 'max_storage'>): Check[] {
  if (!stream) return []
  const used = stream.bytes + buckets.reduce((sum, { bytes }) => sum + bytes, 0)
  const limits = [max_storage, account?.max_storage].filter((limit) => limit !== undefined && limit > 0).map(Number)
  const checks: Check[] = []
  const most = Math.min(...limits)
  if (Number.isFinite(most) && used >= most * FULL_SHARE) {
    const text = `the server's storage is full: ${mib(used)} of ${mib(most)} are used, and nothing more can be stored${largest(buckets)}`
    checks.push(broken('storage', text, 'raise max_file_store or the account’s limit, or remove data'))
  }
  if (unbounded.length > 0) {
    const text = `without max_bytes: ${unbounded.slice(0, MAX_SHOWN).join(', ')}${unbounded.length > MAX_SHOWN ? ` and ${unbounded.length - MAX_SHOWN} more` : ''}; they can use up the storage that returns need`
    checks.push(
      warning('storage', text, 'passover up limits its own streams; for each other one: nats stream edit <name> --max-bytes <bytes>'),
    )
  }
  return checks
}

/** Checks buckets near their limit. Buckets with parts are reported by agent. */
function checkUse({ buckets }: Seen): Check[] {
  const full = buckets.filter(({ bytes, max_bytes }) => max_bytes > 0 && bytes >= max_bytes * HIGH_USE_SHARE)
  const parts = buckets.filter(({ name }) => name.startsWith(PARTS_PREFIX))
  const checks = full.map(({ name, bytes, max_bytes }) => {
    const agent = name.startsWith(PARTS_PREFIX) ? name.slice(PARTS_PREFIX.length) : undefined
    const what = agent === undefined ? `the bucket ${name}` : `the parts bucket of ${agent}`
    const fix =
      agent === undefined
        ? 'nats stream edit --max-bytes <bytes>, or keep less in the archive (retention)'
        : `passover agents set ${agent} --parts-bytes <bytes>, if it may use more`
    return warning('buckets', `${what} holds ${mib(bytes)} of ${mib(max_bytes)}; when it is full, writes fail with E014`, fix)
  })
  if (full.length > 0 || parts.length === 0) return checks
  return [ok('parts', `${count(parts.length, 'parts bucket')}, none near its limit${largest(buckets)}`)]
}

function largest(buckets: Seen['buckets']): string {
  const [first] = [...buckets].sort((a, b) => b.bytes - a.bytes)
  return first ? `; most is in ${first.name} (${mib(first.bytes)})` : ''
}

function mib(bytes: number): string {
  return `${(bytes / MIB).toFixed(1)} MiB`
}

/** Checks that the registry and the policy in force agree with their events. */
export async function checkTrust(bus: Bus): Promise<Check[]> {
  const untold = await unannouncedEntries(bus)
  if (untold.length === 0) return [ok('events', 'registry and policy agree with their events')]
  const shown = untold.slice(0, MAX_SHOWN).map(unannouncedText).join('; ')
  const more = untold.length > MAX_SHOWN ? `; ${count(untold.length - MAX_SHOWN, 'more entry', 'more entries')}` : ''
  const mend = 'find out who wrote the entry; passover agents set or passover policy push writes it again together with its event'
  return [broken('events', `${shown}${more}: readers ignore it`, mend)]
}
