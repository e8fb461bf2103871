import { type Bus, BusUnreachable, nodeRandom, serverClock } from '@passover/bus'
import type { Clock, Tracing } from '@passover/core'
import type { Agent } from '@passover/sdk'
import { createAgent } from '@passover/sdk/internal'
import { outputSchemas } from '@passover/validation'
import { createProblem, HttpProblem } from '../http/problem.js'

/** Connects under a name with the credentials of that name; `undefined` if there are none. */
export type ConnectAs = (name: string) => Promise<Bus> | undefined

interface PooledConnection {
  bus: Promise<Bus>
  agent?: Promise<Agent>
  users: number
  idle_since: number
  /** True once the connection is closed for good. */
  closed: boolean
}

/** A connection of a token's owner, in use until `release` is called. */
export interface HeldConnection {
  bus: Bus
  /** Releases the connection; further calls have no effect. */
  release: () => void
  /** True if the server refuses the owner's credentials, or the connection was closed for good. */
  lost: () => boolean
}

/**
 * Pool of connections under the names of token owners, with their own credentials, opened on demand and closed when idle. So the server refuses the
 * gateway what it would refuse the owner (decision 77).
 */
export class ConnectionPool implements AsyncDisposable {
  readonly #connect: ConnectAs
  readonly #clock: Clock
  readonly #limits: { idle_ms: number; identities: number; output_bytes: number; tracing?: Tracing | undefined }
  readonly #held = new Map<string, PooledConnection>()
  #sweeping: Disposable | undefined

  constructor(
    connect: ConnectAs,
    clock: Clock,
    limits: { idle_ms: number; identities: number; output_bytes: number; tracing?: Tracing | undefined },
  ) {
    this.#connect = connect
    this.#clock = clock
    this.#limits = limits
  }

  get size(): number {
    return this.#held.size
  }

  /** Runs `act` on the connection of that name. Throws 403 if the gateway holds no credentials for it. */
  as<T>(name: string, act: (bus: Bus) => Promise<T>): Promise<T> {
    return this.#with(name, act)
  }

  /** Runs `act` as an agent that passes work over. */
  async asAgent<T>(name: string, act: (agent: Agent) => Promise<T>): Promise<T> {
    return this.#with(name, async (bus, held) => {
      const { tracing, output_bytes } = this.#limits
      held.agent ??= Promise.resolve(
        createAgent(
          { bus, clock: serverClock(bus), random: nodeRandom, schemas: outputSchemas(), output_bytes, ...(tracing && { tracing }) },
          { directory: '/' },
        ),
      )
      return act(await held.agent)
    })
  }

  async #with<T>(name: string, act: (bus: Bus, held: PooledConnection) => Promise<T>): Promise<T> {
    const { bus, held, release } = await this.#take(name)
    try {
      return await act(bus, held)
    } finally {
      release()
    }
  }

  /** Keeps the connection of that name in use until `release` is called, so that it is not closed as idle. */
  async hold(name: string): Promise<HeldConnection> {
    const { bus, held, release } = await this.#take(name)
    return { bus, release, lost: () => isLost(bus, held) }
  }

  /** Takes the connection of that name. Replaces a lost one: the name may have other credentials by now, or none. */
  async #take(name: string): Promise<{ bus: Bus; held: PooledConnection; release: () => void }> {
    const held = this.#held.get(name) ?? this.#begin(name)
    held.users += 1
    let released = false
    const release = () => {
      if (released) return
      released = true
      held.users -= 1
      held.idle_since = this.#clock.monotonic()
    }
    try {
      const bus = await held.bus
      if (!isLost(bus, held)) return { bus, held, release }
      release()
      if (this.#held.get(name) === held) this.#close(name)
      return await this.#take(name)
    } catch (error) {
      release()
      if (this.#held.get(name) === held) this.#held.delete(name)
      if (!(error instanceof BusUnreachable)) throw error
      throw new HttpProblem(
        createProblem(503, {
          code: 'E040',
          detail: `the server refuses the connection of "${name}": ${error.message}`,
          hint: error.hint,
          retry_after_ms: 1_000,
        }),
      )
    }
  }

  #begin(name: string): PooledConnection {
    if (this.#held.size >= this.#limits.identities) this.#close(this.#oldestIdle())
    const bus = this.#connect(name)
    if (!bus) {
      const hint = 'add them to the file in PASSOVER_GATEWAY_CREDENTIALS'
      throw new HttpProblem(createProblem(403, { code: 'E013', detail: `this gateway has no credentials for "${name}"`, hint }))
    }
    const held: PooledConnection = { bus, users: 0, idle_since: this.#clock.monotonic(), closed: false }
    this.#held.set(name, held)
    void closing(held)
    this.#sweep()
    return held
  }

  #oldestIdle(): string {
    const idle = [...this.#held].filter(([, { users }]) => users === 0).sort(([, a], [, b]) => a.idle_since - b.idle_since)
    const [oldest] = idle
    if (oldest) return oldest[0]
    const detail = 'too many people and agents are using this gateway'
    throw new HttpProblem(createProblem(503, { code: 'E014', detail, hint: 'try again', retry_after_ms: 5_000 }))
  }

  #sweep(): void {
    this.#sweeping ??= this.#clock.after(this.#limits.idle_ms, () => {
      this.#sweeping = undefined
      const now = this.#clock.monotonic()
      for (const [name, { users, idle_since }] of this.#held) {
        if (users === 0 && now - idle_since >= this.#limits.idle_ms) this.#close(name)
      }
      if (this.#held.size > 0) this.#sweep()
    })
  }

  #close(name: string): void {
    const held = this.#held.get(name)
    this.#held.delete(name)
    if (held) void end(held)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#sweeping?.[Symbol.dispose]()
    const all = [...this.#held.values()]
    this.#held.clear()
    await Promise.all(all.map(end))
  }
}

function isLost(bus: Bus, { closed }: PooledConnection): boolean {
  return closed || bus.denied !== undefined
}

async function closing(held: PooledConnection): Promise<void> {
  try {
    await (await held.bus).closed
  } catch {
    // The error is thrown to the callers that wait for the connection.
  }
  held.closed = true
}

/** Closes a connection through its agent if there is one, because an agent owns its connection. */
async function end({ agent, bus }: PooledConnection): Promise<void> {
  try {
    await (await (agent ?? bus))[Symbol.asyncDispose]()
  } catch {
    // The connection was never open.
  }
}
