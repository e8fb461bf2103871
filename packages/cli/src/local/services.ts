import type { AuditRunning } from '@passover/audit'
import { type Bus, type HealthEndpoint, otherIdWindow } from '@passover/bus'
import type { Health } from '@passover/core'
import type { Running } from '@passover/dispatcher'
import type { RunningServer } from '@passover/nats-server'
import type { Notifier } from '@passover/notifier'
import type { Logger } from 'pino'
import { type ServerFile, writeServerFile } from '../connection/project-directory.js'
import type { SupervisedServer } from './supervised-server.js'

/** Server, dispatcher and audit service in this process. */
export interface LocalInstallation extends AsyncDisposable {
  /** Path of the `.passover` folder. */
  readonly project: string
  readonly url: string
  /** The server that was started here; `undefined` if an external one is used. */
  readonly server: RunningServer | undefined
  /** Settles with the reason if a part ends unexpectedly. */
  readonly failed: Promise<string>
  /** Base URL of the health endpoints `/livez` and `/readyz`. */
  readonly health: string
  /** Stops accepting work, finishes work in progress, then stops. Idempotent. */
  stop(): Promise<void>
}

const DRAIN_MS = 10_000

interface ServiceSet {
  project: string
  url: string
  server: SupervisedServer | undefined
  /** Connection of the dispatcher. */
  bus: Bus
  /** Connections of the services that have their own. */
  others: Bus[]
  isolated: Disposable | undefined
  id_window_ms: number
  audit: AuditRunning
  dispatcher: Running
  notifier: Notifier | undefined
  health: HealthEndpoint
  /** Health of this process itself, apart from its services. */
  own: Health
  log: Logger
  /** Written to the project's server file after the stop: address and credentials of its server. */
  remember: Pick<ServerFile, 'url' | 'user' | 'password'> | undefined
}

/** The started services as one unit: detects when one ends, and stops them in order. */
export class LocalServices implements LocalInstallation {
  readonly failed: Promise<string>
  readonly #parts: ServiceSet
  #stopping: Promise<void> | undefined

  constructor(parts: ServiceSet) {
    this.#parts = parts
    const ended = (what: string) => (this.#stopping ? new Promise<string>(() => {}) : what)
    this.failed = Promise.race([
      ...(parts.server ? [parts.server.failed.then((why) => ended(why))] : []),
      ...[parts.bus, ...parts.others].map((bus) => bus.closed.then(() => ended('the connection to the server was closed'))),
      parts.dispatcher.closed.then(() => ended('the dispatcher stopped')),
      otherIdWindow(parts.bus, parts.id_window_ms).then(() => ended('the id window of the stream was changed')),
    ])
    void this.failed.then((why) => parts.log.error({ part: 'up' }, why))
  }

  get project(): string {
    return this.#parts.project
  }

  get url(): string {
    return this.#parts.url
  }

  get health(): string {
    return this.#parts.health.url
  }

  get server(): RunningServer | undefined {
    return this.#parts.server?.current
  }

  stop(): Promise<void> {
    this.#stopping ??= this.#stop()
    return this.#stopping
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  /** Stops the dispatcher first and the audit service last, so that the audit has seen everything that was done. */
  async #stop(): Promise<void> {
    const { dispatcher, notifier, audit, bus, others, isolated, server, project, remember, log, health, own } = this.#parts
    own.stop()
    await health[Symbol.asyncDispose]()
    await dispatcher.drain(DRAIN_MS)
    await notifier?.drain(DRAIN_MS)
    await audit.drain(DRAIN_MS)
    for (const one of [...others, bus]) await one[Symbol.asyncDispose]()
    isolated?.[Symbol.dispose]()
    await server?.stop()
    if (remember) writeServerFile(project, remember)
    log.flush()
  }
}
