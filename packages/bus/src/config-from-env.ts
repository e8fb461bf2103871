import { randomFillSync } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Random } from '@passover/schemas'
import type { BusOptions } from './connect.js'
import type { Credentials, TlsFiles } from './connection/credentials.js'
import { parseServers, type ServerAddresses, SettingError } from './connection/server-address.js'
import type { Bus, TopologyOptions } from './types/bus.js'

type Environment = Record<string, string | undefined>

export const DEFAULT_SERVER = 'nats://127.0.0.1:4222'
/** Odd numbers only: with four servers no more may fail than with three. */
const REPLICAS = ['1', '3', '5']

/**
 * Says how a process connects, as its environment has it: PASSOVER_SERVER or NATS_URL (comma-separated), what signs in (see
 * {@link signInFromEnvironment}), PASSOVER_CA, PASSOVER_PREFIX, PASSOVER_STREAM. `readFile` gives undefined for what is no file.
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
 * PASSOVER_STORAGE_BYTES: what stream and buckets may reserve in all. PASSOVER_REPLICAS: how many servers of a cluster keep each of them.
 *
 * @throws SettingError where one does not fit
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

/** The servers that the environment names, and the variable that does: PASSOVER_SERVER, else NATS_URL. Undefined: neither is set. */
export function serverFromEnvironment(env: Environment): (ServerAddresses & { by: 'PASSOVER_SERVER' | 'NATS_URL' }) | undefined {
  for (const by of ['PASSOVER_SERVER', 'NATS_URL'] as const) {
    const text = env[by]
    if (text) return { ...parseServers(text, by), by }
  }
  return undefined
}

/**
 * What signs in where the address does not say it: PASSOVER_CREDENTIALS (`user:password`, a token, an nkey seed, or the path of a file with
 * one of them or of a .creds file), NATS_CREDS (the path of a .creds file), NATS_USER with NATS_PASSWORD, NATS_TOKEN. The first that is set.
 *
 * @throws SettingError where a file that is named cannot be read.
 */
export function signInFromEnvironment(env: Environment, readFile: ReadText): Credentials | undefined {
  const { PASSOVER_CREDENTIALS: given, NATS_CREDS: file, NATS_USER: user, NATS_PASSWORD: pass, NATS_TOKEN: token } = env
  if (given) return namedCredentials(given, readFile, 'PASSOVER_CREDENTIALS')
  if (file) {
    if (readFile(file) === undefined) throw unreadable(file, 'NATS_CREDS')
    return { creds_file: file }
  }
  if (user && pass) return { user, pass }
  return token ? { token } : undefined
}

type ReadText = (path: string) => string | undefined

function unreadable(path: string, by: string): SettingError {
  return new SettingError(`${by}: ${path} cannot be read`, `set ${by} to the path of a readable .creds file`)
}

/** Credentials from a text, or from the path of a file. The path of a .creds file is kept, so that rotated credentials are read again. */
export function namedCredentials(given: string, readFile: ReadText, by: string): Credentials {
  const text = readFile(given)
  // A token would be no file name, which the server would refuse without a word about the file.
  if (text === undefined && /^[^\s:]+\.creds$/.test(given)) throw unreadable(given, by)
  const credentials = parseCredentials(text ?? given)
  return text !== undefined && 'creds' in credentials ? { creds_file: given } : credentials
}

/** The certificate authority that PASSOVER_CA (or NATS_CA) names: the path of a PEM file. */
export function tlsFromEnvironment(env: Environment): { tls?: TlsFiles } {
  const ca = env.PASSOVER_CA || env.NATS_CA
  return ca ? { tls: { ca } } : {}
}

/** What a credentials text is: a .creds file, an nkey seed, `user:password`, else a token. */
export function parseCredentials(text: string): Credentials {
  const trimmed = text.trim()
  if (trimmed.includes('-----BEGIN NATS USER JWT-----')) return { creds: trimmed }
  if (/^SU[A-Z2-7]{56}$/.test(trimmed)) return { nkey: trimmed }
  const colon = trimmed.indexOf(':')
  if (colon > 0) return { user: trimmed.slice(0, colon), pass: trimmed.slice(colon + 1) }
  return { token: trimmed }
}

/** The text of a file; undefined when there is none that can be read. */
export function readTextFile(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}

/** The server's time, monotonic time, and timers that keep no process alive. Fits core's Clock. */
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

/** The machine's randomness, fetched in larger lots: a call for 16 bytes costs 10 µs. No byte is given out twice. */
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
