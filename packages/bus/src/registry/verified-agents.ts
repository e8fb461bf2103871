import { type AgentRecord, agentBody, agentRecord, canonicalJson, HEADER, noteRevocation, sha256 } from '@passover/schemas'
import { machineTiming, type Timing } from '../clock/timing.js'
import { decode } from '../codec/codec.js'
import type { Bus } from '../types/bus.js'
import type { Table } from '../types/stores.js'
import type { StoredMessage } from '../wire/messages.js'

/** Milliseconds until a stored event certainly reaches a reader. */
const BEHIND_MS = 2_000
const POLL_INTERVAL_MS = 10

/**
 * The registry according to the events under `agent.*`. The bucket `agents` is a copy: a record there counts only if an event contains it, so writing
 * the bucket grants no right. A record whose event has not been read yet waits for it.
 */
export class VerifiedAgents implements AsyncDisposable {
  readonly #bus: Bus
  readonly #timing: Timing
  /** Digests of the records in events, by the agent's name. */
  readonly #told = new Map<string, Set<string>>()
  /** Record in the newest event of each agent; `undefined` if it was removed. */
  readonly #newest = new Map<string, AgentRecord | undefined>()
  readonly #waiting = new Map<string, AgentRecord>()
  readonly #revoked = new Map<string, number>()
  /** Sequences of the events that revoked the agents. */
  readonly #revokedAt = new Map<string, number>()
  readonly #opened: AsyncDisposable[] = []
  #position = 0
  #onChange: (name: string, record: AgentRecord | undefined) => void = () => undefined

  private constructor(bus: Bus, timing: Timing) {
    this.#bus = bus
    this.#timing = timing
  }

  /** Settles once all events stored before have been read. */
  static async open(bus: Bus, timing: Timing = machineTiming): Promise<VerifiedAgents> {
    const agents = new VerifiedAgents(bus, timing)
    const reader = await bus.follow({ filters: [bus.subjects.all('agent')] }, (stored, fact) => {
      if (fact.type !== 'untrusted') agents.#take(stored)
      agents.#position = stored.sequence
    })
    agents.#opened.push(reader)
    await Promise.race([reader.caughtUp, reader.closed])
    return agents
  }

  /** Calls back with every present record that an event confirms, then after each change; `undefined` if it was removed. */
  async watch(table: Table<AgentRecord>, onChange: (name: string, record: AgentRecord | undefined) => void): Promise<void> {
    this.#onChange = onChange
    const watch = await table.watch((name, record) => {
      if (record && !this.has(name, record)) {
        this.#waiting.set(name, record)
        return
      }
      this.#waiting.delete(name)
      onChange(name, record)
    })
    this.#opened.push(watch)
    await watch.ready
  }

  /** Returns true if an event that was read contains this record. */
  has(name: string, record: AgentRecord): boolean {
    return this.#told.get(name)?.has(digestOf(record)) === true
  }

  /** Waits until all events stored so far have been read, then checks like `has`. */
  async hasBy(name: string, record: AgentRecord): Promise<boolean> {
    if (this.has(name, record)) return true
    await this.#readAll()
    return this.has(name, record)
  }

  /**
   * Returns the revoked agents, with the sequences of the events that revoked them, once all events stored so far have been read. Returns `undefined`
   * if they did not arrive in time: a revocation may be among them.
   */
  async revokedBy(): Promise<ReadonlyMap<string, number> | undefined> {
    return (await this.#readAll()) ? this.#revokedAt : undefined
  }

  /** Waits until all events that the leader has now have been read. Returns false if they did not arrive in time. */
  async #readAll(): Promise<boolean> {
    const newest = await this.#bus.journal.newest(this.#bus.subjects.all('agent'))
    const until = this.#timing.monotonic() + BEHIND_MS
    while (newest && this.#position < newest.sequence && this.#timing.monotonic() < until)
      await new Promise<void>((done) => this.#timing.after(POLL_INTERVAL_MS, done))
    return !newest || this.#position >= newest.sequence
  }

  /** Returns the agents in the stream, each with the record of its newest event. */
  newest(): ReadonlyMap<string, AgentRecord | undefined> {
    return this.#newest
  }

  /** Agents whose credentials a person revoked, with the time (server ms). Includes agents removed since. */
  get revoked(): ReadonlyMap<string, number> {
    return this.#revoked
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const one of this.#opened.splice(0)) await one[Symbol.asyncDispose]()
  }

  #take({ data, headers, sequence }: StoredMessage): void {
    const decoded = decode(data, headers.get(HEADER.contentType))
    const body = agentBody.safeParse(decoded.ok ? decoded.value : undefined)
    if (!body.success) return
    const { name, record } = body.data
    this.#newest.set(name, record)
    noteRevocation(this.#revokedAt, body.data, sequence)
    if (!record) return
    if (record.revoked_at === undefined) this.#revoked.delete(name)
    else this.#revoked.set(name, record.revoked_at)
    const told = this.#told.get(name) ?? new Set()
    this.#told.set(name, told.add(digestOf(record)))
    const waiting = this.#waiting.get(name)
    if (!waiting || !told.has(digestOf(waiting))) return
    this.#waiting.delete(name)
    this.#onChange(name, waiting)
  }
}

/** Returns the registry's records that an event confirms, by name. */
export async function verifiedAgents(bus: Bus): Promise<Map<string, AgentRecord>> {
  await using told = await VerifiedAgents.open(bus)
  const table = await bus.table('agents', agentRecord)
  const agents = new Map<string, AgentRecord>()
  for await (const { key, value } of table.entries()) if (key === value.name && (await told.hasBy(key, value))) agents.set(key, value)
  return agents
}

function digestOf(record: AgentRecord): string {
  return sha256(canonicalJson(record))
}
