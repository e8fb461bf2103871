import { type ConsumerState, DECISIONS, DISPATCHER } from '@passover/bus'
import type { BaseContext } from '../runtime/base-context.js'

/** Milliseconds after which a consumer that has pending messages and delivers none counts as stalled. */
const STALLED_MS = 15_000

interface Observation {
  delivered: number
  since: number
}

/**
 * Checks the dispatchers' own durable consumers periodically. A client with the right to configure consumers can pause one, and then requests wait
 * although every process is connected.
 */
export class ConsumerProgress {
  readonly #context: Pick<BaseContext, 'deps' | 'options'>
  readonly #onRequests: (state: ConsumerState) => void
  readonly #observations = new Map<string, Observation>()
  readonly #troubles = new Map<string, string>()
  #timer: Disposable | undefined
  #stopped = false

  /** Creates the checker. `onRequests` receives each state of the request consumer. */
  constructor(context: Pick<BaseContext, 'deps' | 'options'>, onRequests: (state: ConsumerState) => void) {
    this.#context = context
    this.#onRequests = onRequests
  }

  /** Describes the consumers that deliver nothing; `undefined` if there are none. */
  get trouble(): string | undefined {
    return this.#troubles.size > 0 ? [...this.#troubles.values()].join('; ') : undefined
  }

  start(): void {
    this.#timer = this.#context.deps.clock.after(this.#context.options.stores_ms, () => {
      // Ignored here: other health checks report a server that does not answer.
      void Promise.all([DISPATCHER, DECISIONS].map((durable) => this.#check(durable)))
        .catch(() => undefined)
        .finally(() => {
          if (!this.#stopped) this.start()
        })
    })
  }

  stop(): void {
    this.#stopped = true
    this.#timer?.[Symbol.dispose]()
  }

  async #check(durable: string): Promise<void> {
    const { bus, clock } = this.#context.deps
    const state = await bus.consumer(durable)
    if (state && durable === DISPATCHER) this.#onRequests(state)
    const now = clock.monotonic()
    const before = this.#observations.get(durable)
    if (!state || !before || state.pending === 0 || state.delivered !== before.delivered)
      this.#observations.set(durable, { delivered: state?.delivered ?? 0, since: now })
    const stalled = now - (this.#observations.get(durable)?.since ?? now)
    const resume = `nats consumer resume ${bus.subjects.stream} ${durable}`
    if (state?.paused) this.#troubles.set(durable, `the consumer ${durable} is paused: ${resume}`)
    else if (stalled >= STALLED_MS)
      this.#troubles.set(
        durable,
        `the consumer ${durable} delivered nothing for ${Math.round(stalled / 1_000)} s, although ${state?.pending ?? 0} messages are pending`,
      )
    else this.#troubles.delete(durable)
  }
}
