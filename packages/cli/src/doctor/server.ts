import { DECISIONS, DISPATCHER, type Inspection, type StreamUsage } from '@passover/bus'
import { duration } from '../terminal/duration.js'
import { count } from '../terminal/text.js'
import { broken, type Check, ok, warning } from './check.js'

const MIN_SERVER_VERSION = [2, 12] as const
const MIB = 1024 ** 2
const SKEW_WARNING_MS = 1_000
/** Ids more than this far in the future are refused (docs/architecture/protocol.md#ids). */
const SKEW_ERROR_MS = 60_000
const HIGH_USE_SHARE = 0.8

export function checkServer({ server, clock_skew_ms }: Inspection): Check[] {
  return [
    checkVersion(server.version, server.rtt_ms),
    checkJetStream(server.jetstream),
    checkPayload(server.max_payload),
    checkSkew(clock_skew_ms),
  ]
}

function checkVersion(version: string, rtt: number): Check {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const good = major > MIN_SERVER_VERSION[0] || (major === MIN_SERVER_VERSION[0] && minor >= MIN_SERVER_VERSION[1])
  const text = `nats-server ${version}, round-trip time ${duration(rtt)}`
  return good
    ? ok('server', text)
    : broken('server', `${text}, is older than ${MIN_SERVER_VERSION.join('.')}`, `run nats-server ${MIN_SERVER_VERSION.join('.')} or newer`)
}

function checkJetStream(on: boolean): Check {
  return on ? ok('jetstream', 'on') : broken('jetstream', 'off', 'start the server with -js, or use passover up')
}

function checkPayload(bytes: number): Check {
  const text = `messages up to ${(bytes / MIB).toFixed(bytes % MIB === 0 ? 0 : 2)} MiB`
  return bytes >= MIB
    ? ok('payload', text)
    : broken('payload', `${text}; 1 MiB is needed`, 'set max_payload: 1MB in the server’s configuration')
}

function checkSkew(ms: number): Check {
  const off = Math.abs(ms)
  const text = `this clock is ${duration(off)} ${ms > 0 ? 'behind' : 'ahead of'} the server's`
  if (off < SKEW_WARNING_MS) return ok('clock', text)
  return off < SKEW_ERROR_MS
    ? warning('clock', text, 'synchronise the clock by NTP; times are corrected with the clock of the server')
    : broken('clock', text, 'synchronise the clock by NTP: timedatectl set-ntp true')
}

/** Checks stream, consumers and buckets against what `passover up` creates. */
export function checkTopology(inspection: Inspection, usage: StreamUsage | undefined): Check[] {
  const { stream, differences, consumers, buckets } = inspection
  if (!stream) return [broken('stream', 'there is none', 'passover up creates it')]
  const checks = [ok('stream', `${stream.name}: ${count(stream.messages, 'message')}, ${(stream.bytes / MIB).toFixed(1)} MiB`)]
  for (const difference of differences)
    checks.push(
      broken(
        'topology',
        difference,
        'passover up creates missing parts; settings that another owner changed must be corrected by that owner',
      ),
    )
  if (differences.length === 0) checks.push(ok('topology', 'stream, consumers and buckets are configured correctly'))
  checks.push(
    [DISPATCHER, DECISIONS].every((name) => consumers.includes(name))
      ? ok('consumers', count(consumers.length, 'consumer'))
      : broken('consumers', 'a consumer of the dispatcher is missing', 'passover up creates it'),
    ok(
      'buckets',
      `${count(buckets.filter(({ kind }) => kind === 'kv').length, 'table')}, ${count(buckets.filter(({ kind }) => kind === 'object').length, 'object store')}`,
    ),
    ...checkRoom(stream, usage),
  )
  return checks
}

function checkRoom(stream: NonNullable<Inspection['stream']>, usage: StreamUsage | undefined): Check[] {
  if (usage?.requests === 'closed')
    return [
      broken(
        'room',
        'the stream is nearly full and accepts no requests',
        'wait until the audit service has deleted archived messages, or raise max_bytes',
      ),
    ]
  if (stream.max_bytes <= 0) return []
  const used = stream.bytes / stream.max_bytes
  const text = `${Math.round(used * 100)} % of the stream's ${(stream.max_bytes / 1024 ** 3).toFixed(1)} GiB used`
  return [
    used < HIGH_USE_SHARE
      ? ok('room', text)
      : warning('room', text, 'raise max_bytes, or check that the audit service is running: it deletes archived messages'),
  ]
}
