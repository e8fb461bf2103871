import type { Bus } from '@passover/bus'
import { type Clock, Health, healthLog, printableJson, type Tracing, tellReconnects, unhealthyIf, watchConnection } from '@passover/core'
import type { HealthReport } from '@passover/schemas'
import type { Hono } from 'hono'
import type { Logger } from 'pino'
import { type Caller, isStillAuthorized, SCOPES, type Tokens } from '../auth/caller.js'
import { type ConnectAs, ConnectionPool } from '../auth/connection-pool.js'
import { Feeds } from '../feeds/feeds.js'
import { Metrics } from '../metrics.js'
import { type GatewaySettings, gatewayOptions } from '../options.js'
import type { HandlerContext } from '../route.js'
import { createApp } from './app.js'
import { isLoopbackName, type Listening, listen } from './listen.js'
import { openApiDocument } from './openapi-document.js'

export interface GatewayDeps {
  /** Connection as the identity `passover`. */
  bus: Bus
  clock: Clock
  log: Logger
  /** Opens connections under the names of token owners. */
  connect: ConnectAs
  tokens: Tokens
  /** The person as whom requests without a token may read, on this machine only, as long as no token was ever created. */
  open_to?: string | undefined
  /** Traces the requests of passes that are created here. */
  tracing?: Tracing | undefined
}

/** A running gateway. */
export interface Gateway extends AsyncDisposable {
  /** Handles requests without a socket: for tests, and for embedding in another server. */
  readonly app: Hono
  health(): HealthReport
  /** Starts to listen. Throws PortTakenError, ListenError or NeedsTokensError. */
  listen(): Promise<Listening>
}

/** The gateway would be reachable from other machines, but has no tokens to authenticate callers. */
export class NeedsTokensError extends Error {}

const AUDIT_CHECK_INTERVAL_MS = 5_000

export function startGateway(deps: GatewayDeps, settings: GatewaySettings = {}): Gateway {
  return new RunningGateway(deps, settings)
}

class RunningGateway implements Gateway {
  readonly app: Hono
  readonly #inside: HandlerContext
  readonly #deps: GatewayDeps
  readonly #health: Health
  #listening: Listening | undefined
  #audit: string | undefined
  #looking: Disposable | undefined
  #stopping: Promise<void> | undefined

  constructor(deps: GatewayDeps, settings: GatewaySettings) {
    const { bus, clock, log } = deps
    const options = gatewayOptions.parse(settings)
    this.#deps = deps
    this.#health = new Health({ process: 'gateway', clock, onChange: healthLog(log) })
    watchConnection(this.#health, bus)
    tellReconnects(this.#health, bus)
    this.#health.watch('audit', 'needed', () => unhealthyIf(this.#audit))
    const pool = new ConnectionPool(deps.connect, clock, { ...options, tracing: deps.tracing })
    const open = openCaller(deps, options.host)
    const feeds = new Feeds(options, (caller) => isStillAuthorized(caller, deps.tokens, open))
    const metrics = new Metrics(bus, () => ({ feeds: feeds.size, identities: pool.size }))
    const document = `${printableJson(openApiDocument())}\n`
    this.#inside = { bus, clock, log, options, pool, feeds, metrics, health: () => this.#health.report(), document: () => document }
    this.app = createApp({ inside: this.#inside, tokens: deps.tokens, open })
    this.#health.begin()
    void this.#look()
  }

  health(): HealthReport {
    return this.#health.report()
  }

  async listen(): Promise<Listening> {
    const { host, port } = this.#inside.options
    if (!isLoopbackName(host) && !(await this.#deps.tokens.any())) throw new NeedsTokensError(host)
    this.#listening = await listen(this.app, { host, port })
    this.#deps.log.info({ url: this.#listening.url }, 'gateway started')
    return this.#listening
  }

  /** Checks that an audit service answers; without one the gateway cannot answer queries. */
  async #look(): Promise<void> {
    const answer = await this.#deps.bus.ask({ op: 'time' }).catch(() => undefined)
    this.#audit = answer === undefined ? 'no audit service answers' : undefined
    if (!this.#stopping) this.#looking = this.#deps.clock.after(AUDIT_CHECK_INTERVAL_MS, () => void this.#look())
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#stopping ??= this.#stop()
    return this.#stopping
  }

  /** Closes feeds first, so that their readers reconnect elsewhere, then lets requests in progress finish. */
  async #stop(): Promise<void> {
    this.#health.stop()
    this.#looking?.[Symbol.dispose]()
    await this.#inside.feeds.close()
    await this.#listening?.[Symbol.asyncDispose]()
    await this.#inside.pool[Symbol.asyncDispose]()
  }
}

/** Returns the caller for requests without a token. It may only read, because any local process can reach the loopback address. */
function openCaller({ open_to }: GatewayDeps, host: string): Caller | undefined {
  if (open_to === undefined || !isLoopbackName(host)) return undefined
  const [read] = SCOPES
  return { name: open_to, kind: 'person', scopes: [read], token: 'open' }
}
