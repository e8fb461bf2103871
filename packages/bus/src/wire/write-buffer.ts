export interface SendOptions {
  reply?: string | undefined
  /** What `encodeHeaders` made. */
  headers?: string | undefined
}

const CHUNK_BYTES = 64 * 1024
/** Most bytes of one character in UTF-8, as far as a string counts it. */
const MAX_CHARACTER_BYTES = 3
const CRLF = 2
const CR = 0x0d
const LF = 0x0a

/**
 * Messages on their way out, as the bytes that the server reads. The client's own publish cuts each message into four pieces, checks
 * both subjects again, and joins the pieces later; here each is written once, behind the one before it.
 */
export class WriteBuffer {
  #chunk = Buffer.allocUnsafeSlow(CHUNK_BYTES)
  /** Bytes of the chunk before `from` were taken already, and may still lie in the socket's queue. */
  #from = 0
  #to = 0
  /** Pieces of chunks that have no more room, or that are being taken, and their bytes. */
  #full: Uint8Array[] = []
  #bytes = 0
  #messages = 0

  /** Not taken yet. */
  get messages(): number {
    return this.#messages
  }
  get bytes(): number {
    return this.#bytes + this.#to - this.#from
  }

  /** `headers` is a whole block, its empty line included. Neither subject may have white space. */
  add(subject: string, data: Uint8Array, { reply, headers }: SendOptions): void {
    this.#messages += 1
    const to = reply === undefined ? subject : `${subject} ${reply}`
    if (headers === undefined) this.#write(`PUB ${to} ${data.length}\r\n`, data)
    else if (!this.#write(headed(to, headers, headers.length, data.length), data)) {
      this.#write(headed(to, headers, Buffer.byteLength(headers), data.length), data, 'wide')
    }
  }

  /** Everything since the last time, in order. */
  take(): Uint8Array[] {
    this.#close()
    const taken = this.#full
    this.#full = []
    this.#bytes = 0
    this.#messages = 0
    return taken
  }

  /** False, and nothing written: the text has characters of several bytes, so that the length it tells of itself is wrong. */
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
