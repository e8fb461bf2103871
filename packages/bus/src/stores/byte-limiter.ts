interface Waiting {
  bytes: number
  begin: () => void
}

/** Limits the number of bytes loaded at the same time, in FIFO order. A larger item is loaded alone. */
export class ByteLimiter {
  readonly #most: number
  readonly #waiting: Waiting[] = []
  #bytes = 0

  constructor(most: number) {
    this.#most = most
  }

  async do<T>(bytes: number, work: () => Promise<T>): Promise<T> {
    const held = Math.min(bytes, this.#most)
    if (this.#waiting.length > 0 || this.#bytes + held > this.#most)
      await new Promise<void>((begin) => this.#waiting.push({ bytes: held, begin }))
    else this.#bytes += held
    try {
      return await work()
    } finally {
      this.#bytes -= held
      for (let next = this.#waiting[0]; next && this.#bytes + next.bytes <= this.#most; next = this.#waiting[0]) {
        this.#waiting.shift()
        this.#bytes += next.bytes
        next.begin()
      }
    }
  }
}
