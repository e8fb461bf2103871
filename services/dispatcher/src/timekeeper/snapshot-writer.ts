import type { ObjectStore } from '@passover/bus'
import type { BaseContext } from '../runtime/base-context.js'
import { packSnapshot, type SnapshotState, storeSnapshot } from './snapshot.js'

/** Maximum fraction of time spent on snapshots. The more passes are open, the less often a snapshot is written. */
const MAX_TIME_SHARE = 0.05
/**
 * Maximum factor by which the interval grows. Without this limit, a slow server could delay snapshots so much that the next restart reads the stream
 * for minutes.
 */
const MAX_INTERVAL_FACTOR = 6
/**
 * Milliseconds of work after which the writer rests, and of each rest. It also rests after each stored chunk, so that a concurrent pass waits for one
 * piece of work and not for the whole snapshot.
 */
const WORK_MS = 1
const REST_MS = 9

/** Writes snapshots of the timekeeper's state periodically. */
export class SnapshotWriter {
  readonly #context: BaseContext
  readonly #store: ObjectStore
  readonly #currentState: () => Omit<SnapshotState, 'turn'> | undefined
  #timer: Disposable | undefined
  #stopped = false
  #saved: number
  #turn: number
  /** Milliseconds that the current snapshot has rested, and the monotonic time of its last rest. */
  #rested = 0
  #restedAt = 0
  #saving: Promise<void> | undefined

  /** Creates the writer. `known` returns `undefined` while no snapshot may be written. */
  constructor(
    context: BaseContext,
    store: ObjectStore,
    how: { from: SnapshotState | undefined; known: () => Omit<SnapshotState, 'turn'> | undefined },
  ) {
    this.#context = context
    this.#store = store
    this.#currentState = how.known
    this.#saved = how.from?.position ?? 0
    this.#turn = how.from?.turn ?? 0
  }

  schedule(ms = this.#context.options.snapshot_ms): void {
    const { clock, log } = this.#context.deps
    this.#timer = clock.after(ms, () => {
      const begun = clock.monotonic()
      this.#rested = 0
      void this.save()
        .catch((error: unknown) => log.warn({ err: error }, 'snapshot not stored'))
        .finally(() => {
          const worked = clock.monotonic() - begun - this.#rested
          const { snapshot_ms } = this.#context.options
          if (!this.#stopped) this.schedule(Math.min(MAX_INTERVAL_FACTOR * snapshot_ms, Math.max(snapshot_ms, worked / MAX_TIME_SHARE)))
        })
    })
  }

  stop(): void {
    this.#stopped = true
    this.#timer?.[Symbol.dispose]()
  }

  /** Writes a snapshot of the current state, after any snapshot in progress. */
  async save(): Promise<void> {
    await this.#saving?.catch(() => undefined)
    this.#saving = this.#save()
    await this.#saving
  }

  /** Rests between pieces of work. The last snapshot does not rest, because a stopping process waits for it. */
  async #rest(): Promise<void> {
    const { clock } = this.#context.deps
    const since = clock.monotonic()
    const rests = !this.#stopped && since - this.#restedAt >= WORK_MS
    await new Promise<void>((resolve) => (rests ? clock.after(REST_MS, resolve) : setImmediate(resolve)))
    if (!rests) return
    this.#restedAt = clock.monotonic()
    this.#rested += this.#restedAt - since
  }

  async #save(): Promise<void> {
    const { faults } = this.#context.deps
    await faults?.at('snapshot:before-put')
    const known = this.#currentState()
    if (!known || known.position === this.#saved) return
    this.#restedAt = this.#context.deps.clock.monotonic()
    const rest = () => this.#rest()
    const packed = await packSnapshot(known, { rest })
    this.#turn = await storeSnapshot(this.#store, this.#turn, { packed, rest })
    this.#saved = known.position
    await faults?.at('snapshot:after-put')
  }
}
