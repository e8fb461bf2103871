import { randomFillSync } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Random } from '@passover/schemas'
import type { BusOptions } from './connect.js'
import type { Credentials, TlsFiles } from './connection/credentials.js'
import { parseServers, type ServerAddresses, SettingError } from './connection/server-address.js'
import type { Bus, TopologyOptions } from './types/bus.js'

type Environment = Record<string, string | undefined>

export const DEFAULT_SERVER = 'nats://127.0.0.1:4222'
/** Accepted replica counts. Only odd numbers: four servers tolerate no more failures than three. */
const REPLICAS = ['1', '3', '5']

/**
 * Reads the connection options from environment variables: PASSOVER_SERVER or NATS_URL (comma-separated), the credentials (see {@link
 * signInFromEnvironment}), PASSOVER_CA, PASSOVER_PREFIX, PASSOVER_STREAM. `readFile` returns `undefined` for a path that is not a file.
 *
 * @throws SettingError
 */
export function busFromEnvironment(env: Environment, readFile: ReadText): Omit<BusOptions, 'identity'> {
  const prefix = env.PASSOVER_PREFIX
  const stream = env.PASSOVER_STREAM
  const { servers, credentials: inAddress } = serverFromEnvironment(env) ?? { servers: [DEFAULT_SERVER] }
  const credentials = inAddress ?? signInFromEnvironment(env, readFile)
  return { servers, ...(credentials && { credentials }), ...tlsFromEnvironment(env), ...(prefix && { prefix }), ...(stream && { stream }) }
}

/**
 * Reads the storage options. PASSOVER_STORAGE_BYTES: bytes that stream and buckets may reserve in total. PASSOVER_REPLICAS: number of replicas of
 * each in a cluster.
 *
 * @throws SettingError if a value is not valid
 */
export function topologyFromEnvironment(env: Environment): TopologyOptions {
  const { PASSOVER_STORAGE_BYTES: storage, PASSOVER_REPLICAS: replicas } = env
  if (storage && !(Number.isSafeInteger(Number(storage)) && Number(storage) > 0))
    throw new SettingError(`PASSOVER_STORAGE_BYTES must be a number of bytes, not ${storage}`, 'set it to a number such as 10737418240')
  if (replicas && !REPLICAS.includes(replicas))
    throw new SettingError(
      `PASSOVER_REPLICAS must be ${REPLICAS.join(', ')}, not ${replicas}`,
      'set it to 3 for a cluster of three servers',
    )
  return { ...(storage && { storage_bytes: Number(storage) }), ...(replicas && { replicas: Number(replicas) }) }
}

/** Reads the server addresses from PASSOVER_SERVER, else NATS_URL, and names the variable used. Returns `undefined` if neither is set. */
export function serverFromEnvironment(env: Environment): (ServerAddresses & { by: 'PASSOVER_SERVER' | 'NATS_URL' }) | undefined {
  for (const by of ['PASSOVER_SERVER', 'NATS_URL'] as const) {
    const text = env[by]
    if (text) return { ...parseServers(text, by), by }
  }
  return undefined
}

/**
 * Reads the credentials for servers whose address contains none. Uses the first variable that is set: PASSOVER_CREDENTIALS (`user:password`, a token,
 * an nkey seed, or the path of a file with one of them or of a .creds file), NATS_CREDS (the path of a .creds file), NATS_USER with NATS_PASSWORD,
 * NATS_TOKEN.
 *
 * @throws SettingError if the named file cannot be read.
 */
export function signInFromEnvironment(env: Environment, readFile: ReadText): Credentials | undefined {
  const { PASSOVER_CREDENTIALS: given, NATS_CREDS: file, NATS_USER: user, NATS_PASSWORD: pass, NATS_TOKEN: token } = env
  if (given) return namedCredentials(given, readFile, 'PASSOVER_CREDENTIALS')
  if (file) {
    if (readFile(file) === undefined) throw unreadable(file, 'NATS_CREDS')
    return { credsFile: file }
  }
  if (user && pass) return { user, pass }
  return token ? { token } : undefined
}

type ReadText = (path: string) => string | undefined

function unreadable(path: string, by: string): SettingError {
  return new SettingError(`${by}: ${path} cannot be read`, `set ${by} to the path of a readable .creds file`)
}

/** Reads credentials from a text or a file path. Keeps the path of a .creds file, so that rotated credentials are read again. */
export function namedCredentials(given: string, readFile: ReadText, by: string): Credentials {
  const text = readFile(given)
  // Otherwise the path would be sent as a token, and the server would refuse it without mentioning the file.
  if (text === undefined && /^[^\s:]+\.creds$/.test(given)) throw unreadable(given, by)
  const credentials = parseCredentials(text ?? given)
  return text !== undefined && 'creds' in credentials ? { credsFile: given } : credentials
}

/** Reads the path of the certificate authority's PEM file from PASSOVER_CA, else NATS_CA. */
export function tlsFromEnvironment(env: Environment): { tls?: TlsFiles } {
  const ca = env.PASSOVER_CA || env.NATS_CA
  return ca ? { tls: { ca } } : {}
}

/** Parses a credentials text: a .creds file, an nkey seed, `user:password`, or else a token. */
export function parseCredentials(text: string): Credentials {
  const trimmed = text.trim()
  if (trimmed.includes('-----BEGIN NATS USER JWT-----')) return { creds: trimmed }
  if (/^SU[A-Z2-7]{56}$/.test(trimmed)) return { nkey: trimmed }
  const colon = trimmed.indexOf(':')
  if (colon > 0) return { user: trimmed.slice(0, colon), pass: trimmed.slice(colon + 1) }
  return { token: trimmed }
}

/** Returns the text of a file, or `undefined` if it cannot be read. */
export function readTextFile(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}

/** Creates a clock with the server's time, monotonic time, and timers that do not keep the process alive. Implements core's Clock. */
export function serverClock(bus: Pick<Bus, 'now'>): { now(): number; monotonic(): number; after(ms: number, fn: () => void): Disposable } {
  return {
    now: () => bus.now(),
    monotonic: () => performance.now(),
    after: (ms, fn) => {
      const timer = setTimeout(fn, ms).unref()
      return { [Symbol.dispose]: () => clearTimeout(timer) }
    },
  }
}

const POOL_BYTES = 4_096

/** Random bytes of the operating system, fetched in batches: a call for 16 bytes costs 10 µs. No byte is handed out twice. */
export const nodeRandom: Random = pooled()

function pooled(): Random {
  let pool = new Uint8Array(0)
  let used = 0
  return {
    bytes: (length) => {
      if (length > pool.length - used) {
        pool = randomFillSync(new Uint8Array(Math.max(POOL_BYTES, length)))
        used = 0
      }
      used += length
      return pool.slice(used - length, used)
    },
  }
}
