import type { Bus } from '../types/bus.js'

export interface StoreWatchOptions {
  bus: Pick<Bus, 'stores' | 'ensureBuckets'>
  clock: { after(ms: number, fn: () => void): Disposable }
  every_ms: number
  /** Called with the stores that were re-created since the last check (`stream`, `agents`, `objects snapshots`, …): their data is gone. */
  onRenewed: (names: readonly string[]) => void | Promise<void>
  /** Called with the missing buckets that were created here. */
  onMade: (names: readonly string[]) => void
}

/**
 * Creates missing buckets, and reports buckets that were re-created, by any process. Never creates the main stream: its loss is only reported
 * (decision 55).
 */
export class StoreWatch {
  readonly #options: StoreWatchOptions
  #known: ReadonlyMap<string, number> = new Map()
  #missing: string[] = []
  #timer: Disposable | undefined
  #stopped = false

  private constructor(options: StoreWatchOptions) {
    this.#options = options
  }

  /** Starts watching, with the present stores as the baseline. Throws BusReadError. */
  static async start(options: StoreWatchOptions): Promise<StoreWatch> {
    const watch = new StoreWatch(options)
    watch.#known = await options.bus.stores()
    watch.#later()
    return watch
  }

  /** Returns the creation time of a store (server ms), as of the last check. */
  madeAt(name: string): number | undefined {
    return this.#known.get(name)
  }

  /** Reason why passes may get lost, or `undefined` if the stream exists. */
  get streamTrouble(): string | undefined {
    return this.#missing.includes('stream') ? 'the stream was deleted; restore it, because it is never recreated automatically' : undefined
  }

  get bucketTrouble(): string | undefined {
    const buckets = this.#missing.filter((name) => name !== 'stream')
    return buckets.length > 0 ? `missing: ${buckets.join(', ')}` : undefined
  }

  stop(): void {
    this.#stopped = true
    this.#timer?.[Symbol.dispose]()
  }

  #later(): void {
    this.#timer = this.#options.clock.after(this.#options.every_ms, () => {
      // A failed check means nothing; other parts report that the server does not answer.
      void this.#look()
        .catch(() => undefined)
        .finally(() => {
          if (!this.#stopped) this.#later()
        })
    })
  }

  async #look(): Promise<void> {
    const { bus, onMade, onRenewed } = this.#options
    let now = await bus.stores()
    const lost = [...this.#known.keys()].filter((name) => !now.has(name))
    this.#missing = lost
    if (lost.some((name) => name !== 'stream') && now.has('stream')) {
      await bus.ensureBuckets()
      now = await bus.stores()
      onMade(lost.filter((name) => now.has(name)))
    }
    const renewed = [...now].filter(([name, made]) => this.#known.has(name) && this.#known.get(name) !== made).map(([name]) => name)
    if (renewed.length > 0) await onRenewed(renewed)
    this.#known = new Map([...this.#known, ...now])
    this.#missing = [...this.#known.keys()].filter((name) => !now.has(name))
  }
}
