import type { Bus } from '../types/bus.js'

export interface StoreWatchOptions {
  bus: Pick<Bus, 'stores' | 'ensureBuckets'>
  clock: { after(ms: number, fn: () => void): Disposable }
  every_ms: number
  /** Stores that are not the ones that were there at the last look (`stream`, `agents`, `objects snapshots`, …): what they held is gone. */
  onRenewed: (names: readonly string[]) => void | Promise<void>
  /** Missing buckets were made anew here. */
  onMade: (names: readonly string[]) => void
}

/**
 * Sees to it that the buckets are there, and tells when one is another than before, whoever made it. The main stream is never made here:
 * that it is gone is only told (decision 55).
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

  /** What is there now is what is taken for granted from now on. Throws BusReadError. */
  static async start(options: StoreWatchOptions): Promise<StoreWatch> {
    const watch = new StoreWatch(options)
    watch.#known = await options.bus.stores()
    watch.#later()
    return watch
  }

  /** When a store was made (server ms), as last seen. */
  madeAt(name: string): number | undefined {
    return this.#known.get(name)
  }

  /** Why passes may get lost; undefined: the stream is there. */
  get streamTrouble(): string | undefined {
    return this.#missing.includes('stream') ? 'the stream is gone: restore it; nothing makes it anew by itself' : undefined
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
      // A look that fails tells nothing; that the server does not answer is told by others.
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
