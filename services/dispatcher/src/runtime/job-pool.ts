/** Runs queued jobs, at most `width` concurrently. A job must not reject. */
export class JobPool {
  readonly #width: number
  readonly #queue: (() => Promise<void>)[] = []
  readonly #idle: (() => void)[] = []
  #next = 0
  #running = 0

  constructor(width: number) {
    this.#width = width
  }

  get running(): number {
    return this.#running
  }

  get waiting(): number {
    return this.#queue.length - this.#next
  }

  add(job: () => Promise<void>): void {
    this.#queue.push(job)
    this.#pump()
  }

  /** Drops the jobs that have not started. */
  clear(): void {
    this.#queue.length = 0
    this.#next = 0
  }

  /** Resolves when no job is running or queued. */
  idle(): Promise<void> {
    if (this.#running === 0 && this.waiting === 0) return Promise.resolve()
    return new Promise((resolve) => this.#idle.push(resolve))
  }

  #pump(): void {
    while (this.#running < this.#width && this.waiting > 0) {
      const job = this.#take()
      if (!job) continue
      this.#running++
      void job().finally(() => this.#done())
    }
  }

  /**
   * Frees started jobs only when they make up half of the array: the queue may never become empty, and removing them one by one would move the rest
   * each time.
   */
  #take(): (() => Promise<void>) | undefined {
    const job = this.#queue[this.#next++]
    if (2 * this.#next >= this.#queue.length) {
      this.#queue.splice(0, this.#next)
      this.#next = 0
    }
    return job
  }

  #done(): void {
    this.#running--
    this.#pump()
    if (this.#running > 0 || this.waiting > 0) return
    for (const resolve of this.#idle.splice(0)) resolve()
  }
}
