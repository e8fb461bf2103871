import type { Consumption } from '@passover/bus'
import { Counting } from '@passover/core'
import { startAdmission } from './admission.js'
import { Budgets } from './budgets.js'
import type { Context } from './context.js'
import type { DispatcherDeps } from './deps.js'
import { LivePolicy } from './live-policy.js'
import { nonces } from './nonce.js'
import { type DispatcherSettings, dispatcherOptions } from './options.js'
import { Parents } from './parent.js'
import { register } from './register.js'
import { Registry } from './registry.js'
import { noStats, type Stats } from './stats.js'
import { Timekeeper } from './timekeeper.js'
import { WaterMark } from './water.js'
import { WorkConsumers } from './work-consumers.js'

const DRAIN_MS = 10_000

/** A dispatcher that runs. */
export interface Running extends AsyncDisposable {
  /** Takes no more requests, finishes what is under way (for at most `ms`), and stops. */
  drain(ms?: number): Promise<void>
  /** Settles when it has stopped, also because its connection closed for good. */
  readonly closed: Promise<void>
  stats(): Stats
}

/**
 * Starts admission, registry and timekeeper on a connected bus whose topology exists. Options are validated here, once
 * (throws ZodError); when it resolves, requests are being taken.
 */
export async function startDispatcher(deps: DispatcherDeps, settings: DispatcherSettings = {}): Promise<Running> {
  const options = dispatcherOptions.parse(settings)
  const registry = await Registry.start(deps)
  const policy = await LivePolicy.start(deps, { fallback: options.policy, refresh_ms: options.policy_ms })
  const rules = { id_window_ms: options.id_window_ms }
  const parents = new Parents(deps.bus, rules)
  let timekeeper: Timekeeper | undefined
  const counting = new Counting(() => timekeeper?.counts, 2 * options.id_window_ms)
  const shared = { deps, options, rules, registry, policy, parents, counting, stats: noStats(), nonce: nonces(deps.random) }
  const context: Context = Object.assign(shared, { budgets: await Budgets.start(shared) })
  if (options.timekeeper) timekeeper = await Timekeeper.start(context)
  else deps.log.info('keeps no time: passes under a rate or a number of active ones are left to dispatchers that do')
  const consumers = new WorkConsumers(context, (subagent) => timekeeper?.workStart(subagent))
  consumers.start()
  const water = new WaterMark(context)
  water.start()
  const answering = await deps.bus.answer((name, question) => register(context, consumers, { name, question }), 'register')
  const admission = options.admission ? await startAdmission(context) : undefined
  deps.log.info({ registration: options.registration, policy: policy.current().version }, 'dispatcher takes requests')
  return new RunningDispatcher(context, { admission, answering, consumers, water, timekeeper })
}

interface Parts {
  admission: Consumption | undefined
  answering: Consumption
  consumers: WorkConsumers
  water: WaterMark
  timekeeper: Timekeeper | undefined
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

  async [Symbol.asyncDispose](): Promise<void> {
    await this.drain()
  }

  async #drain(ms: number): Promise<void> {
    const { admission, answering, consumers, water, timekeeper } = this.#parts
    water.stop()
    this.#context.budgets.stop()
    const { log } = this.#context.deps
    try {
      await Promise.all([admission?.drain(ms), answering.drain(ms), consumers.stop()])
      await timekeeper?.drain(ms)
      await this.#context.policy[Symbol.asyncDispose]()
      await this.#context.registry[Symbol.asyncDispose]()
      log.info(this.stats(), 'dispatcher stopped')
    } catch (error) {
      log.warn({ err: error }, 'dispatcher stopped uncleanly')
    }
    this.#resolveClosed()
  }
}
