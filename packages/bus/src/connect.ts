import type { ConnectionOptions, NatsConnection } from '@nats-io/transport-node'
import { connect } from '@nats-io/transport-node'
import { Connection } from './connection/connection.js'
import {
  authentication,
  type Credentials,
  type CredentialsFacts,
  credentialsFacts,
  type TlsFiles,
  tlsOptions,
} from './connection/credentials.js'
import { ReplyMux } from './connection/reply-mux.js'
import { withoutSecrets } from './connection/server-address.js'
import { NatsBus } from './nats-bus.js'
import { inboxPrefixOf, Subjects } from './subjects/subjects.js'
import type { Bus } from './types/bus.js'
import { BusUnreachable } from './types/errors.js'

export interface BusOptions {
  servers: string | string[]
  /** Name of the agent, person or service (`passover`). */
  identity: string
  credentials?: Credentials
  /** Certificates for servers with a private certificate authority, or for servers that require client certificates. */
  tls?: TlsFiles
  /** Prefix of all subjects and of the names of the stream and the buckets. */
  prefix?: string
  /** Inbox prefix, which the permissions allow. Default `_INBOX_<identity>`. */
  inbox_prefix?: string
  /** Stream name. Default `PASSOVER`. */
  stream?: string
  /** Timeout in ms for connecting and for each response. Default 5,000. */
  timeout_ms?: number
  /** Connection name in the server's monitoring. Default: the identity. */
  name?: string
  /** Receives exceptions of callbacks and errors of skipped values. Default: a process warning. */
  onError?: (error: unknown) => void
}

const TIMEOUT_MS = 5_000
/** Ping interval. The client drops a silent connection after two unanswered pings, that is within 9 s, and reconnects. */
const PING_MS = 3_000
const RECONNECT_MIN_MS = 100
const RECONNECT_SPREAD_MS = 400

/**
 * Opens the single connection of a Passover process. It reconnects without limit; `closed` settles only after a deliberate close. Throws
 * BusUnreachable, with a hint, if no server accepts it within `timeout_ms`.
 */
export async function openBus(options: BusOptions): Promise<Bus> {
  const timeout_ms = options.timeout_ms ?? TIMEOUT_MS
  const subjects = new Subjects(options.prefix, options.stream)
  const inboxPrefix = options.inbox_prefix ?? inboxPrefixOf(options.identity)
  const nc = await dial(options, { timeout_ms, inboxPrefix })
  const link = new Connection(nc, inboxPrefix, options.onError ?? warn)
  const refused: { error?: Error } = {}
  const replies = new ReplyMux(link, (error) => {
    refused.error = error
    link.report(error)
  })
  // A refusal of the inbox subscription arrives before the answer to this ping.
  await nc.flush().catch(() => undefined)
  if (refused.error) {
    await nc.close()
    const hint = `Give "${options.identity}" permission to subscribe to ${inboxPrefix}.>, or set inbox_prefix to a prefix that it may use.`
    throw new BusUnreachable(`the server refuses the inbox of "${options.identity}"`, hint, refused.error)
  }
  const bus = new NatsBus({ link, replies, subjects, identity: options.identity, timeout_ms })
  await bus.start()
  return bus
}

async function dial(
  options: BusOptions,
  { timeout_ms, inboxPrefix }: { timeout_ms: number; inboxPrefix: string },
): Promise<NatsConnection> {
  const where = [options.servers].flat().map(withoutSecrets).join(', ')
  const facts = credentialsFacts(options.credentials)
  if (facts?.expires_at !== undefined && facts.expires_at <= Date.now()) {
    const on = new Date(facts.expires_at).toISOString()
    throw new BusUnreachable(
      `the credentials of "${facts.name}" expired on ${on}`,
      `To renew them: passover auth rotate ${facts.name}`,
      undefined,
      true,
    )
  }
  const connection: ConnectionOptions = {
    servers: options.servers,
    name: options.name ?? options.identity,
    timeout: timeout_ms,
    inboxPrefix,
    noAsyncTraces: true,
    waitOnFirstConnect: false,
    maxReconnectAttempts: -1,
    // A busy or restarting server answers with an authentication timeout; after two of them the client would give up.
    ignoreAuthErrorAbort: true,
    reconnectDelayHandler: () => RECONNECT_MIN_MS + Math.random() * RECONNECT_SPREAD_MS,
    pingInterval: PING_MS,
    maxPingOut: 2,
  }
  try {
    return await connect({ ...connection, ...authentication(options.credentials), ...tlsOptions(options.tls) })
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    const hint = hintOf(message, facts)
    throw new BusUnreachable(`cannot reach a NATS server at ${where}: ${message}`, hint, error, isRefusal(message))
  }
}

function isRefusal(message: string): boolean {
  return /authorization|authentication|certificate/i.test(message)
}

function hintOf(message: string, facts: CredentialsFacts | undefined): string {
  const text = message.toLowerCase()
  const refused = text.includes('authorization') || text.includes('authentication')
  if (refused && facts)
    return `The server does not accept the credentials of "${facts.name}": they were revoked or rotated, or belong to another installation.`
  if (refused) return 'The server does not accept the credentials. Check them.'
  if (text.includes('certificate')) return 'Set PASSOVER_CA to the path of a PEM file with the authority that signed its certificate.'
  if (text.includes('tls')) return 'Check whether the server requires TLS (tls:// in its address).'
  return 'Start a server with `passover up`, or set NATS_URL to the address of a running server.'
}

/** Emits a process warning in ASCII: Node prints warnings unescaped, and this one may quote keys and bodies that an agent chose. */
function warn(error: unknown): void {
  const message = error instanceof Error ? error.message : String(error)
  process.emitWarning(asciiOf(message), { type: error instanceof Error ? error.name : 'Error' })
}

/** Escapes everything but printable ASCII as \uXXXX. */
function asciiOf(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
}
