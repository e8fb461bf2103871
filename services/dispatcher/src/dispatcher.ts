import { type Consumption, closingOnFailure, QuestionLimits, StoreWatch, waitForTime } from '@passover/bus'
import { Health, healthLog, LimitCounters } from '@passover/core'
import { type HealthReport, makeInstance, type PassKey, type Random } from '@passover/schemas'
import type { Context } from './admission/context.js'
import { ParentLookup } from './admission/parent-lookup.js'
import { watchDispatcher } from './health.js'
import { startIntake } from './intake/consume-requests.js'
import { ConsumerProgress } from './intake/consumer-progress.js'
import { BudgetStore } from './limits/budget-store.js'
import { LivePolicy } from './limits/live-policy.js'
import { StorageBackpressure } from './limits/storage-backpressure.js'
import { register } from './registry/register.js'
import { Registry } from './registry/registry.js'
import { SelfChanges } from './registry/update-agent.js'
import { WorkConsumers } from './registry/work-consumers.js'
import type { DispatcherDeps } from './runtime/dependencies.js'
import { type DispatcherOptions, type DispatcherSettings, dispatcherOptions } from './runtime/options.js'
import { noStats, type Stats } from './runtime/stats.js'
import { Timekeeper } from './timekeeper/timekeeper.js'

const DRAIN_MS = 10_000
/** Milliseconds within which the stream and the buckets of a new installation are created. A later bucket is a replacement for a lost one. */
const STARTUP_WINDOW_MS = 60_000

/** A running dispatcher. */
export interface Running extends AsyncDisposable {
  /** Stops taking requests, waits at most `ms` (10 s by default) for requests in progress, and stops the dispatcher. */
  drain(ms?: number): Promise<void>
  /** Resolves when the dispatcher has stopped, including when its connection closed permanently. */
  readonly closed: Promise<void>
  stats(): Stats
  /** Returns the current health report. */
  health(): HealthReport
}

/**
 * Starts admission, registry and timekeeper on a connected bus. The stream and the buckets must exist. Validates the options. When it resolves, the
 * dispatcher takes requests.
 *
 * @throws ZodError if an option is invalid
 */
export async function startDispatcher(deps: DispatcherDeps, settings: DispatcherSettings = {}): Promise<Running> {
  const options = dispatcherOptions.parse(settings)
  const begun: AsyncDisposable[] = []
  return closingOnFailure(begun, () => startParts(deps, options, begun))
}

async function startParts(deps: DispatcherDeps, options: DispatcherOptions, begun: AsyncDisposable[]): Promise<Running> {
  await waitForTime(deps.bus, deps.clock)
  const registry = await Registry.start(deps)
  begun.push(registry)
  const policy = await LivePolicy.start(deps, { fallback: options.policy, refresh_ms: options.policy_ms })
  begun.push(policy)
  const rules = { id_window_ms: options.id_window_ms }
  const parents = new ParentLookup(deps.bus, rules)
  let timekeeper: Timekeeper | undefined
  const counters = new LimitCounters(() => timekeeper?.counts, 2 * options.id_window_ms)
  const backpressure = new StorageBackpressure({ deps, options }, () => (timekeeper?.trouble === undefined ? timekeeper?.open : undefined))
  const asksEarlier = (key: PassKey, sequence: number) => timekeeper?.asksEarlier(key, sequence)
  const shared = {
    deps,
    options,
    rules,
    registry,
    policy,
    parents,
    counters,
    backpressure,
    asksEarlier,
    stats: noStats(),
    nonce: nonceGenerator(deps.random),
  }
  const context: Context = Object.assign(shared, { budgets: await BudgetStore.start(shared) })
  begun.push(asDisposable(context.budgets))
  if (options.timekeeper) {
    timekeeper = await Timekeeper.start(context)
    begun.push(timekeeper)
  } else
    deps.log.info(
      'timekeeper is off; passes with rate or concurrency limits, and unreadable requests, are left to dispatchers that run one',
    )
  const consumers = new WorkConsumers(context, (subagent) => timekeeper?.workStart(subagent))
  consumers.start()
  backpressure.start()
  begun.push(asDisposable(consumers), asDisposable(backpressure))
  const questions = new QuestionLimits()
  const changes = new SelfChanges()
  // An agent that exceeds its limit gets an empty answer and asks again.
  const answer = (name: string, question: unknown) =>
    questions.take(name, () => register({ ...context, changes }, consumers, { name, question }))
  const answering = await deps.bus.answer(answer, 'register')
  begun.push(answering)
  const health = new Health({ process: 'dispatcher', clock: deps.clock, onChange: healthLog(deps.log) })
  const stores = await watchStores(context, health)
  begun.push(asDisposable(stores))
  const onRestored = (what: string) => health.did('admission', what)
  const intake = options.admission ? await startIntake(context, { timekeeper, onRestored }) : undefined
  const progress = new ConsumerProgress(context, (state) => intake?.lookForSkipped(state))
  progress.start()
  watchDispatcher(health, deps, { stores, policy, intake, timekeeper, backpressure, progress })
  health.begin()
  deps.log.info({ registration: options.registration, policy: policy.current().version }, 'dispatcher accepts requests')
  return new RunningDispatcher(context, { intake, answering, consumers, backpressure, timekeeper, stores, progress, health })
}

/** Returns a generator of nonces: the instance prefix makes them unique to this process, the counter to each attempt. */
function nonceGenerator(random: Random): () => string {
  const instance = makeInstance(random)
  let made = 0
  return () => `${instance}${(made++).toString(36)}`
}

function asDisposable(part: { stop(): unknown }): AsyncDisposable {
  return {
    async [Symbol.asyncDispose]() {
      await part.stop()
    },
  }
}

/** Watches the stream and the buckets. The contents of a re-created bucket are restored from the stream, except the budget ledgers (decision 55). */
async function watchStores(context: Context, health: Health): Promise<StoreWatch> {
  const { deps, options, registry, policy, budgets } = context
  const stores = await StoreWatch.start({
    bus: deps.bus,
    clock: deps.clock,
    every_ms: options.stores_ms,
    onMade: (names) => health.did('buckets', `recreated ${names.join(', ')}`),
    async onRenewed(names) {
      if (names.includes('stream')) deps.log.error('the stream was replaced; open passes of the previous stream are lost')
      if (names.includes('agents')) health.did('buckets', `restored ${await registry.rebuild()} agents from their events`)
      if (names.includes('policy')) await policy.refresh()
      if (names.includes('budgets')) budgets.lostBefore(deps.clock.now())
    },
  })
  const [stream = 0, made = 0] = [stores.madeAt('stream'), stores.madeAt('budgets')]
  if (made > stream + STARTUP_WINDOW_MS) budgets.lostBefore(made)
  return stores
}

interface Parts {
  intake: Consumption | undefined
  answering: Consumption
  consumers: WorkConsumers
  backpressure: StorageBackpressure
  timekeeper: Timekeeper | undefined
  stores: StoreWatch
  progress: ConsumerProgress
  health: Health
}

class RunningDispatcher implements Running {
  readonly closed: Promise<void>
  readonly #context: Context
  readonly #parts: Parts
  #draining: Promise<void> | undefined
  #resolveClosed: () => void = () => undefined

  constructor(context: Context, parts: Parts) {
    this.#context = context
    this.#parts = parts
    this.closed = new Promise((resolve) => {
      this.#resolveClosed = resolve
    })
    void context.deps.bus.closed.then(() => this.drain(0))
  }

  drain(ms = DRAIN_MS): Promise<void> {
    this.#draining ??= this.#drain(ms)
    return this.#draining
  }

  stats(): Stats {
    const { timekeeper } = this.#parts
    return { ...this.#context.stats, open: timekeeper?.open ?? 0, position: timekeeper?.position ?? 0 }
  }

  health(): HealthReport {
    return this.#parts.health.report()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.drain()
  }

  async #drain(ms: number): Promise<void> {
    const { intake, answering, consumers, backpressure, timekeeper, stores, progress, health } = this.#parts
    health.stop()
    progress.stop()
    stores.stop()
    backpressure.stop()
    this.#context.budgets.stop()
    const { log, tracing } = this.#context.deps
    try {
      await Promise.all([intake?.drain(ms), answering.drain(ms), consumers.stop()])
      await timekeeper?.drain(ms)
      await this.#context.policy[Symbol.asyncDispose]()
      await this.#context.registry[Symbol.asyncDispose]()
      log.info(this.stats(), 'dispatcher stopped')
    } catch (error) {
      log.warn({ err: error }, 'dispatcher stopped uncleanly')
    }
    await tracing?.[Symbol.asyncDispose]()
    this.#resolveClosed()
  }
}
