import { ARCHIVE_BUCKET } from '@passover/archive'
import type { Bus, Table } from '@passover/bus'
import { type PassKey, passKey } from '@passover/schemas'
import { z } from 'zod'

const stateBody = z.object({
  /** First segment that is not processed yet. */
  next: z.int().min(0),
  /** Process that holds the lease, and the server time in milliseconds at which the lease ends. */
  holder: z.string(),
  until: z.number(),
})
/** A closed pass that must stay for now, from an otherwise processed segment. */
const deferredPass = z.object({
  key: passKey.extend({ id: z.string().max(64) }),
  why: z.enum(['delivery', 'dead_letter', 'hold']),
  returned: z.int().positive().optional(),
  /** Server time (ms) of the dead letter. It is due by the retention that is in force then. Missing in entries of earlier versions. */
  letter: z.number().optional(),
  due: z.number(),
})
const deferredAdvisory = z.object({ advisory: z.int().positive(), names: z.int().positive() })
const deferredBody = z.object({ passes: z.array(deferredPass), advisories: z.array(deferredAdvisory) })
const entry = z.object({ v: z.literal(1), retention: z.union([stateBody, deferredBody]) })

export type DeferredPass = z.infer<typeof deferredPass> & { key: PassKey }
export type DeferredAdvisory = z.infer<typeof deferredAdvisory>
export interface DeferredSegment {
  passes: DeferredPass[]
  advisories: DeferredAdvisory[]
}

const STATE = 'retention.state'
const WAITING = 'retention.waiting'

/** Returns the segment before which the deleter of any audit may have deleted messages, or `undefined` if none has run yet. */
export async function deletedTo(bus: Bus): Promise<number | undefined> {
  const found = await (await bus.table(ARCHIVE_BUCKET, entry)).get(STATE)
  return found && 'next' in found.value.retention ? found.value.retention.next : undefined
}

/**
 * State of the deleter, in the manifest's bucket: the next segment, the process that deletes, and the deferred deletions. One process deletes at a
 * time. A short overlap of two is harmless, because each deletion concerns a single message and reports its outcome.
 */
export class DeletionState {
  readonly #table: Table<z.infer<typeof entry>>
  readonly #bus: Bus
  readonly #own: { holder: string; lease_ms: number }
  #revision = 0
  /** Number of times this process took over the lease from another process or a fresh state. */
  taken = 0
  #state: z.infer<typeof stateBody> | undefined

  private constructor(table: Table<z.infer<typeof entry>>, bus: Bus, own: { holder: string; lease_ms: number }) {
    this.#table = table
    this.#bus = bus
    this.#own = own
  }

  /** Opens the state. A holder renews its lease at each segment and before it ends. The lease of a killed process passes to another at its end. */
  static async open(bus: Bus, own: { holder: string; lease_ms: number }): Promise<DeletionState> {
    return new DeletionState(await bus.table(ARCHIVE_BUCKET, entry), bus, own)
  }

  /** First segment that is not processed yet. */
  get next(): number {
    return this.#state?.next ?? 0
  }

  /**
   * Acquires the lease if it is free, or renews it. Returns true if this process holds it.
   *
   * @param first - Returns the segment to start with if no deleter has run yet.
   */
  async hold(first: () => Promise<number | undefined>): Promise<boolean> {
    if (this.#state && this.#state.until - this.#bus.now() > this.#own.lease_ms / 2) return true
    const found = await this.#table.get(STATE)
    const stands = found && 'holder' in found.value.retention ? found.value.retention : undefined
    const now = this.#bus.now()
    if (stands && stands.holder !== this.#own.holder && stands.until > now) {
      this.#state = undefined
      return false
    }
    if (stands?.holder !== this.#own.holder) this.taken++
    this.#revision = found?.revision ?? 0
    const next = stands?.next ?? (await first())
    return next !== undefined && (await this.#write(next))
  }

  /** Records that the segments before `next` are processed. Returns false if another process took over. */
  async advance(next: number): Promise<boolean> {
    return await this.#write(next)
  }

  /** Releases the lease, so that another process can continue immediately. */
  async release(): Promise<void> {
    if (!this.#state) return
    const retention = { ...this.#state, until: 0 }
    this.#state = undefined
    await this.#table.update(STATE, { v: 1, retention }, this.#revision)
  }

  /** Yields the deferred deletions by segment. */
  async *deferred(): AsyncGenerator<[number, DeferredSegment]> {
    for await (const { key, value } of this.#table.entries(`${WAITING}.*`)) {
      if ('passes' in value.retention) yield [Number(key.slice(WAITING.length + 1)), value.retention]
    }
  }

  async deferredIn(k: number): Promise<DeferredSegment | undefined> {
    const found = (await this.#table.get(`${WAITING}.${k}`))?.value.retention
    return found && 'passes' in found ? found : undefined
  }

  async defer(k: number, waiting: DeferredSegment): Promise<void> {
    const key = `${WAITING}.${k}`
    if (waiting.passes.length + waiting.advisories.length > 0) await this.#table.put(key, { v: 1, retention: waiting })
    else if (await this.#table.get(key)) await this.#table.delete(key)
  }

  async #write(next: number): Promise<boolean> {
    const { holder, lease_ms } = this.#own
    const state = { next, holder, until: this.#bus.now() + lease_ms }
    const value = { v: 1 as const, retention: state }
    const revision = this.#revision > 0 ? await this.#table.update(STATE, value, this.#revision) : await this.#table.create(STATE, value)
    this.#state = revision === undefined ? undefined : state
    this.#revision = revision ?? 0
    return revision !== undefined
  }
}
