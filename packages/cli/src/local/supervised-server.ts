import { type Health, healthy } from '@passover/core'
import type { RunningServer, ServerExit } from '@passover/nats-server'

/** So many starts within a minute are no accident any more: what ends it must be looked at. */
const MAX_RESTARTS = 5
const RESTART_WINDOW_MS = 60_000
const START_ATTEMPTS = 25
const START_RETRY_DELAY_MS = 200

export interface SuperviseOptions {
  server: RunningServer
  /** Starts it on the port that it had. */
  start: () => Promise<RunningServer>
  health: Health
  /** Told of each end, and what was done. */
  told: (text: string) => void
}

/** `nats-server ended by itself (SIGKILL)` */
export function serverExitText({ code, signal }: ServerExit): string {
  return `nats-server ended by itself (${signal ?? `exit code ${code}`})`
}

/** A server that is started again when it ends by itself, on its port and its store, so that who was connected comes back. */
export class SupervisedServer {
  /** Settles with the reason when it is given up. */
  readonly failed: Promise<string>
  #server: RunningServer
  readonly #options: SuperviseOptions
  readonly #starts: number[] = []
  #down: string | undefined
  #stopping = false
  #starting: Promise<void> | undefined
  #giveUp: (why: string) => void = () => undefined

  constructor(options: SuperviseOptions) {
    this.#options = options
    this.#server = options.server
    this.failed = new Promise((resolve) => {
      this.#giveUp = resolve
    })
    options.health.watch('server', 'needed', () =>
      this.#down === undefined ? healthy() : { state: 'recovering', what: `${this.#down}; it is started again` },
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
      if (!this.#stopping) this.#starting = this.#again(serverExitText(exit))
    })
  }

  async #again(why: string): Promise<void> {
    this.#down = why
    const now = performance.now()
    this.#starts.push(now)
    const often = this.#starts.filter((at) => now - at < RESTART_WINDOW_MS).length > MAX_RESTARTS
    const server = often ? undefined : await this.#start()
    if (!server) return this.#giveUp(often ? `${why}, and did so ${MAX_RESTARTS} times within a minute` : `${why} and cannot be started`)
    this.#server = server
    this.#down = undefined
    this.#options.health.did('server', `${why}; started it again`)
    this.#options.told(`${why}; started it again at ${server.url}`)
    this.#watch()
  }

  /** Its port may be taken for a moment by a connection that is closing. */
  async #start(): Promise<RunningServer | undefined> {
    for (let tries = 1; tries <= START_ATTEMPTS && !this.#stopping; tries++) {
      try {
        return await this.#options.start()
      } catch (error) {
        this.#down = error instanceof Error ? error.message : String(error)
        await new Promise<void>((done) => setTimeout(done, START_RETRY_DELAY_MS))
      }
    }
    return undefined
  }
}
