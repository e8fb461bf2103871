import { encode } from '@passover/bus'
import type { Clock } from '@passover/core'
import { type AgentRecord, keyText, type PassKey, SYSTEM, type UndeliveredBody, WIRE_VERSION } from '@passover/schemas'
import type { Logger } from 'pino'
import type { Acknowledged } from './acknowledged.js'
import { describe } from './describe.js'
import { type LoadDeps, loadPass, nothingBegan } from './load.js'
import type { PassMemory } from './pass-memory.js'
import { deliveryDue } from './standing.js'

export interface UndeliveredDeps extends LoadDeps {
  clock: Clock
  log: Logger
  index: Pick<Acknowledged, 'has'>
  agents: ReadonlyMap<string, AgentRecord>
  /** Settles when everything up to there was read. */
  untilRead: (sequence: number) => Promise<void>
}

interface Waiting {
  key: PassKey
  /** Server ms. */
  due: number
}

/** Returns waited for in memory; of more the stream is read again when there is room. */
const MOST = 200_000
const RETRY_MS = 1_000
/** An output that a person must release first has not gone out: it is looked at again after this. */
const RELEASE_MS = 60_000
const AT_ONCE = 64

/**
 * Records E022: a return whose originator asks for delivery was not acknowledged by its deadline (`return_deadline_ms` of the policy
 * under which its pass ran). The event is guarded on its own subject, so that of several replicas one publishes it. The return stays
 * where it is, and who asks for its id gets it.
 */
export class Undelivered {
  /** By the sequence of the return. */
  private readonly waiting = new Map<number, Waiting>()
  private readonly running = new Set<number>()
  private next = Number.POSITIVE_INFINITY
  private overflowed = false
  private stopped = false

  constructor(private readonly deps: UndeliveredDeps) {}

  /** Waited for, or being recorded. */
  get size(): number {
    return this.waiting.size
  }

  /** A pass has ended. */
  note(memory: PassMemory): void {
    const { journal } = memory
    const due = deliveryDue(memory, this.deps)
    if (due !== undefined && journal.state === 'done') this.wait(journal.return.sequence, { key: memory.key, due })
  }

  /** Its originator has these. */
  acknowledged(originator: string, sequences: readonly number[]): void {
    if (this.waiting.size === 0) return
    for (const sequence of sequences) {
      if (this.waiting.get(sequence)?.key.originator === originator) this.waiting.delete(sequence)
    }
  }

  /** Records what is due; `now` is the server's time as far as the stream was read. */
  sweep(now: number): void {
    if (now < this.next || this.stopped) return
    this.next = Number.POSITIVE_INFINITY
    for (const [sequence, waiting] of this.waiting) {
      if (waiting.due > now) this.next = Math.min(this.next, waiting.due)
      else if (this.running.size >= AT_ONCE) this.next = now
      else if (!this.running.has(sequence)) void this.settle(sequence, waiting)
    }
    if (this.overflowed && this.waiting.size < MOST / 2) {
      this.overflowed = false
      void this.scan(Number.POSITIVE_INFINITY)
    }
  }

  /** Finds what waits from before `until`: whatever an agent that asks was returned since, and did not acknowledge. */
  async scan(until: number): Promise<void> {
    for (const { name, durable_returns } of [...this.deps.agents.values()]) {
      if (!durable_returns || durable_returns.from >= until) continue
      try {
        await this.scanOf(name, durable_returns.from, until)
      } catch (error) {
        this.deps.log.warn({ agent: name, err: error }, 'returns that wait were not looked for')
        this.overflowed = true
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
      if (await nothingBegan(this.deps, fact.key)) return
      const { memory } = await loadPass(this.deps, fact.key, { up_to: Number.MAX_SAFE_INTEGER })
      if (memory.journal.state === 'done' && memory.journal.return.sequence === sequence) this.note(memory)
    })
    await Promise.race([reader.caughtUp, reader.closed])
  }

  private wait(sequence: number, waiting: Waiting): void {
    if (this.waiting.size >= MOST) {
      this.overflowed = true
      return
    }
    this.waiting.set(sequence, waiting)
    this.next = Math.min(this.next, waiting.due)
  }

  private async settle(sequence: number, waiting: Waiting): Promise<void> {
    this.running.add(sequence)
    try {
      const again = await this.record(sequence, waiting)
      if (again === undefined) this.waiting.delete(sequence)
      else waiting.due = again
    } catch (error) {
      this.deps.log.warn({ pass: keyText(waiting.key), err: error }, 'a return that was late is not recorded yet')
      waiting.due = this.deps.clock.now() + RETRY_MS
    }
    this.running.delete(sequence)
    this.next = Math.min(this.next, waiting.due)
  }

  /** When to look again; undefined: never. */
  private async record(sequence: number, { key, due }: Waiting): Promise<number | undefined> {
    const { bus, index, rules, clock, untilRead } = this.deps
    const { last } = await bus.bounds()
    await untilRead(last)
    if (await index.has(key.originator, sequence)) return undefined
    const { memory } = await loadPass(this.deps, key, { up_to: last })
    if (describe(memory, rules).record.status === 'awaiting_release') return clock.now() + RELEASE_MS
    const subject = bus.subjects.event(key, 'undelivered', SYSTEM)
    const body: UndeliveredBody = { v: WIRE_VERSION, sequence, deadline: due }
    const outcome = await bus.publish({ subject, data: encode(body, 'msgpack'), guard: { subject, sequence: 0 } })
    // Lost: another one was faster.
    if (outcome.kind === 'stored' || outcome.kind === 'lost') return undefined
    return clock.now() + RETRY_MS
  }
}
