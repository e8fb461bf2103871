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

export interface DeliveryDeadlinesDeps extends LoadDeps {
  clock: Clock
  log: Logger
  index: Pick<AckIndex, 'has'>
  agents: ReadonlyMap<string, AgentRecord>
  /** Settles when everything up to there was read. */
  untilRead: (sequence: number) => Promise<void>
}

interface PendingDelivery extends Timed {
  sequence: number
  key: PassKey
  /** Server ms. */
  due: number
}

/** Returns waited for in memory. When an agent has more than its share, the stream is read again for its returns as soon as it has few. */
const MAX_PENDING = 200_000
/** Returns that the agent with most gives up at once: to find the newest of many takes a millisecond. */
const EVICTION_BATCH = 1_024
const RETRY_DELAY_MS = 1_000
/** An output that a person must release first has not gone out: it is looked at again after this. */
const RELEASE_RECHECK_MS = 60_000
/** Of one originator. */
const CONCURRENCY = 64

/**
 * Records E022: a return whose originator asks for delivery was not acknowledged by its deadline (`return_deadline_ms` of the policy
 * under which its pass ran). The event is guarded on its own subject, so that of several replicas one publishes it. The return stays
 * where it is, and who asks for its id gets it.
 */
export class DeliveryDeadlines {
  /** By the sequence of the return. */
  private readonly waiting = new Map<number, PendingDelivery>()
  /** The same by originator. */
  private readonly of = new PerAgent<number>()
  private readonly running = new Set<number>()
  /** An originator with many late returns leaves room for the others. */
  private readonly places = new FairSlots(2 * CONCURRENCY)
  /** When those of each originator are looked at; what is being recorded is in none. */
  private readonly timers = new Map<string, TimerQueue<PendingDelivery>>()
  private next = Number.POSITIVE_INFINITY
  /** Originators that have more returns than are waited for. */
  private readonly overflowed = new Set<string>()
  private stopped = false

  constructor(
    private readonly deps: DeliveryDeadlinesDeps,
    private readonly most = MAX_PENDING,
  ) {}

  /** Waited for, or being recorded. */
  get size(): number {
    return this.waiting.size
  }

  /** A pass has ended. */
  note(memory: PassMemory): void {
    const { journal } = memory
    const due = deliveryDeadline(memory, this.deps)
    if (due !== undefined && journal.state === 'done') this.wait({ sequence: journal.return.sequence, key: memory.key, due })
  }

  /** Its originator has these. */
  acknowledged(originator: string, sequences: readonly number[]): void {
    if (this.waiting.size === 0) return
    for (const sequence of sequences) {
      if (this.waiting.get(sequence)?.key.originator === originator) this.forget(sequence)
    }
  }

  /** Records what is due; `now` is the server's time as far as the stream was read. */
  sweep(now: number): void {
    if (now < this.next || this.stopped) return
    this.next = Number.POSITIVE_INFINITY
    for (const [originator, timers] of this.timers) {
      while (this.places.hasRoom(originator)) {
        const waiting = timers.take(now)
        if (!waiting) break
        this.begin(waiting)
      }
      const at = timers.nextAt()
      if (at === undefined) this.timers.delete(originator)
      else this.next = Math.min(this.next, at)
    }
    for (const originator of this.overflowed) {
      if (!this.hasFew(originator)) continue
      this.overflowed.delete(originator)
      void this.scan(Number.POSITIVE_INFINITY, originator)
    }
  }

  /** Finds what waits from before `until`: whatever an agent that asks was returned since, and did not acknowledge. `only`: of this agent. */
  async scan(until: number, only?: string): Promise<void> {
    for (const { name, durable_returns } of [...this.deps.agents.values()]) {
      if (!durable_returns || durable_returns.from >= until || name !== (only ?? name)) continue
      try {
        await this.scanOf(name, durable_returns.from, until)
      } catch (error) {
        this.deps.log.warn({ agent: name, err: error }, 'returns that wait were not looked for')
        this.overflowed.add(name)
      }
    }
  }

  stop(): void {
    this.stopped = true
  }

  private async scanOf(name: string, from: number, until: number): Promise<void> {
    const { bus } = this.deps
    const options = { filters: [bus.subjects.allReturns(name)], from, headers_only: true }
    await using reader = await bus.follow(options, async ({ sequence }, fact) => {
      if (this.stopped || fact.type !== 'step' || sequence >= until || this.waiting.has(sequence)) return
      if (await this.deps.index.has(name, sequence)) return
      // A subagent can store returns of passes that nobody asked for, without end: to read each is too much.
      if (await hasNoFirstStep(this.deps, fact.key)) return
      const { memory } = await loadPass(this.deps, fact.key, { up_to: Number.MAX_SAFE_INTEGER })
      if (memory.journal.state === 'done' && memory.journal.return.sequence === sequence) this.note(memory)
    })
    await Promise.race([reader.caughtUp, reader.closed])
  }

  private wait(waiting: PendingDelivery): void {
    const { sequence, key } = waiting
    if (this.waiting.has(sequence) || !this.makeRoom(key.originator)) return
    this.waiting.set(sequence, waiting)
    this.of.add(key.originator, sequence)
    this.lookLater(waiting)
  }

  private lookLater(waiting: PendingDelivery): void {
    const { originator } = waiting.key
    const timers = this.timers.get(originator) ?? new TimerQueue<PendingDelivery>()
    this.timers.set(originator, timers)
    timers.set(waiting, waiting.due, waiting.sequence)
    this.next = Math.min(this.next, waiting.due)
  }

  /** Of too many, the newest of the originator that has most are left out. False: that would be the one that asks. */
  private makeRoom(originator: string): boolean {
    if (this.waiting.size < this.most) return true
    const largest = this.of.largest()
    const more = largest.size - this.of.get(originator).size
    const given = newestOf(largest, Math.min(EVICTION_BATCH, Math.ceil(more / 2))).filter((sequence) => !this.running.has(sequence))
    this.overflowed.add(this.waiting.get(given[0] ?? 0)?.key.originator ?? originator)
    for (const sequence of given) this.forget(sequence)
    return given.length > 0
  }

  /** Whether so few returns of an originator are waited for that there is room for those that were left out. */
  private hasFew(originator: string): boolean {
    const own = this.of.get(originator).size
    return this.waiting.size < this.most / 2 || own < this.most / (2 * Math.max(1, this.of.agents))
  }

  private forget(sequence: number): void {
    const waiting = this.waiting.get(sequence)
    if (!waiting) return
    this.waiting.delete(sequence)
    this.of.delete(waiting.key.originator, sequence)
    this.timers.get(waiting.key.originator)?.drop(waiting)
  }

  private begin(waiting: PendingDelivery): void {
    const free = this.places.take(waiting.key.originator)
    if (free) void this.settle(waiting).then(free)
  }

  private async settle(waiting: PendingDelivery): Promise<void> {
    const { sequence } = waiting
    this.running.add(sequence)
    try {
      const again = await this.record(waiting)
      if (again === undefined) this.forget(sequence)
      else waiting.due = again
    } catch (error) {
      this.deps.log.warn({ pass: keyText(waiting.key), err: error }, 'a return that was late is not recorded yet')
      waiting.due = this.deps.clock.now() + RETRY_DELAY_MS
    }
    this.running.delete(sequence)
    // It may have been acknowledged meanwhile.
    if (this.waiting.get(sequence) === waiting) this.lookLater(waiting)
    // There is room for others of its originator now.
    else this.next = Math.min(this.next, waiting.due)
  }

  /** When to look again; undefined: never. */
  private async record({ sequence, key, due }: PendingDelivery): Promise<number | undefined> {
    const { bus, index, rules, clock, untilRead } = this.deps
    const { last } = await bus.bounds()
    await untilRead(last)
    if (await index.has(key.originator, sequence)) return undefined
    const { memory } = await loadPass(this.deps, key, { up_to: last })
    if (buildRecord(memory, rules).record.status === 'awaiting_release') return clock.now() + RELEASE_RECHECK_MS
    const subject = bus.subjects.event(key, 'undelivered', SYSTEM)
    const body: UndeliveredBody = { v: WIRE_VERSION, sequence, deadline: due }
    const outcome = await bus.publish({ subject, data: encode(body, 'msgpack'), guard: { subject, sequence: 0 } })
    // Lost: another one was faster.
    if (outcome.kind === 'stored' || outcome.kind === 'lost') return undefined
    return clock.now() + RETRY_DELAY_MS
  }
}

function newestOf(sequences: ReadonlySet<number>, count: number): number[] {
  return count > 0 ? [...sequences].slice(-count) : []
}
