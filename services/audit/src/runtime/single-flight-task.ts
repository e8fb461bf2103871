/** Work that is looked after now and then: never twice at once, ended in good order, and what keeps it from going on is told. */
export class SingleFlightTask {
  stopped = false
  /** Why the last look failed. */
  trouble: string | undefined
  private working: Promise<void> | undefined

  /** `failed` is told of each failure before the end. */
  constructor(
    private readonly work: () => Promise<void>,
    private readonly failed: (error: unknown) => void,
  ) {}

  /** Does what is due; at once where it is at it already. */
  run(): Promise<void> {
    this.working ??= this.work()
      .then(() => {
        this.trouble = undefined
      })
      .catch((error: unknown) => {
        if (this.stopped) return
        this.trouble = error instanceof Error ? error.message : String(error)
        this.failed(error)
      })
      .finally(() => {
        this.working = undefined
      })
    return this.working
  }

  async stop(): Promise<void> {
    this.stopped = true
    await this.working
  }
}
