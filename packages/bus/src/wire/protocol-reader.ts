import { Message, type ReceivedMessage } from './raw-message.js'

/** Interface of the client's own protocol parser. */
export interface ClientParser {
  state: number
  parse(bytes: Uint8Array): void
}

/** Finds the callback of a subscription, or `undefined` if the subscription is not the bus's. */
export type FindHearer = (sid: number) => ((message: ReceivedMessage) => void) | undefined

/** Parser state between two commands of the server. */
const AT_START = 0
const SPACE = 0x20
const CR = 0x0d
const LF = 0x0a
const [H, M, S, G] = [0x48, 0x4d, 0x53, 0x47]
const ZERO = 0x30
const MAX_DIGITS = 9
/** Maximum length of an incomplete line. A longer one is passed to the client, which reports the error. */
const MAX_LINE = 64 * 1024
/** Maximum number of words after the verb of a message line: subject, subscription, reply, header bytes, total bytes. */
const WORDS = 5

/** End index of each word of the current line. Module state is safe: parsing is synchronous, so there is one reader at a time. */
const ends: number[] = new Array(WORDS).fill(0)

/**
 * Reads the protocol before the client's parser does (decision 13). A message that is complete in the received chunk, as nearly all are, is extracted
 * here and passed to the bus's subscriber. Everything else goes to the client's parser unchanged: messages of its own subscriptions, incomplete
 * messages, all other commands. The client's parser looks at each byte of a line twice and creates a dozen objects per message.
 */
export class ProtocolReader implements ClientParser {
  readonly #client: ClientParser
  readonly #find: FindHearer
  /** False until the client's parser is between two commands; until then it receives everything. */
  #isOurs = false
  /** Number of bytes still missing of a message whose beginning the client's parser has. */
  #owed = 0
  /** Incomplete line at the end of the last chunk. */
  #rest: Uint8Array | undefined

  constructor(client: ClientParser, find: FindHearer) {
    this.#client = client
    this.#find = find
  }

  get state(): number {
    return this.#client.state
  }

  parse(bytes: Uint8Array): void {
    this.#isOurs ||= this.#client.state === AT_START
    if (this.#isOurs) this.#read(this.#joined(bytes))
    else this.#client.parse(bytes)
  }

  #read(bytes: Buffer): void {
    let at = this.#pay(bytes)
    while (at < bytes.length) {
      const next = bytes[at] === M || bytes[at] === H ? this.#message(bytes, at) : this.#command(bytes, at)
      if (next === undefined) this.#keep(bytes, at)
      at = next ?? bytes.length
    }
  }

  #joined(bytes: Uint8Array): Buffer {
    const rest = this.#rest
    this.#rest = undefined
    return rest ? Buffer.concat([rest, bytes]) : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  }

  /** Passes the client's parser the missing bytes of its message. Returns the index where the next command begins. */
  #pay(bytes: Buffer): number {
    const paid = Math.min(this.#owed, bytes.length)
    this.#owed -= paid
    if (paid === 0) return 0
    if (this.#owed === 0) return this.#give(bytes, 0, paid)
    this.#client.parse(bytes)
    return paid
  }

  /** Keeps an incomplete line for the next chunk. */
  #keep(bytes: Buffer, at: number): void {
    if (bytes.length - at <= MAX_LINE) this.#rest = Buffer.from(bytes.subarray(at))
    else this.#give(bytes, at, bytes.length)
  }

  /** Passes a command to the client's parser. Returns the index of the next command, or `undefined` if this one is incomplete. */
  #command(bytes: Buffer, at: number): number | undefined {
    const end = bytes.indexOf(LF, at)
    return end < 0 ? undefined : this.#give(bytes, at, end + 1)
  }

  /** Passes bytes to the client's parser. If it does not consider the command complete, it receives the rest of the chunk, too. */
  #give(bytes: Buffer, from: number, to: number): number {
    this.#client.parse(bytes.subarray(from, to))
    if (this.#client.state === AT_START) return to
    this.#isOurs = false
    this.#client.parse(bytes.subarray(to))
    return bytes.length
  }

  #message(bytes: Buffer, at: number): number | undefined {
    const headed = bytes[at] === H
    const first = headed ? at + 5 : at + 4
    const words = isMessage(bytes, first) ? wordsOf(bytes, first) : 0
    const needed = headed ? 4 : 3
    const size = numberAt(bytes, words - 1)
    const head = headed ? numberAt(bytes, words - 2) : 0
    if (words < needed || words > needed + 1 || !(head <= size)) return this.#command(bytes, at)
    const body = (ends[words - 1] ?? 0) + 2
    const next = body + size + 2
    if (next > bytes.length) {
      this.#owed = next - bytes.length
      this.#client.parse(bytes.subarray(at))
      return bytes.length
    }
    const hear = this.#find(numberAt(bytes, 1))
    if (!hear) return this.#give(bytes, at, next)
    const reply = words > needed ? bytes.toString('utf8', (ends[1] ?? 0) + 1, ends[2]) : undefined
    hear(new Message(bytes, bytes.toString('utf8', first, ends[0]), { reply, at: body, head, size }))
    return next
  }
}

/** Returns true if `MSG ` precedes the index. */
function isMessage(bytes: Buffer, first: number): boolean {
  return bytes[first - 4] === M && bytes[first - 3] === S && bytes[first - 2] === G && bytes[first - 1] === SPACE
}

/** Counts the words up to the end of the line, separated by single spaces. Returns 0 if the line is incomplete or malformed. */
function wordsOf(bytes: Buffer, from: number): number {
  let words = 0
  let begun = from
  for (let i = from; i < bytes.length; i += 1) {
    const byte = bytes[i]
    if (byte !== SPACE && byte !== CR) continue
    if (i === begun || words === WORDS) return 0
    ends[words] = i
    words += 1
    begun = i + 1
    if (byte === CR) return bytes[begun] === LF ? words : 0
  }
  return 0
}

/** Returns the value of a numeric word of the line (not the first), or NaN if it is not a number. */
function numberAt(bytes: Buffer, word: number): number {
  const from = (ends[word - 1] ?? 0) + 1
  const to = ends[word] ?? 0
  let value = to - from > MAX_DIGITS ? Number.NaN : 0
  for (let i = from; i < to; i += 1) {
    const digit = (bytes[i] ?? 0) - ZERO
    value = digit >= 0 && digit <= 9 ? value * 10 + digit : Number.NaN
  }
  return value
}
