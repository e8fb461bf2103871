import { Message, type ReceivedMessage } from './raw-message.js'

/** The client's own reader of the protocol. */
export interface ClientParser {
  state: number
  parse(bytes: Uint8Array): void
}

/** Who hears a subscription's messages; undefined: it is none of the bus's. */
export type FindHearer = (sid: number) => ((message: ReceivedMessage) => void) | undefined

/** Between two commands of the server. */
const AT_START = 0
const SPACE = 0x20
const CR = 0x0d
const LF = 0x0a
const [H, M, S, G] = [0x48, 0x4d, 0x53, 0x47]
const ZERO = 0x30
const MAX_DIGITS = 9
/** A longer line without an end is left to the client, which knows what to say about it. */
const MAX_LINE = 64 * 1024
/** Most words behind the verb of a message's line: subject, subscription, reply, bytes of headers, bytes. */
const WORDS = 5

/** Where the words of a line end that is being read. There is one reader at a time, and it never waits. */
const ends: number[] = new Array(WORDS).fill(0)

/**
 * Stands before the client's parser (decision 96). A message that lies whole in what the socket gave, as nearly all do, is cut out here and handed to
 * whoever subscribed through the bus. Everything else goes to the client's parser as it came: what its own subscriptions wait for, a
 * message that is not whole yet, every other command. The client looks at each byte of a line twice and makes a dozen objects a message.
 */
export class ProtocolReader implements ClientParser {
  readonly #client: ClientParser
  readonly #find: FindHearer
  /** False until the client's parser is between two commands: until then all is its own. */
  #isOurs = false
  /** Bytes that are still missing of a message whose beginning the client's parser has. */
  #owed = 0
  /** The beginning of a line. */
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

  /** What is owed to a message of the client's; what follows begins there. */
  #pay(bytes: Buffer): number {
    const paid = Math.min(this.#owed, bytes.length)
    this.#owed -= paid
    if (paid === 0) return 0
    if (this.#owed === 0) return this.#give(bytes, 0, paid)
    this.#client.parse(bytes)
    return paid
  }

  /** A line that has no end yet. */
  #keep(bytes: Buffer, at: number): void {
    if (bytes.length - at <= MAX_LINE) this.#rest = Buffer.from(bytes.subarray(at))
    else this.#give(bytes, at, bytes.length)
  }

  /** Where the next command begins; undefined: this one has no end yet. */
  #command(bytes: Buffer, at: number): number | undefined {
    const end = bytes.indexOf(LF, at)
    return end < 0 ? undefined : this.#give(bytes, at, end + 1)
  }

  /** To the client's parser, which has all that follows, too, where it sees no end there. */
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

/** Whether `MSG ` stands before a place. */
function isMessage(bytes: Buffer, first: number): boolean {
  return bytes[first - 4] === M && bytes[first - 3] === S && bytes[first - 2] === G && bytes[first - 1] === SPACE
}

/** How many words stand from there to the line's end, one space between two; 0: it has no end yet, or is not as the server writes it. */
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

/** The number that is a word of the line, not the first; NaN where it is none. */
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
