import { ClockSync } from './clock/clock-sync.js'
import type { ServerClock } from './clock/server-clock.js'
import { idWindowIn, idWindowTold } from './topology/id-window.js'
import type { StreamInfo } from './topology/stream-info.js'

interface Sources {
  stream: () => Promise<StreamInfo>
  /** Asks the audit service for the time, for clients that may not read the stream's info. */
  service: (timeout_ms: number) => Promise<unknown>
}

/** Tracks the server's time on one connection, and the id window, which the same responses contain. */
export class ServerTime {
  readonly clock: ServerClock
  readonly #sync: ClockSync
  readonly #sources: Sources
  #connectedAt = performance.now()
  #idWindow: number | undefined

  constructor(sources: Sources) {
    this.#sources = sources
    this.#sync = new ClockSync({
      stream: async () => Date.parse((await this.info()).ts),
      service: async (timeout_ms) => {
        const answer = await sources.service(timeout_ms)
        this.#idWindow = idWindowTold(answer) ?? this.#idWindow
        return answer
      },
    })
    this.clock = this.#sync.clock
  }

  /** Id window in ms, or `undefined` if the stream has none or it is not known yet. */
  get idWindow(): number | undefined {
    return this.#idWindow
  }

  /** Server time of the last (re)connect, ms. */
  connectedAt(): number {
    return this.clock.at(this.#connectedAt)
  }

  /** Reads the stream's info, and updates the id window from it. */
  async info(): Promise<StreamInfo> {
    const info = await this.#sources.stream()
    this.#idWindow = idWindowIn(info.config)
    return info
  }

  /** Discards the last measurement, which may come from another server, and starts a new one. */
  reconnected(): void {
    this.#connectedAt = performance.now()
    this.clock.doubt()
    void this.#sync.keep()
  }

  keep(): Promise<void> {
    return this.#sync.keep()
  }

  measure(): Promise<boolean> {
    return this.#sync.measure()
  }

  stop(): void {
    this.#sync.stop()
  }
}
