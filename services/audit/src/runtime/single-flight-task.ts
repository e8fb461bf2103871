/** Periodic work that never runs twice at once, stops cleanly, and reports why it fails. */
export class SingleFlightTask {
  readonly #work: () => Promise<void>
  readonly #failed: (error: unknown) => void
  stopped = false
  /** Reason why the last run failed. */
  trouble: string | undefined
  #working: Promise<void> | undefined

  /** `failed` is called with each error before `stop`. */
  constructor(work: () => Promise<void>, failed: (error: unknown) => void) {
    this.#work = work
    this.#failed = failed
  }

  /** Does the work, or joins the run in progress. */
  run(): Promise<void> {
    this.#working ??= this.#work()
      .then(() => {
        this.trouble = undefined
      })
      .catch((error: unknown) => {
        if (this.stopped) return
        this.trouble = error instanceof Error ? error.message : String(error)
        this.#failed(error)
      })
      .finally(() => {
        this.#working = undefined
      })
    return this.#working
  }

  async stop(): Promise<void> {
    this.stopped = true
    await this.#working
  }
}
