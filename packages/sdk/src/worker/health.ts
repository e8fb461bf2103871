import type { Bus } from '@passover/bus'
import { Health, type HealthChange, unhealthyIf, watchConnection } from '@passover/core'
import type { HealthReport } from '@passover/schemas'
import { serversText, type WorkerLogger } from '../attempt/worker-events.js'
import type { Deps } from '../runtime/dependencies.js'
import type { Heartbeat } from './heartbeat.js'
import { RegistrationCheck } from './registration-check.js'

interface Watched {
  deps: Deps
  logger: WorkerLogger
  heartbeat: Heartbeat
  /** Returns the reason why no work can be taken now. */
  trouble: () => string | undefined
}

const DENIED: Record<NonNullable<Bus['denied']>, (agent: string) => string> = {
  revoked: (agent) => `credentials of agent ${agent} were revoked. To give it access again: passover auth add agent ${agent}`,
  expired: (agent) => `credentials of agent ${agent} have expired. To renew them: passover auth rotate ${agent}`,
  refused: (agent) =>
    `the server refuses the credentials of agent ${agent}: they were revoked or rotated, or belong to another installation`,
}

/** Tracks the health of a worker and logs its changes: waiting for work, server lost, server found again. */
export class WorkerHealth {
  readonly #watched: Watched
  readonly #health: Health
  readonly #registration: RegistrationCheck
  #lost = false
  /** True if it was logged that the server refuses the credentials. */
  #denied = false

  constructor(watched: Watched) {
    const { deps, heartbeat, trouble } = watched
    this.#watched = watched
    this.#registration = new RegistrationCheck(deps)
    this.#health = new Health({ process: 'worker', clock: deps.clock, onChange: (change) => this.#changed(change) })
    watchConnection(this.#health, deps.bus, 'told')
    this.#health.watch('consumers', 'needed', () => unhealthyIf(trouble() ?? (deps.bus.connected ? undefined : 'no work can be received')))
    this.#health.watch('registered', 'needed', () => this.#registration.finding)
    this.#health.watch('presence', 'told', () => unhealthyIf(heartbeat.trouble))
  }

  report(): HealthReport {
    return this.#health.report()
  }

  begin(concurrency: number): void {
    this.#health.begin()
    this.#registration.begin()
    this.#log('waits', `is waiting for work (up to ${concurrency} at a time)`)
  }

  stop(): void {
    this.#health.stop()
    this.#registration.stop()
  }

  /** Checks the connection. Logs a change once. */
  noticeServer(): void {
    const { connected, denied, identity } = this.#watched.deps.bus
    if (connected) this.#denied = false
    else if (this.#lost && denied !== undefined && !this.#denied) {
      this.#denied = true
      this.#log('health', `has stopped working: ${DENIED[denied](identity)}`)
    }
    if (connected !== this.#lost) return
    this.#lost = !connected
    this.#log(this.#lost ? 'lost' : 'found', this.#lost ? 'lost the connection to the server' : 'reconnected to the server')
  }

  /** Logs a change of health. Losing the server and a failing heartbeat have their own log entries. */
  #changed({ check: { name, weight, state, what } }: HealthChange): void {
    this.noticeServer()
    if (weight === 'told' || this.#lost) return
    this.#log('health', `is ${state === 'ok' ? 'healthy again' : 'unhealthy'}: ${name}: ${what}`.trimEnd())
  }

  #log(kind: 'waits' | 'lost' | 'found' | 'health', what: string): void {
    const { deps, logger } = this.#watched
    const { servers = [] } = deps
    // A health text may end with an instruction, so "at <address>" must not follow it.
    const where = kind === 'health' ? ` (${serversText(servers)})` : ` at ${serversText(servers)}`
    logger({ kind, text: `${deps.bus.identity} ${what}${servers.length > 0 ? where : ''}` })
  }
}
