/** The reader did not read for too long. */
export class SlowReaderError extends Error {}

const encoder = new TextEncoder()

/** Writes text to one reader with backpressure. When the reader is gone or too slow, `ended` settles and nothing more is written. */
export class StreamWriter {
  readonly #slow_ms: number
  readonly readable: ReadableStream<Uint8Array>
  readonly ended: Promise<void>
  readonly #writer: WritableStreamDefaultWriter<Uint8Array>
  #under_way = 0
  #closed = false
  #end: () => void = () => {}

  constructor(slow_ms: number) {
    this.#slow_ms = slow_ms
    const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>({}, { highWaterMark: 16 }, { highWaterMark: 16 })
    this.readable = readable
    this.#writer = writable.getWriter()
    this.ended = new Promise((resolve) => {
      this.#end = resolve
    })
    this.#writer.closed.then(
      () => this.close(),
      () => this.close(),
    )
  }

  get closed(): boolean {
    return this.#closed
  }

  /** True if writes are pending. */
  get busy(): boolean {
    return this.#under_way > 0
  }

  /** Settles when the reader has room for more. If that takes too long, aborts the stream and rejects with SlowReaderError. */
  async write(text: string): Promise<void> {
    if (this.#closed) return
    this.#under_way += 1
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<'late'>((resolve) => {
      timer = setTimeout(() => resolve('late'), this.#slow_ms)
    })
    try {
      const written = this.#writer.write(encoder.encode(text)).then(() => this.#writer.ready)
      if ((await Promise.race([written, late])) === 'late') {
        this.#cut(new SlowReaderError())
        throw new SlowReaderError()
      }
    } catch (error) {
      if (error instanceof SlowReaderError) throw error
      this.close()
    } finally {
      clearTimeout(timer)
      this.#under_way -= 1
    }
  }

  close(): void {
    if (this.#closed) return
    this.#closed = true
    this.#writer.close().catch(() => undefined)
    this.#end()
  }

  #cut(why: Error): void {
    if (this.#closed) return
    this.#closed = true
    this.#writer.abort(why).catch(() => undefined)
    this.#end()
  }
}
