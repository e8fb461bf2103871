import { type Health, healthy } from '@passover/core'
import type { RunningServer, ServerExit } from '@passover/nats-server'

/** Maximum number of restarts within RESTART_WINDOW_MS. The supervisor then gives up, because a person must look at the cause. */
const MAX_RESTARTS = 5
const RESTART_WINDOW_MS = 60_000
const START_ATTEMPTS = 25
const START_RETRY_DELAY_MS = 200

export interface SuperviseOptions {
  server: RunningServer
  /** Starts the server on its previous port. */
  start: () => Promise<RunningServer>
  health: Health
  /** Called with a description of each unexpected end and restart. */
  told: (text: string) => void
}

/** Describes an unexpected exit, like `nats-server exited unexpectedly (SIGKILL)`. */
export function serverExitText({ code, signal }: ServerExit): string {
  return `nats-server exited unexpectedly (${signal ?? `exit code ${code}`})`
}

/** Restarts the server if it ends unexpectedly, with the same port and store, so that clients can reconnect. */
export class SupervisedServer {
  /** Settles with the reason when the supervisor gives up. */
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
      this.#down === undefined ? healthy() : { state: 'recovering', what: `${this.#down}; restarting it` },
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
    if (!server) return this.#giveUp(often ? `${why}, ${MAX_RESTARTS} times within a minute` : `${why} and cannot be restarted`)
    this.#server = server
    this.#down = undefined
    this.#options.health.did('server', `${why}; restarted it`)
    this.#options.told(`${why}; restarted it at ${server.url}`)
    this.#watch()
  }

  /** Retries, because a closing connection may still hold the port. */
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
