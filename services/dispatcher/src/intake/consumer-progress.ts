import { type ConsumerStanding, DECISIONS, DISPATCHER } from '@passover/bus'
import type { BaseContext } from '../runtime/base-context.js'

/** Milliseconds after which a consumer that has pending messages and delivers none counts as stalled. */
const STALLED_MS = 15_000

interface Seen {
  delivered: number
  since: number
}

/**
 * Checks the dispatchers' own durable consumers periodically. A client with the right to configure consumers can pause one, and then requests wait
 * although every process is connected.
 */
export class ConsumerProgress {
  readonly #context: Pick<BaseContext, 'deps' | 'options'>
  readonly #onRequests: (standing: ConsumerStanding) => void
  readonly #seen = new Map<string, Seen>()
  readonly #troubles = new Map<string, string>()
  #timer: Disposable | undefined
  #stopped = false

  /** Creates the checker. `onRequests` receives each state of the request consumer. */
  constructor(context: Pick<BaseContext, 'deps' | 'options'>, onRequests: (standing: ConsumerStanding) => void) {
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
      void Promise.all([DISPATCHER, DECISIONS].map((durable) => this.#look(durable)))
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

  async #look(durable: string): Promise<void> {
    const { bus, clock } = this.#context.deps
    const standing = await bus.consumer(durable)
    if (standing && durable === DISPATCHER) this.#onRequests(standing)
    const now = clock.monotonic()
    const seen = this.#seen.get(durable)
    if (!standing || !seen || standing.pending === 0 || standing.delivered !== seen.delivered)
      this.#seen.set(durable, { delivered: standing?.delivered ?? 0, since: now })
    const stalled = now - (this.#seen.get(durable)?.since ?? now)
    const resume = `nats consumer resume ${bus.subjects.stream} ${durable}`
    if (standing?.paused) this.#troubles.set(durable, `the consumer ${durable} is paused: ${resume}`)
    else if (stalled >= STALLED_MS)
      this.#troubles.set(
        durable,
        `the consumer ${durable} delivered nothing for ${Math.round(stalled / 1_000)} s, although ${standing?.pending ?? 0} messages are pending`,
      )
    else this.#troubles.delete(durable)
  }
}
