import { fine, type Health } from '@passover/core'
import type { RunningServer, ServerExit } from '@passover/nats-server'

/** So many starts within a minute are no accident any more: what ends it must be looked at. */
const MOST_STARTS = 5
const WITHIN_MS = 60_000
const TRIES = 25
const AGAIN_MS = 200

export interface KeepOptions {
  server: RunningServer
  /** Starts it on the port that it had. */
  start: () => Promise<RunningServer>
  health: Health
  /** Told of each end, and what was done. */
  told: (text: string) => void
}

/** `nats-server ended by itself (SIGKILL)` */
export function serverEnd({ code, signal }: ServerExit): string {
  return `nats-server ended by itself (${signal ?? `exit code ${code}`})`
}

/** A server that is started again when it ends by itself, on its port and its store, so that who was connected comes back. */
export class KeptServer {
  /** Settles with the reason when it is given up. */
  readonly failed: Promise<string>
  #server: RunningServer
  readonly #options: KeepOptions
  readonly #starts: number[] = []
  #down: string | undefined
  #stopping = false
  #starting: Promise<void> | undefined
  #giveUp: (why: string) => void = () => undefined

  constructor(options: KeepOptions) {
    this.#options = options
    this.#server = options.server
    this.failed = new Promise((resolve) => {
      this.#giveUp = resolve
    })
    options.health.watch('server', 'needed', () =>
      this.#down === undefined ? fine() : { state: 'recovering', what: `${this.#down}; it is started again` },
    )
    this.#watch()
  }

  get current(): RunningServer {
    return this.#server
  }

  async stop(): Promise<void> {
    this.#stopping = true
    await this.#starting
    await this.#server.stop()
  }

  #watch(): void {
    void this.#server.exited.then((exit) => {
      if (!this.#stopping) this.#starting = this.#again(serverEnd(exit))
    })
  }

  async #again(why: string): Promise<void> {
    this.#down = why
    const now = performance.now()
    this.#starts.push(now)
    const often = this.#starts.filter((at) => now - at < WITHIN_MS).length > MOST_STARTS
    const server = often ? undefined : await this.#start()
    if (!server) return this.#giveUp(often ? `${why}, and did so ${MOST_STARTS} times within a minute` : `${why} and cannot be started`)
    this.#server = server
    this.#down = undefined
    this.#options.health.did('server', `${why}; started it again`)
    this.#options.told(`${why}; started it again at ${server.url}`)
    this.#watch()
  }

  /** Its port may be taken for a moment by a connection that is closing. */
  async #start(): Promise<RunningServer | undefined> {
    for (let tries = 1; tries <= TRIES && !this.#stopping; tries++) {
      try {
        return await this.#options.start()
      } catch (error) {
        this.#down = error instanceof Error ? error.message : String(error)
        await new Promise<void>((done) => setTimeout(done, AGAIN_MS))
      }
    }
    return undefined
  }
}
