import type { MessageHeaders } from './messages.js'

/**
 * Tells stored messages that a client published from those that the server published on a client's behalf.
 *
 * The server checks the subject that a client publishes to, but not the reply subject that it names. A client can therefore have the
 * server store an answer (a direct get, a publish acknowledgment, the status of a pull) under any subject: a bounce. The server marks
 * most of these answers with headers of its own, and a client cannot take them off again. See docs/architecture/trusted-messages.md.
 */

const OURS = '\r\nNats-'
/**
 * Headers with which an honest client may publish, which an import of an account adds to a client's message (`Request-Info`), or which a read of the
 * headers alone adds. They follow `Nats-`.
 */
const CLIENT_HEADERS = ['Expected-', 'Msg-', 'Request-Info:', 'Rollup:', 'TTL:', 'Marker-']

/** Returns the first header that only the server writes; undefined: the block has none, so that a client published the message. */
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

/** Whether a message has no header at all, as the server's acknowledgments and API responses. A read of the headers alone adds the size. */
export function isBare(headers: MessageHeaders): boolean {
  const block = headers.text()
  const colon = block.indexOf(':')
  return colon < 0 || (block.startsWith(SIZE, colon - SIZE.length + 1) && block.indexOf(':', colon + 1) < 0)
}

const DECODER = new TextDecoder()
const BRACE = 0x7b

/**
 * Whether a body without headers is an answer of the server or of a service: empty, or JSON other than a body of ours, each of which
 * names its version.
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

/** What of a stored message tells who published it. */
export interface Published {
  headers: MessageHeaders
  /** Empty where only the headers were read. */
  data: Uint8Array
}

/** Kinds whose bodies tell where there are no headers. Steps always have some: most of their readers read nothing else. */
const BODIED: ReadonlySet<string> = new Set(['decision', 'event', 'policy', 'agent', 'custody', 'acknowledged'])

/**
 * Returns why a stored message is not believed; undefined: a client published it. A request may come without headers (`nats pub`): its body is
 * checked by admission, which no answer of the server passes.
 */
export function distrust(kind: string, published: Published): string | undefined {
  const { headers, data } = published
  const header = serverHeader(headers)
  if (header !== undefined) return `the server published it, not its sender: it has the header ${header}`
  if (!isBare(headers)) return undefined
  if (kind === 'step') return 'the server published it, not its sender: it has no headers'
  if (!needsBody(kind) && isUnread(published)) return undefined
  return BODIED.has(kind) && isServerAnswer(data) ? 'the server published it, not its sender: its body is an answer' : undefined
}

/**
 * Whether a reader of the headers alone must read the body of a message without headers. Clients of this version publish no such message;
 * earlier ones acknowledge returns so, in great number, and no reader of the headers alone uses acknowledgments.
 */
export function needsBody(kind: string): boolean {
  return kind !== 'acknowledged' && BODIED.has(kind)
}

/** Whether only the headers were read of a message that has a body. */
function isUnread({ headers, data }: Published): boolean {
  return data.length === 0 && Number(headers.get('Nats-Msg-Size') ?? 0) > 0
}
