import type { Bus } from '@passover/bus'
import type { Clock } from '@passover/core'
import type { Logger } from 'pino'

const RETRY_DELAY_MS = 1_000

/** A reader of the stream: its last message, and a way to stop it from deriving anything more. */
interface PositionSource {
  readonly position: number
  readonly time: number
  abandon(): void
}

/**
 * Detects that the stream lost messages that were already read: it was restored from a backup, or a lagging replica became leader. From then on no
 * message is processed, because what is stored now does not continue what was read (decision 55).
 */
export class RollbackDetector implements Disposable {
  readonly #deps: { bus: Bus; clock: Clock; log: Logger }
  /** Settles with a description of the loss. */
  readonly found: Promise<string>
  #resolve: (what: string) => void = () => undefined
  #lost = false
  #over = false
  #comparing: Promise<void> | undefined
  #unlisten: () => void = () => undefined
  #source: PositionSource | undefined

  constructor(deps: { bus: Bus; clock: Clock; log: Logger }) {
    this.#deps = deps
    this.found = new Promise((resolve) => {
      this.#resolve = resolve
    })
  }

  /** Compares after each reconnect: by then the stream may have rolled back and grown again beyond the read position. */
  watch(source: PositionSource): void {
    this.#source = source
    this.#unlisten = this.#deps.bus.onReconnect(() => this.#compare())
  }

  [Symbol.dispose](): void {
    this.#over = true
    this.#unlisten()
  }

  /** Callback for readers; `last` is the current last sequence of the stream. */
  readonly onRollback = (last: number): void => {
    const read = this.#source?.position ?? 0
    const gone = read > last ? `its messages ${last + 1} to ${read} had been read` : 'later messages had been read'
    this.lose(`the stream lost its newest messages: it rolled back to sequence ${last}, although ${gone}`)
  }

  /** Processes a message, unless messages before it were lost. Waits for a comparison in progress. */
  unlessLost(take: () => void | Promise<void>): void | Promise<void> {
    if (this.#lost) return undefined
    return this.#comparing ? this.#comparing.then(() => (this.#lost ? undefined : take())) : take()
  }

  /** Reports a loss. Only the first report has an effect. */
  lose(what: string): void {
    if (this.#lost || this.#over) return
    this.#lost = true
    this.#source?.abandon()
    this.#resolve(what)
  }

  #compare(): void {
    const comparing = this.#look().finally(() => {
      if (this.#comparing === comparing) this.#comparing = undefined
    })
    this.#comparing = comparing
  }

  async #look(): Promise<void> {
    const { clock, log } = this.#deps
    const { position = 0, time = 0 } = this.#source ?? {}
    while (time > 0 && !this.#over && !this.#lost) {
      try {
        return await this.#lookAt(position, time)
      } catch (error) {
        log.warn({ err: error }, 'position in the stream not verified yet')
        await new Promise<void>((done) => clock.after(RETRY_DELAY_MS, done))
      }
    }
  }

  async #lookAt(position: number, time: number): Promise<void> {
    const { bus } = this.#deps
    const stored = await bus.journal.message(position)
    if (stored && stored.time !== time) {
      return this.lose(
        `the stream lost its newest messages and continued: at sequence ${position} it has a different message than the one that was read`,
      )
    }
    const { last } = await bus.bounds()
    if (last < position) this.onRollback(last)
  }
}
