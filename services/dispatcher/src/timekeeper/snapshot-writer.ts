import type { ObjectStore } from '@passover/bus'
import type { BaseContext } from '../runtime/base-context.js'
import { packSnapshot, type SnapshotState, storeSnapshot } from './snapshot.js'

/** So much of the time may be worked at snapshots: the more is open, the rarer they are. */
const SHARE = 0.05
/** And so much rarer at most: a server that was slow once must not keep a restart reading for minutes. */
const RARER = 6
/** After each millisecond of work, and each chunk that is stored: whoever passes something over meanwhile waits for one of them, not for them all. */
const WORK_MS = 1
const REST_MS = 9

/** Keeps what a timekeeper knows, now and then. */
export class SnapshotWriter {
  readonly #context: BaseContext
  readonly #store: ObjectStore
  readonly #known: () => Omit<SnapshotState, 'turn'> | undefined
  #timer: Disposable | undefined
  #stopped = false
  #saved: number
  #turn: number
  /** For how long the one that is being kept has rested, and when it did last. */
  #rested = 0
  #restedAt = 0
  #saving: Promise<void> | undefined

  /** `known` gives undefined while nothing may be kept. */
  constructor(
    context: BaseContext,
    store: ObjectStore,
    how: { from: SnapshotState | undefined; known: () => Omit<SnapshotState, 'turn'> | undefined },
  ) {
    this.#context = context
    this.#store = store
    this.#known = how.known
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
          if (!this.#stopped) this.schedule(Math.min(RARER * snapshot_ms, Math.max(snapshot_ms, worked / SHARE)))
        })
    })
  }

  stop(): void {
    this.#stopped = true
    this.#timer?.[Symbol.dispose]()
  }

  /** Keeps what is known now, after the one that is being kept. */
  async save(): Promise<void> {
    await this.#saving?.catch(() => undefined)
    this.#saving = this.#save()
    await this.#saving
  }

  /** Not when it is the last one, which a stopping process waits for. */
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
    const known = this.#known()
    if (!known || known.position === this.#saved) return
    this.#restedAt = this.#context.deps.clock.monotonic()
    const rest = () => this.#rest()
    const packed = await packSnapshot(known, { rest })
    this.#turn = await storeSnapshot(this.#store, this.#turn, { packed, rest })
    this.#saved = known.position
    await faults?.at('snapshot:after-put')
  }
}
