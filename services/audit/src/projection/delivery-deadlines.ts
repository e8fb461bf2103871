import { withIndexes } from '@passover/archive'
import { encode } from '@passover/bus'
import { type Clock, FairSlots, type Timed, TimerQueue } from '@passover/core'
import { type AgentRecord, keyText, type PassKey, SYSTEM, type UndeliveredBody, WIRE_VERSION } from '@passover/schemas'
import type { Logger } from 'pino'
import type { AckIndex } from '../acknowledgments/ack-index.js'
import { deliveryDeadline } from '../deletion/deletion-eligibility.js'
import { hasNoFirstStep, type LoadDeps, loadPass } from '../pass/load-pass.js'
import type { PassMemory } from '../pass/pass-memory.js'
import { buildRecord } from '../records/build-record.js'
import { PerAgent } from '../runtime/per-agent.js'
import { readBefore } from '../runtime/read-before.js'

export interface DeliveryDeadlinesDeps extends LoadDeps {
  clock: Clock
  log: Logger
  index: Pick<AckIndex, 'has'>
  agents: ReadonlyMap<string, AgentRecord>
  /** Resolves once every message up to `sequence` is read. */
  untilRead: (sequence: number) => Promise<void>
}

interface PendingDelivery extends Timed {
  sequence: number
  key: PassKey
  /** Server time in milliseconds. */
  due: number
}

/**
 * Maximum number of pending returns in memory. Returns of an originator with more than its share are evicted; the stream is read again for them
 * as soon as the originator has few pending ones.
 */
const MAX_PENDING = 200_000
/** Maximum number of returns evicted at a time from the originator with the most. Finding the newest of many takes about a millisecond. */
const EVICTION_BATCH = 1_024
const RETRY_DELAY_MS = 1_000
/** Milliseconds until a return that awaits a person's release is checked again. It was not sent to its originator yet. */
const RELEASE_RECHECK_MS = 60_000
/** Maximum number of returns of one originator that are processed at a time. */
const CONCURRENCY = 64

/**
 * Records E022 if the originator of a durable return did not acknowledge it by its deadline (`return_deadline_ms` of the policy under which its
 * pass ran). The event is guarded on its own subject, so only one of several replicas publishes it. The return stays stored, and the originator
 * can still fetch it by id.
 */
export class DeliveryDeadlines {
  readonly #deps: DeliveryDeadlinesDeps
  readonly #most: number
  /** Pending returns by their sequence. */
  readonly #waiting = new Map<number, PendingDelivery>()
  /** Sequences of pending returns by originator. */
  readonly #of = new PerAgent<number>()
  readonly #running = new Set<number>()
  /** Shares the concurrency between originators, so one with many late returns leaves room for the others. */
  readonly #places = new FairSlots(2 * CONCURRENCY)
  /** Timers of the pending returns by originator. A return that is being recorded has none. */
  readonly #timers = new Map<string, TimerQueue<PendingDelivery>>()
  #next = Number.POSITIVE_INFINITY
  /** Originators with returns that are not in memory: evicted for lack of room, or not found because a scan failed. */
  readonly #overflowed = new Set<string>()
  #stopped = false

  constructor(deps: DeliveryDeadlinesDeps, most = MAX_PENDING) {
    this.#deps = deps
    this.#most = most
  }

  /** Number of returns that are pending or being recorded. */
  get size(): number {
    return this.#waiting.size
  }

  /** Starts the deadline of an ended pass if its originator asked for durable returns. */
  note(memory: PassMemory): void {
    const { journal } = memory
    const due = deliveryDeadline(memory, this.#deps)
    if (due !== undefined && journal.state === 'done') this.#wait({ sequence: journal.return.sequence, key: memory.key, due })
  }

  /** Drops pending returns that their originator acknowledged. */
  acknowledged(originator: string, sequences: readonly number[]): void {
    if (this.#waiting.size === 0) return
    for (const sequence of sequences) {
      if (this.#waiting.get(sequence)?.key.originator === originator) this.#forget(sequence)
    }
  }

  /** Records the returns that are due. `now` is the server time of the last message read. */
  sweep(now: number): void {
    if (now < this.#next || this.#stopped) return
    this.#next = Number.POSITIVE_INFINITY
    for (const [originator, timers] of this.#timers) {
      while (this.#places.hasRoom(originator)) {
        const waiting = timers.take(now)
        if (!waiting) break
        this.#begin(waiting)
      }
      const at = timers.nextAt()
      if (at === undefined) this.#timers.delete(originator)
      else this.#next = Math.min(this.#next, at)
    }
    for (const originator of this.#overflowed) {
      if (!this.#hasFew(originator)) continue
      this.#overflowed.delete(originator)
      void this.scan(Number.POSITIVE_INFINITY, originator)
    }
  }

  /**
   * Finds unacknowledged returns stored before `until` for originators that asked for durable returns.
   *
   * @param only - Restricts the scan to this originator.
   */
  async scan(until: number, only?: string): Promise<void> {
    for (const { name, durable_returns } of [...this.#deps.agents.values()]) {
      if (!durable_returns || durable_returns.from >= until || name !== (only ?? name)) continue
      try {
        await this.#scanOf(name, durable_returns.from, until)
      } catch (error) {
        this.#deps.log.warn({ agent: name, err: error }, 'durable returns not checked')
        this.#overflowed.add(name)
      }
    }
  }

  stop(): void {
    this.#stopped = true
  }

  async #scanOf(name: string, from: number, until: number): Promise<void> {
    const { bus } = this.#deps
    const options = { filters: [bus.subjects.allReturns(name)], from, until, headers_only: true }
    await readBefore(bus, options, async ({ sequence }, fact) => {
      if (this.#stopped || fact.type !== 'step' || this.#waiting.has(sequence)) return
      if (await this.#deps.index.has(name, sequence)) return
      const memory = await withIndexes(this.#deps.archive, () => this.#load(fact.key))
      if (memory?.journal.state === 'done' && memory.journal.return.sequence === sequence) this.note(memory)
    })
  }

  /** Loads a pass that has begun. A subagent can store any number of returns for passes without a request; loading each would cost too much. */
  async #load(key: PassKey): Promise<PassMemory | undefined> {
    if (await hasNoFirstStep(this.#deps, key)) return undefined
    return (await loadPass(this.#deps, key, { up_to: Number.MAX_SAFE_INTEGER })).memory
  }

  #wait(delivery: PendingDelivery): void {
    const { sequence, key } = delivery
    if (this.#waiting.has(sequence) || !this.#makeRoom(key.originator)) return
    this.#waiting.set(sequence, delivery)
    this.#of.add(key.originator, sequence)
    this.#lookLater(delivery)
  }

  #lookLater(delivery: PendingDelivery): void {
    const { originator } = delivery.key
    const timers = this.#timers.get(originator) ?? new TimerQueue<PendingDelivery>()
    this.#timers.set(originator, timers)
    timers.set(delivery, delivery.due, delivery.sequence)
    this.#next = Math.min(this.#next, delivery.due)
  }

  /**
   * Evicts the newest returns of the originator with the most if memory is full. Returns false if nothing could be evicted, for example because
   * the new return belongs to that originator.
   */
  #makeRoom(originator: string): boolean {
    if (this.#waiting.size < this.#most) return true
    const largest = this.#of.largest()
    const more = largest.size - this.#of.get(originator).size
    const given = newestOf(largest, Math.min(EVICTION_BATCH, Math.ceil(more / 2))).filter((sequence) => !this.#running.has(sequence))
    this.#overflowed.add(this.#waiting.get(given[0] ?? 0)?.key.originator ?? originator)
    for (const sequence of given) this.#forget(sequence)
    return given.length > 0
  }

  /** True if an originator has few enough pending returns to read its evicted ones again. */
  #hasFew(originator: string): boolean {
    const own = this.#of.get(originator).size
    return this.#waiting.size < this.#most / 2 || own < this.#most / (2 * Math.max(1, this.#of.agents))
  }

  #forget(sequence: number): void {
    const waiting = this.#waiting.get(sequence)
    if (!waiting) return
    this.#waiting.delete(sequence)
    this.#of.delete(waiting.key.originator, sequence)
    this.#timers.get(waiting.key.originator)?.drop(waiting)
  }

  #begin(delivery: PendingDelivery): void {
    const free = this.#places.take(delivery.key.originator)
    if (free) void this.#settle(delivery).then(free)
  }

  async #settle(delivery: PendingDelivery): Promise<void> {
    const { sequence } = delivery
    this.#running.add(sequence)
    try {
      const again = await this.#record(delivery)
      if (again === undefined) this.#forget(sequence)
      else delivery.due = again
    } catch (error) {
      this.#deps.log.warn({ pass: keyText(delivery.key), err: error }, 'late return not recorded yet')
      delivery.due = this.#deps.clock.now() + RETRY_DELAY_MS
    }
    this.#running.delete(sequence)
    // It may have been acknowledged in the meantime.
    if (this.#waiting.get(sequence) === delivery) this.#lookLater(delivery)
    // A slot is free for other returns of this originator.
    else this.#next = Math.min(this.#next, delivery.due)
  }

  /** Records E022 if it is due. Returns the time of the next check, or `undefined` if none is needed. */
  async #record({ sequence, key, due }: PendingDelivery): Promise<number | undefined> {
    const { bus, index, rules, clock, untilRead } = this.#deps
    const { last } = await bus.bounds()
    await untilRead(last)
    if (await index.has(key.originator, sequence)) return undefined
    const { memory } = await loadPass(this.#deps, key, { up_to: last })
    if (buildRecord(memory, rules).record.status === 'awaiting_release') return clock.now() + RELEASE_RECHECK_MS
    const subject = bus.subjects.event(key, 'undelivered', SYSTEM)
    const body: UndeliveredBody = { v: WIRE_VERSION, sequence, deadline: due }
    const outcome = await bus.publish({ subject, data: encode(body, 'msgpack'), guard: { subject, sequence: 0 } })
    // `lost`: another replica published the event first.
    if (outcome.kind === 'stored' || outcome.kind === 'lost') return undefined
    return clock.now() + RETRY_DELAY_MS
  }
}

function newestOf(sequences: ReadonlySet<number>, count: number): number[] {
  return count > 0 ? [...sequences].slice(-count) : []
}
