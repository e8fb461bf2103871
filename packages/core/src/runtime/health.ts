import type { HealthCheck, HealthReport } from '@passover/schemas'
import { cut } from '../text/index.js'
import type { Clock } from './clock.js'

/** Result of a check. `recovering`: it recovers without a restart, or another part must be repaired; a restart would not help. */
export type Finding =
  | { state: 'ok'; what?: string }
  | { state: 'recovering'; what: string }
  | { state: 'failed'; what: string; restart_helps: boolean }

export interface HealthChange {
  check: HealthCheck
  was: HealthCheck['state'] | undefined
}

export interface HealthOptions {
  process: string
  clock: Clock
  /** Called once for each change of a check's state, and for each action taken about a check. */
  onChange: (change: HealthChange) => void
}

const INTERVAL_MS = 500
const MAX_TEXT = 1_024
const OK: Finding = { state: 'ok' }

interface Log {
  info(fields: object, text: string): void
  warn(fields: object, text: string): void
  error(fields: object, text: string): void
}

/** Returns a listener that logs one line per change and per action. */
export function healthLog(log: Log): HealthOptions['onChange'] {
  return ({ check, was }) => {
    const { name, state, what, since, did } = check
    const fields = { check: name, state, ...(was !== undefined && { was }), since: new Date(since).toISOString() }
    if (was === state) log.warn({ ...fields, did: did?.what, times: did?.times }, 'health check repaired something')
    else if (state === 'ok') log.info(fields, 'health check recovered')
    else log[state === 'failed' ? 'error' : 'warn']({ ...fields, what }, 'health check failed')
  }
}

/** Returns the result of a check that found no problem. */
export function healthy(what?: string): Finding {
  return what === undefined ? OK : { state: 'ok', what }
}

/** Returns the result of a check. `trouble` is `undefined` if there is no problem. */
export function unhealthyIf(trouble: string | undefined): Finding {
  return trouble === undefined ? OK : { state: 'recovering', what: trouble }
}

/**
 * Health of a process, as named checks that inspect the state each time they are called, so that no part has to withdraw an old report. Live as long
 * as no check says that a restart would help; ready while every needed check is ok.
 */
export class Health {
  readonly #options: HealthOptions
  readonly #checks = new Map<string, { look: () => Finding; check: HealthCheck; seen: boolean }>()
  #timer: Disposable | undefined
  #stopped = false

  constructor(options: HealthOptions) {
    this.#options = options
  }

  watch(name: string, weight: HealthCheck['weight'], look: () => Finding): void {
    const check: HealthCheck = { name, weight, state: 'ok', since: this.#now(), what: '', restart_helps: false }
    this.#checks.set(name, { look, check, seen: false })
  }

  /** Records an action taken about a check. Later reports of the check include it. */
  did(name: string, what: string): void {
    const known = this.#checks.get(name)
    if (!known) return
    const times = (known.check.did?.times ?? 0) + 1
    known.check = { ...known.check, did: { what: short(what), at: this.#now(), times } }
    this.#options.onChange({ check: known.check, was: known.check.state })
  }

  report(): HealthReport {
    this.#look()
    const checks = [...this.#checks.values()].map(({ check }) => check)
    return { v: 1, process: this.#options.process, ...verdict(checks), checks }
  }

  /** Returns the checks that are not ok, one line each. */
  troubles(): string[] {
    return this.report().checks.flatMap(({ name, state, what }) => (state === 'ok' ? [] : [`${name}: ${what}`]))
  }

  /** Runs the checks periodically, so that changes are logged even if no one requests a report. */
  begin(): void {
    if (this.#stopped) return
    this.#look()
    this.#timer = this.#options.clock.after(INTERVAL_MS, () => this.begin())
  }

  stop(): void {
    this.#stopped = true
    this.#timer?.[Symbol.dispose]()
  }

  #now(): number {
    return this.#options.clock.now()
  }

  #look(): void {
    for (const known of this.#checks.values()) {
      const found = looked(known.look)
      const { check, seen } = known
      const what = short(found.what ?? '')
      const restart_helps = found.state === 'failed' && found.restart_helps
      const changed = found.state !== check.state
      known.seen = true
      if (!changed && what === check.what) continue
      known.check = { ...check, state: found.state, what, restart_helps, since: changed ? this.#now() : check.since }
      if (changed) this.#options.onChange({ check: known.check, was: seen ? check.state : undefined })
    }
  }
}

function looked(look: () => Finding): Finding {
  try {
    return look()
  } catch (error) {
    return { state: 'failed', what: `cannot be checked: ${error instanceof Error ? error.message : String(error)}`, restart_helps: true }
  }
}

function short(text: string): string {
  return cut(text, MAX_TEXT)
}

function verdict(checks: readonly HealthCheck[]): Pick<HealthReport, 'live' | 'ready'> {
  return {
    live: checks.every(({ restart_helps }) => !restart_helps),
    ready: checks.every(({ state, weight }) => state === 'ok' || weight === 'told'),
  }
}

/** Joins the reports of several parts in one process. Names of checks are prefixed with the name of their part. */
export function joinReports(process: string, reports: readonly HealthReport[]): HealthReport {
  const checks = reports.flatMap((report) => report.checks.map((check) => ({ ...check, name: `${report.process}.${check.name}` })))
  return { v: 1, process, ...verdict(checks), checks }
}

interface Connected {
  readonly connected: boolean
  readonly clockMeasured: boolean
  /** Reason why the server rejects the credentials. `undefined` if it does not. */
  readonly denied?: 'revoked' | 'expired' | 'refused' | undefined
}

/**
 * Adds the checks that every connected process needs: the connection, and the server's time. Without the time, originators and workers are only
 * slower.
 */
export function watchConnection(health: Health, bus: Connected, clock: HealthCheck['weight'] = 'needed'): void {
  health.watch('connection', 'needed', () => unhealthyIf(bus.connected ? undefined : unconnected(bus)))
  health.watch('clock', clock, () =>
    unhealthyIf(bus.clockMeasured ? undefined : 'the server’s clock has not been measured since the last connect'),
  )
}

function unconnected({ denied }: Connected): string {
  if (denied === undefined) return 'the server cannot be reached; reconnecting'
  return `the server refuses its credentials${denied === 'refused' ? '' : `, which ${denied === 'revoked' ? 'were revoked' : 'have expired'}`}`
}

/** Adds a check that fails while the server rejects all writes: running work then cannot return. */
export function watchStorage(health: Health, bus: { readonly refusing: string | undefined }): void {
  health.watch('storage', 'needed', () => unhealthyIf(bus.refusing))
}

/** Records reconnects, for processes that live as long as their connection: reports show them even if no check ran while the connection was lost. */
export function tellReconnects(health: Health, bus: { onReconnect(listener: () => void): unknown }): void {
  bus.onReconnect(() => health.did('connection', 'reconnected'))
}
