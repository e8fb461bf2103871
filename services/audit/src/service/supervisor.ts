import { ARCHIVE_BUCKET } from '@passover/archive'
import { StoreWatch } from '@passover/bus'
import { type Finding, Health, healthLog, healthy, tellReconnects, unhealthyIf, watchConnection, watchStorage } from '@passover/core'
import type { HealthReport } from '@passover/schemas'
import type { Registry } from 'prom-client'
import { ACKNOWLEDGED_BUCKET } from '../acknowledgments/ack-index.js'
import { forgetLostSegments } from '../archive/archiver.js'
import { INBOX_BUCKET } from '../inbox/inbox.js'
import { PASSES_BUCKET } from '../records/record-store.js'
import type { AuditStats } from './metrics.js'
import { hasPeople } from './open-queries.js'
import { type AuditOptions, type AuditSettings, auditOptions } from './options.js'
import type { AuditDeps } from './parts.js'
import type { AuditRunning, RunningAudit } from './running-audit.js'
import { beginAudit } from './start-audit.js'

const DRAIN_MS = 10_000
const RETRY_DELAY_MS = 1_000
const NO_PEOPLE = 'it was started without people (PASSOVER_PEOPLE): lists and inboxes are empty for every person'
/** Stores that projection and archive are built on. If one of them is replaced, everything is rebuilt. */
const ARCHIVE_STORES = [ARCHIVE_BUCKET, `objects ${ARCHIVE_BUCKET}`]
const REQUIRED_STORES = ['stream', PASSES_BUCKET, INBOX_BUCKET, ACKNOWLEDGED_BUCKET, ...ARCHIVE_STORES]

/**
 * Starts reading, projecting, archiving and answering. If a bucket is lost while the audit runs, the bucket is created again and its contents are
 * rebuilt from the stream, as at a new start.
 *
 * @throws Error if the archive belongs to another stream, or a bucket does not exist
 */
export async function startAudit(deps: AuditDeps, settings: AuditSettings = {}): Promise<AuditRunning> {
  const options = auditOptions.parse(settings)
  const health = new Health({ process: 'audit', clock: deps.clock, onChange: healthLog(deps.log) })
  const withHealth: AuditDeps = { ...deps, trouble: () => health.troubles() }
  const audit = new AuditSupervisor(withHealth, options, { inner: await beginAudit(withHealth, options), health })
  await audit.watch()
  return audit
}

class AuditSupervisor implements AuditRunning {
  readonly #deps: AuditDeps
  readonly #options: AuditOptions
  readonly closed: Promise<void>
  readonly #health_: Health
  #inner: RunningAudit | undefined
  #stores: StoreWatch | undefined
  #last: AuditStats
  #resolveClosed: () => void = () => undefined
  #draining: Promise<void> | undefined
  #restarting: Promise<void> | undefined
  /** Reason why the audit does not run at the moment. */
  #trouble: string | undefined
  readonly #renewed = new Set<string>()
  /** Description of a stream rollback that the audit has not restarted for yet. */
  #lost: string | undefined

  constructor(deps: AuditDeps, options: AuditOptions, { inner, health }: { inner: RunningAudit; health: Health }) {
    this.#deps = deps
    this.#options = options
    this.#health_ = health
    this.#last = inner.stats()
    this.closed = new Promise((resolve) => {
      this.#resolveClosed = resolve
    })
    this.#take(inner)
  }

  async watch(): Promise<void> {
    const health = this.#health_
    const deps = this.#deps
    const options = this.#options
    const stores = await StoreWatch.start({
      bus: deps.bus,
      clock: deps.clock,
      every_ms: options.stores_ms,
      onMade: (names) => health.did('buckets', `recreated ${names.join(', ')}`),
      onRenewed: (names) => this.#onRenewed(names),
    })
    this.#stores = stores
    watchConnection(health, deps.bus)
    tellReconnects(health, deps.bus)
    health.watch('stream', 'needed', () => missingStream(stores.streamTrouble))
    health.watch('buckets', 'needed', () => unhealthyIf(stores.bucketTrouble))
    watchStorage(health, deps.bus)
    health.watch('reading', 'needed', () => unhealthyIf(this.#trouble ?? this.#inner?.trouble))
    health.watch('answers', 'needed', () => unhealthyIf(this.#inner?.answerTrouble))
    const withoutPeople = options.answers && !hasPeople(deps, options) ? NO_PEOPLE : undefined
    health.watch('people', 'told', () => unhealthyIf(withoutPeople))
    health.watch('inbox', 'told', () => unhealthyIf(this.#inner?.inboxTrouble))
    health.watch('archive', 'told', () => unhealthyIf(this.#inner?.archiveTrouble))
    health.begin()
  }

  health(): HealthReport {
    return this.#health_.report()
  }

  metrics(): Registry[] {
    return this.#inner?.metrics() ?? []
  }

  stats(): AuditStats {
    if (this.#inner) this.#last = this.#inner.stats()
    return this.#last
  }

  async settled(): Promise<void> {
    await this.#restarting
    await this.#inner?.settled()
  }

  drain(ms = DRAIN_MS): Promise<void> {
    this.#draining ??= this.#stop(ms)
    return this.#draining
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.drain()
  }

  async #stop(ms: number): Promise<void> {
    this.#health_.stop()
    this.#stores?.stop()
    await this.#restarting
    await this.#inner?.drain(ms)
    await this.#deps.schemas?.[Symbol.asyncDispose]()
    this.#resolveClosed()
  }

  #take(inner: RunningAudit): void {
    this.#inner = inner
    void inner.closed.then(() => {
      if (this.#inner === inner) void this.drain(0)
    })
    void inner.rolledBack.then((what) => this.#onRollback(inner, what))
  }

  /** Restarts the audit after a stream rollback, as if the stream were a new one: the current state is built on messages that no longer exist. */
  #onRollback(inner: RunningAudit, what: string): void {
    if (this.#inner !== inner) return
    this.#deps.log.error({ what }, 'stream rolled back; restarting audit from the beginning')
    this.#lost = what
    this.#onRenewed(['stream'])
  }

  #onRenewed(names: readonly string[]): void {
    for (const name of names) if (REQUIRED_STORES.includes(name)) this.#renewed.add(name)
    if (this.#renewed.size === 0 || this.#draining) return
    this.#restarting ??= this.#restart().finally(() => {
      this.#restarting = undefined
      // Handles a loss that was reported just as the restart finished.
      this.#onRenewed([])
    })
  }

  /** Restarts the audit after a store was replaced, and rebuilds everything from what the stream holds. */
  async #restart(): Promise<void> {
    const inner = this.#inner
    const deps = this.#deps
    this.#trouble = 'it is restarting from the beginning: buckets or messages that it needs were lost'
    this.#inner = undefined
    await inner?.drain(RETRY_DELAY_MS)
    while (!this.#draining) {
      const renewed = [...this.#renewed]
      this.#renewed.clear()
      try {
        if (renewed.some((name) => ARCHIVE_STORES.includes(name))) await forgetLostSegments(deps.bus)
        const begun = await beginAudit(deps, this.#options, { rebuild: renewed.length > 0 })
        this.#take(begun)
        this.#health_.did('reading', `restarted from the beginning: ${this.#lost ?? `recreated by another process: ${renewed.join(', ')}`}`)
        this.#lost = undefined
        if (this.#renewed.size === 0) {
          this.#trouble = undefined
          return
        }
        // Another store was lost during the restart.
        this.#inner = undefined
        await begun.drain(RETRY_DELAY_MS)
      } catch (error) {
        for (const name of renewed) this.#renewed.add(name)
        this.#trouble = error instanceof Error ? error.message : String(error)
        deps.log.error({ err: error }, 'audit cannot restart yet')
        await new Promise<void>((done) => deps.clock.after(RETRY_DELAY_MS, done))
      }
    }
  }
}

/** Reports a missing stream as failed. A restart does not help: at most it would create a new, empty stream (decision 55). */
function missingStream(trouble: string | undefined): Finding {
  return trouble === undefined ? healthy() : { state: 'failed', what: trouble, restart_helps: false }
}
