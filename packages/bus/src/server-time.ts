import { ClockSync } from './clock/clock-sync.js'
import type { ServerClock } from './clock/server-clock.js'
import { idWindowIn, idWindowTold } from './topology/id-window.js'
import type { StreamInfo } from './topology/stream-info.js'

interface Sources {
  stream: () => Promise<StreamInfo>
  /** The audit's answer, for who may not ask for the stream's info. */
  service: (timeout_ms: number) => Promise<unknown>
}

/** The server's time as one connection knows it, and the id window, which comes with it: whoever tells the one tells the other. */
export class ServerTime {
  readonly clock: ServerClock
  readonly #keeper: ClockSync
  readonly #sources: Sources
  #connectedAt = performance.now()
  #idWindow: number | undefined

  constructor(sources: Sources) {
    this.#sources = sources
    this.#keeper = new ClockSync({
      stream: async () => Date.parse((await this.info()).ts),
      service: async (timeout_ms) => {
        const answer = await sources.service(timeout_ms)
        this.#idWindow = idWindowTold(answer) ?? this.#idWindow
        return answer
      },
    })
    this.clock = this.#keeper.clock
  }

  /** Undefined: the stream says none, or nobody told it yet. */
  get idWindow(): number | undefined {
    return this.#idWindow
  }

  /** Server's time of the last (re)connect. */
  connectedAt(): number {
    return this.clock.at(this.#connectedAt)
  }

  /** The stream's info, whoever wants it: its id window is noted. */
  async info(): Promise<StreamInfo> {
    const info = await this.#sources.stream()
    this.#idWindow = idWindowIn(info.config)
    return info
  }

  /** What was measured before may be another server's. */
  reconnected(): void {
    this.#connectedAt = performance.now()
    this.clock.doubt()
    void this.#keeper.keep()
  }

  keep(): Promise<void> {
    return this.#keeper.keep()
  }

  measure(): Promise<boolean> {
    return this.#keeper.measure()
  }

  stop(): void {
    this.#keeper.stop()
  }
}
