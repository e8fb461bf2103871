import { type Bus, PartError, type PartStore } from '@passover/bus'
import type { Agent } from '@passover/sdk'
import { OutputBudget } from '../http/output-budget.js'
import { createProblem, HttpProblem } from '../http/problem.js'
import type { Caller } from './caller.js'
import type { ConnectionPool, HeldConnection } from './connection-pool.js'

/**
 * Scope of data that an operation shows or changes. Every route declares it, and app.ts enforces it before the handler runs.
 *
 * - `public`: needs no token, and shows nothing about passes.
 * - `own`: an agent's token gives access to the passes that the agent takes part in, a person's token to all passes.
 * - `people`: an agent's token is refused, as a server that enforces permissions refuses the agent itself.
 */
export type Access = 'public' | 'own' | 'people'

/** Refuses an agent's token (403) if only people have access. */
export function requireAccess({ kind, name }: Caller, access: Access): void {
  if (access !== 'people' || kind === 'person') return
  const detail = `"${name}" is an agent, but only people may do this`
  throw new HttpProblem(
    createProblem(403, { code: 'E013', detail, hint: 'use the token of a person; to create one: passover gateway token add' }),
  )
}

/** Refuses (403) an agent that takes part in a pass but is not its originator. */
export function requireOriginator({ kind, name }: Caller, { originator }: { originator: string }): void {
  if (kind === 'person' || name === originator) return
  const detail = `"${name}" is not the originator of this pass, and an agent may cancel only passes that it originated`
  throw new HttpProblem(createProblem(403, { code: 'E013', detail, hint: `${originator} or a person can cancel it` }))
}

/**
 * Refuses (503) while the owner's connection is down. The gateway reads on its own connection only for an owner whom the server currently accepts:
 * revoked or expired credentials end the owner's connection, but not the gateway's.
 */
export function requireConnected({ connected, identity }: Pick<Bus, 'connected' | 'identity'>): void {
  if (connected) return
  const detail = `"${identity}" is not connected: the server is unreachable or refuses its credentials`
  throw new HttpProblem(createProblem(503, { code: 'E040', detail, hint: 'try again', retry_after_ms: 1_000 }))
}

/**
 * Runs operations under the name of the caller. On these connections, an agent's queries are limited to its own passes, and the parts that one call
 * of `as` loads to `output_bytes`. Handlers check sizes before they load; this limit also covers a handler that does not.
 */
export class Actor {
  readonly #pool: ConnectionPool
  readonly #caller: Caller
  readonly #output_bytes: number

  constructor(pool: ConnectionPool, caller: Caller, output_bytes: number) {
    this.#pool = pool
    this.#caller = caller
    this.#output_bytes = output_bytes
  }

  /** Runs on the caller's connection. */
  as<T>(act: (bus: Bus) => Promise<T>): Promise<T> {
    return this.#pool.as(this.#caller.name, (bus) =>
      act(withMembers(limitedToOwnPasses(bus, this.#caller), { parts: boundedParts(bus.parts, this.#output_bytes) })),
    )
  }

  /** Runs as an agent that passes work over. */
  asAgent<T>(act: (agent: Agent) => Promise<T>): Promise<T> {
    return this.#pool.asAgent(this.#caller.name, act)
  }

  /** Holds the caller's connection until `release` is called. */
  async hold(): Promise<HeldConnection> {
    const held = await this.#pool.hold(this.#caller.name)
    return { ...held, bus: limitedToOwnPasses(held.bus, this.#caller) }
  }

  /** Holds the connection of another name, for a person who acts in its place. Throws 403 if the caller is an agent. */
  async holdFor(name: string): Promise<HeldConnection> {
    requireAccess(this.#caller, 'people')
    return this.#pool.hold(name)
  }
}

/** Limits queries by the token's kind, not its name: without permissions, the audit service could take an unregistered name for a person. */
function limitedToOwnPasses(bus: Bus, { kind }: Caller): Bus {
  if (kind === 'person') return bus
  return withMembers(bus, { ask: (question, options) => bus.ask({ ...(question as object), own: true }, options) })
}

/** Refuses to load a part that would exceed the budget of `most` bytes. */
function boundedParts(parts: PartStore, most: number): PartStore {
  const budget = new OutputBudget(most)
  const fetch: PartStore['fetch'] = async (part) => {
    if (budget.takes(part.size)) return parts.fetch(part)
    throw new PartError(`part ${part.name} has ${part.size} bytes, but one request may load at most ${most}`, 'too_large')
  }
  return withMembers(parts, { fetch })
}

/** Returns a view of an object with some members replaced. */
export function withMembers<T extends object>(whole: T, members: Partial<T>): T {
  return new Proxy(whole, {
    get(target, name) {
      if (name in members) return members[name as keyof T]
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}
