import type { MessageHeaders } from './messages.js'

/**
 * Distinguishes stored messages that a client published from those that the server published on a client's behalf.
 *
 * The server checks the subject that a client publishes to, but not the reply subject that it names. A client can therefore have the server store an
 * answer (a direct get, a publish acknowledgment, the status of a pull) under any subject: a bounce. The server marks most of these answers with
 * headers of its own, which a client cannot remove. See docs/architecture/trusted-messages.md.
 */

const OURS = '\r\nNats-'
/**
 * `Nats-` headers, without that prefix, that do not indicate a bounce: those with which a correct client may publish, one that an account import adds
 * to a client's message (`Request-Info`), and one that a headers-only read adds.
 */
const CLIENT_HEADERS = ['Expected-', 'Msg-', 'Request-Info:', 'Rollup:', 'TTL:', 'Marker-']

/** Returns the first header that only the server writes, or `undefined` if there is none, that is, a client published the message. */
export function serverHeader(headers: MessageHeaders): string | undefined {
  const block = headers.text()
  let at = block.indexOf(OURS)
  while (at >= 0) {
    const from = at + OURS.length
    if (!isClientHeader(block, from)) {
      const colon = block.indexOf(':', from)
      return block.slice(at + 2, colon < 0 ? undefined : colon)
    }
    at = block.indexOf(OURS, from)
  }
  return undefined
}

function isClientHeader(block: string, from: number): boolean {
  for (const name of CLIENT_HEADERS) if (block.startsWith(name, from)) return true
  return false
}

const SIZE = '\r\nNats-Msg-Size:'

/**
 * Returns true if a message has no headers, like the server's acknowledgments and API responses. The size header that a headers-only read adds does
 * not count.
 */
export function isBare(headers: MessageHeaders): boolean {
  const block = headers.text()
  const colon = block.indexOf(':')
  return colon < 0 || (block.startsWith(SIZE, colon - SIZE.length + 1) && block.indexOf(':', colon + 1) < 0)
}

const DECODER = new TextDecoder()
const BRACE = 0x7b

/**
 * Returns true if a body without headers is an answer of the server or of a service: empty, or JSON without the version field `v` that all of our
 * bodies have.
 */
export function isServerAnswer(data: Uint8Array): boolean {
  if (data.length === 0) return true
  if (data[0] !== BRACE) return false
  try {
    const value: unknown = JSON.parse(DECODER.decode(data))
    return typeof value !== 'object' || value === null || !('v' in value)
  } catch {
    return true
  }
}

/** Parts of a stored message that show who published it. */
export interface Published {
  headers: MessageHeaders
  /** Empty if only the headers were read. */
  data: Uint8Array
}

/** Kinds of messages that are judged by their body if they have no headers. Steps always have headers: most of their readers read nothing else. */
const BODIED: ReadonlySet<string> = new Set(['decision', 'event', 'policy', 'agent', 'custody', 'acknowledged'])

/**
 * Returns the reason why a stored message is not trusted, or `undefined` if a client published it. A request may come without headers (`nats pub`):
 * admission validates its body, and no answer of the server passes that.
 */
export function distrust(kind: string, published: Published): string | undefined {
  const { headers, data } = published
  const header = serverHeader(headers)
  if (header !== undefined) return `the server published it, not its sender: it has the header ${header}`
  if (!isBare(headers)) return undefined
  if (kind === 'step') return 'the server published it, not its sender: it has no headers'
  if (!needsBody(kind) && isUnread(published)) return undefined
  return BODIED.has(kind) && isServerAnswer(data) ? 'the server published it, not its sender: its body is a reply of the server' : undefined
}

/**
 * Returns true if a headers-only reader must read the body of a message that has no headers. Clients of this version publish no such message; earlier
 * ones acknowledge returns that way, in large numbers, but no headers-only reader uses acknowledgments.
 */
export function needsBody(kind: string): boolean {
  return kind !== 'acknowledged' && BODIED.has(kind)
}

/** Returns true if the message has a body that was not read. */
function isUnread({ headers, data }: Published): boolean {
  return data.length === 0 && Number(headers.get('Nats-Msg-Size') ?? 0) > 0
}
