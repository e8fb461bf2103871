import type { MsgHdrs } from '@nats-io/transport-node'
import type { HeaderName, MessageHeaders } from './messages.js'
import { Message } from './raw-message.js'

/**
 * Reads headers lazily from the raw block. The client's own map costs several µs per message, too much for a reader of the whole stream. `get`
 * returns the first value, which is the one the server evaluates; `last` returns the one that the server appended.
 */
export class RawHeaders implements MessageHeaders {
  readonly #block: string

  constructor(block: string) {
    this.#block = block
  }

  get(name: HeaderName): string | undefined {
    return this.#value(this.#block.indexOf(`\r\n${name}:`), name.length)
  }

  last(name: HeaderName): string | undefined {
    return this.#value(this.#block.lastIndexOf(`\r\n${name}:`), name.length)
  }

  #value(at: number, nameLength: number): string | undefined {
    if (at < 0) return undefined
    const from = at + nameLength + 3
    const to = this.#block.indexOf('\r\n', from)
    return valueIn(this.#block, from, to < 0 ? this.#block.length : to)
  }

  pairs(): [string, string][] {
    const lines = this.#block.split('\r\n').slice(1)
    return lines.flatMap((line): [string, string][] => {
      const colon = line.indexOf(':')
      return colon > 0 ? [[line.slice(0, colon), line.slice(colon + 1).trim()]] : []
    })
  }

  text(): string {
    return this.#block
  }

  /** Returns the headers as stored, without those that a direct get or a republish appends, which begin at the last `Nats-Stream`. */
  asStored(): RawHeaders {
    const added = this.#block.lastIndexOf('\r\nNats-Stream:')
    return added < 0 ? this : new RawHeaders(`${this.#block.slice(0, added)}\r\n\r\n`)
  }

  /** Status of a JetStream status message ("NATS/1.0 408 Request Timeout"); code 0 if it has none. */
  get status(): { code: number; description: string } {
    const line = this.#block.slice(8, this.#block.indexOf('\r\n')).trim()
    const code = Number.parseInt(line, 10)
    return Number.isNaN(code) ? { code: 0, description: '' } : { code, description: line.slice(String(code).length).trim() }
  }
}

const SPACE = 0x20

/**
 * Returns the text between two indexes without leading spaces, as the server reads it. Whatever else was cut off would let a sender write a guard that
 * the server checks on another subject than readers believe.
 */
export function valueIn(block: string, from: number, to: number): string {
  let start = from
  while (start < to && block.charCodeAt(start) === SPACE) start += 1
  return block.slice(start, to)
}

/** Longest block of which all headers are read at once. Those of a correct client are shorter; a block of 64 KiB can have thousands of headers. */
const MAX_READ_AT_ONCE = 4_096

/**
 * Returns the first value of every header, in one pass over the block. A reader of every message asks for more than a dozen headers, and a search for
 * each takes twice as long. In a long block, the headers asked for are searched one by one.
 */
export function firstHeaders(headers: Pick<MessageHeaders, 'text' | 'get'>): { get(name: HeaderName): string | undefined } {
  const block = headers.text()
  if (block.length > MAX_READ_AT_ONCE) return headers
  const values = new Map<string, string>()
  for (let end = block.indexOf('\r\n'); end >= 0; ) {
    const from = end + 2
    end = block.indexOf('\r\n', from)
    const colon = block.indexOf(':', from)
    const to = end < 0 ? block.length : end
    if (colon <= from || colon >= to) continue
    const name = block.slice(from, colon)
    if (!values.has(name)) values.set(name, valueIn(block, colon + 1, to))
  }
  return values
}

/** Parses the header block that `text()` returned. */
export function readHeaders(text: string): MessageHeaders {
  return new RawHeaders(text)
}

const NO_HEADERS = new RawHeaders('NATS/1.0\r\n')

/** Internals of the client's message with its raw bytes. If a later version hides them, the client's own header map is used. */
interface RawMessage {
  _msg?: { hdr?: number }
  _rdata?: Uint8Array
}

/** Returns the headers of a message, read by the bus or by the client. */
export function headersOf(message: { headers?: MsgHdrs }): RawHeaders {
  if (message instanceof Message) {
    const block = message.block()
    return block === '' ? NO_HEADERS : new RawHeaders(block)
  }
  const raw = message as RawMessage
  const length = raw._msg?.hdr
  if (typeof length === 'number' && raw._rdata instanceof Uint8Array) {
    if (length <= 0) return NO_HEADERS
    if (raw._rdata instanceof Buffer) return new RawHeaders(raw._rdata.toString('utf8', 0, length))
    return new RawHeaders(Buffer.from(raw._rdata.buffer, raw._rdata.byteOffset, length).toString('utf8'))
  }
  const parsed = message.headers
  if (!parsed) return NO_HEADERS
  const lines = [...parsed].flatMap(([name, values]) => values.map((value) => `\r\n${name}: ${value}`))
  return new RawHeaders(`NATS/1.0 ${parsed.status === '0' ? '' : parsed.status}${lines.join('')}\r\n`)
}

/** Parses the base64 header block of a STREAM.MSG.GET response. */
export function headersFromBase64(text: string | undefined): RawHeaders {
  return text ? new RawHeaders(Buffer.from(text, 'base64').toString('utf8')) : NO_HEADERS
}

const LINE_BREAK = /[\r\n]/
const LINE_BREAKS = /[\r\n]+/g

/**
 * Encodes a header block for publishing, with `lines` appended unchanged. A line break in a value would start another header, so it is replaced by a
 * space.
 */
export function encodeHeaders(headers: Partial<Record<string, string>> | undefined, lines = ''): string {
  let block = 'NATS/1.0\r\n'
  for (const name in headers) {
    const value = headers[name]
    if (value !== undefined) block += headerLine(name, value)
  }
  return `${block}${lines}\r\n`
}

function headerLine(name: string, value: string): string {
  return `${name}: ${LINE_BREAK.test(value) ? value.replace(LINE_BREAKS, ' ') : value}\r\n`
}

/** Wraps a block for the client's own `publish`, which only calls `encode` on it. */
export function asClientHeaders(block: string): MsgHdrs {
  return { encode: () => Buffer.from(block) } as unknown as MsgHdrs
}
