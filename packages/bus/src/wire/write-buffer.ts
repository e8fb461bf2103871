export interface SendOptions {
  reply?: string | undefined
  /** Header block from `encodeHeaders`. */
  headers?: string | undefined
}

const CHUNK_BYTES = 64 * 1024
/** Maximum UTF-8 bytes per UTF-16 code unit. */
const MAX_CHARACTER_BYTES = 3
const CRLF = 2
const CR = 0x0d
const LF = 0x0a

/**
 * Buffers outgoing messages as protocol bytes. The client's own publish splits each message into four pieces, checks both subjects again, and joins
 * the pieces later; here each is written once, directly after the one before it.
 */
export class WriteBuffer {
  #chunk = Buffer.allocUnsafeSlow(CHUNK_BYTES)
  /** Start of the bytes that have not been taken. Bytes before it may still be in the socket's queue. */
  #from = 0
  #to = 0
  /** Full slices waiting to be taken, and their total bytes. */
  #full: Uint8Array[] = []
  #bytes = 0
  #messages = 0

  /** Number of messages not taken yet. */
  get messages(): number {
    return this.#messages
  }
  get bytes(): number {
    return this.#bytes + this.#to - this.#from
  }

  /** Adds a message. `headers` is a whole block with its empty line. Neither subject may contain white space. */
  add(subject: string, data: Uint8Array, { reply, headers }: SendOptions): void {
    this.#messages += 1
    const to = reply === undefined ? subject : `${subject} ${reply}`
    if (headers === undefined) this.#write(`PUB ${to} ${data.length}\r\n`, data)
    else if (!this.#write(headed(to, headers, headers.length, data.length), data)) {
      this.#write(headed(to, headers, Buffer.byteLength(headers), data.length), data, 'wide')
    }
  }

  /** Returns everything added since the last call, in order. */
  take(): Uint8Array[] {
    this.#close()
    const taken = this.#full
    this.#full = []
    this.#bytes = 0
    this.#messages = 0
    return taken
  }

  /** Writes one message. Returns false without adding it if the text has multi-byte characters, so that the lengths in it are wrong. */
  #write(text: string, data: Uint8Array, width: 'ascii' | 'wide' = 'ascii'): boolean {
    this.#reserve(text.length * MAX_CHARACTER_BYTES + data.length + CRLF)
    const chunk = this.#chunk
    const written = chunk.write(text, this.#to)
    if (written !== text.length && width === 'ascii') return false
    const end = this.#to + written + data.length
    chunk.set(data, this.#to + written)
    chunk[end] = CR
    chunk[end + 1] = LF
    this.#to = end + CRLF
    return true
  }

  #reserve(bytes: number): void {
    if (this.#to + bytes <= this.#chunk.length) return
    this.#close()
    this.#chunk = Buffer.allocUnsafeSlow(Math.max(CHUNK_BYTES, bytes))
    this.#from = 0
    this.#to = 0
  }

  #close(): void {
    if (this.#from === this.#to) return
    this.#full.push(this.#chunk.subarray(this.#from, this.#to))
    this.#bytes += this.#to - this.#from
    this.#from = this.#to
  }
}

function headed(to: string, headers: string, headerBytes: number, dataBytes: number): string {
  return `HPUB ${to} ${headerBytes} ${headerBytes + dataBytes}\r\n${headers}`
}
