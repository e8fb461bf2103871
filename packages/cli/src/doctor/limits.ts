import type { Inspection } from '@passover/bus'
import { duration } from '../terminal/duration.js'
import { broken, type Check, ok, warning } from './check.js'
import type { ServerSettings } from './server-settings.js'

const MIB = 1024 ** 2
const GIB = 1024 ** 3
/** `max_ack_pending` that the work consumers of an agent request. */
const MIN_ACK_PENDING = 100_000
/** Number of consumers to keep free for some more agents: each needs three consumers and one bucket. */
const SPARE_CONSUMERS = 30
const SPARE_STREAMS = 10
const SPREAD_WARNING_MS = 250
const SPREAD_ERROR_MS = 1_000

/** Checks limits of the stream, the account and the server that would stop passes later. */
export function checkLimits({ stream, account }: Pick<Inspection, 'stream' | 'account'>, settings: ServerSettings): Check[] {
  if (!stream) return []
  const checks = checkBytes(stream, account?.max_storage, settings.max_storage)
  if (!account)
    return [
      ...checks,
      warning('account', 'its limits cannot be read with these permissions', 'run as a user with more permissions: nats account info'),
    ]
  return [...checks, ...checkAccount(account)]
}

function checkBytes({ max_bytes }: NonNullable<Inspection['stream']>, ...told: (number | undefined)[]): Check[] {
  const around = Math.min(...told.filter((limit) => limit !== undefined && limit > 0).map(Number))
  const limited = Number.isFinite(around) ? `${(around / GIB).toFixed(1)} GiB of server or account` : 'the disk'
  if (max_bytes <= 0) {
    const text = `the stream has no max_bytes: it grows until ${limited} is full, and then even returns of running passes cannot be stored`
    return [
      warning(
        'limits',
        text,
        'nats stream edit PASSOVER --max-bytes <less than the disk>: at 90 % of it the dispatcher refuses new requests',
      ),
    ]
  }
  if (max_bytes <= around) return []
  const text = `the stream may use ${(max_bytes / GIB).toFixed(1)} GiB, but only ${limited} is available: it is full before new requests are refused`
  return [broken('limits', text, 'raise max_file_store or the account’s limit, or lower the stream’s max_bytes')]
}

function checkAccount(account: NonNullable<Inspection['account']>): Check[] {
  const { streams, consumers, max_streams, max_consumers, max_ack_pending, storage_max_stream_bytes } = account
  const checks: Check[] = []
  const few = (what: string, used: number, most: number) =>
    warning('account', `${used} of ${most} ${what} used: new agents cannot be set up`, `raise the account’s limit of ${what}`)
  if (max_streams > 0 && streams + SPARE_STREAMS > max_streams) checks.push(few('streams', streams, max_streams))
  if (max_consumers > 0 && consumers + SPARE_CONSUMERS > max_consumers) checks.push(few('consumers', consumers, max_consumers))
  if (max_ack_pending > 0 && max_ack_pending < MIN_ACK_PENDING) {
    const text = `max_ack_pending is ${max_ack_pending}: work consumers need ${MIN_ACK_PENDING} and cannot be created`
    checks.push(broken('account', text, 'raise or remove the account’s max_ack_pending'))
  }
  if (storage_max_stream_bytes > 0) {
    const text = `the account allows ${(storage_max_stream_bytes / MIB).toFixed(1)} MiB for each stream: a larger limit of the stream or of a bucket is refused`
    checks.push(warning('account', text, 'raise the account’s limit for each stream, or lower the limits (docs/operations/quotas.md)'))
  }
  return checks.length > 0 ? checks : [ok('account', 'its limits are high enough')]
}

/** Warns about a JetStream domain: clients that connect in another domain find another stream, or none. */
export function checkDomain({ domain }: Pick<Inspection, 'domain'>): Check[] {
  if (domain === undefined) return []
  const text = `JetStream’s domain is ${domain}: a client that connects to a server of another domain (such as a leaf node) finds another stream of the same name, or none`
  return [warning('domain', text, 'connect every process to servers of one domain')]
}

/** Checks how far the servers' clocks differ. Deadlines follow the leader's clock, so a change of leader shifts them. */
export function checkClocks(clocks: Inspection['clocks']): Check[] {
  if (clocks.length < 2) return []
  const skews = clocks.map(({ skew_ms }) => skew_ms)
  const spread = Math.max(...skews) - Math.min(...skews)
  const text = `the servers’ clocks are ${duration(spread)} apart (${clocks.map(({ server, skew_ms }) => `${server} ${skew_ms} ms`).join(', ')})`
  if (spread < SPREAD_WARNING_MS) return [ok('clocks', text)]
  const harm = `${text}: each change of the leader shifts deadlines and leases by this time`
  const mend = 'synchronise the servers by NTP (chronyc tracking on each)'
  return [spread < SPREAD_ERROR_MS ? warning('clocks', harm, mend) : broken('clocks', harm, mend)]
}
