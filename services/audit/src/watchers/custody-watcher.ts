import { type ErasedEntry, segmentOf } from '@passover/archive'
import type { Bus, StoredMessage, StreamSubscription } from '@passover/bus'
import { decode } from '@passover/bus'
import { type Clock, CustodyLog, entriesOf } from '@passover/core'
import { type CustodyBody, HEADER } from '@passover/schemas'
import type { Logger } from 'pino'
import type { RollbackDetector } from './rollback-detector.js'

const POLL_INTERVAL_MS = 20
const TIMEOUT_MS = 10_000

interface CustodyWatcherDeps {
  bus: Bus
  clock: Clock
  /** Is notified if messages that were read are no longer in the stream; everything must then be read again. */
  back: Pick<RollbackDetector, 'onRollback' | 'lose'>
}

/** Follows all custody events (decision 87). They never leave the stream, so the log is complete. */
export class CustodyWatcher implements AsyncDisposable {
  readonly #deps: CustodyWatcherDeps
  readonly custody = new CustodyLog()
  /** Called with the sequences that a tombstone replaces (`erased`), and with all sequences of an erasure when it completes (`done`). */
  onErased: (sequences: ReadonlySet<number>, said: 'erased' | 'done') => void = () => undefined
  /** Tombstone entries by segment, for segments that were not sealed at the last check. */
  readonly #unsealed = new Map<number, Map<number, ErasedEntry>>()
  #sealed = -1
  /** Sequences named by the tombstones of each erasure that has not completed. */
  readonly #going = new Map<number, Set<number>>()
  #reader: StreamSubscription | undefined

  private constructor(deps: CustodyWatcherDeps) {
    this.#deps = deps
  }

  /** Settles when all custody events stored so far are read. `sealed` is the number of the newest sealed segment. */
  static async open({ log, sealed, ...deps }: CustodyWatcherDeps & { log: Logger; sealed: number }): Promise<CustodyWatcher> {
    const { bus, back } = deps
    const watch = new CustodyWatcher(deps)
    watch.#sealed = sealed
    watch.#reader = await bus.follow({ filters: [bus.subjects.all('custody')], onRollback: back.onRollback }, (stored) =>
      watch.#take(stored, log),
    )
    await Promise.race([watch.#reader.caughtUp, watch.#reader.closed])
    return watch
  }

  /**
   * Waits until all custody events stored so far are read, and returns the log.
   *
   * @throws Error if that takes longer than 10 seconds, or if the stream has lost custody events that were read
   */
  async current(): Promise<CustodyLog> {
    const { bus, clock } = this.#deps
    const { position } = this.custody
    const newest = await bus.journal.newest(bus.subjects.all('custody'))
    // Custody events never leave the stream. If the stream lost some, it may have lost holds too, so nothing here is reliable any more.
    if ((newest?.sequence ?? 0) < position) {
      const what = `the custody event at sequence ${position} is no longer in the stream`
      this.#deps.back.lose(what)
      throw new Error(what)
    }
    for (let waited = 0; newest && this.custody.position < newest.sequence; waited += POLL_INTERVAL_MS) {
      if (waited >= TIMEOUT_MS) throw new Error(`the custody event at sequence ${newest.sequence} has not been read yet`)
      await new Promise<void>((done) => clock.after(POLL_INTERVAL_MS, done))
    }
    return this.custody
  }

  /** Returns the tombstone entries for a segment that is about to be sealed, whichever audit deleted the messages from the stream. */
  async erasedIn(k: number): Promise<ReadonlyMap<number, ErasedEntry>> {
    await this.current()
    return this.#unsealed.get(k) ?? new Map()
  }

  /** True if a message that may still be in the stream is being erased, so that nothing may be derived from it any more. */
  isGoing(sequence: number): boolean {
    if (this.#going.size > 0) for (const sequences of this.#going.values()) if (sequences.has(sequence)) return true
    return false
  }

  /** Forgets the tombstone entries of segment `k`, which is now sealed. */
  forget(k: number): void {
    this.#sealed = Math.max(this.#sealed, k)
    this.#unsealed.delete(k)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#reader?.[Symbol.asyncDispose]()
  }

  #take(stored: StoredMessage, log: Logger): void {
    const { sequence, time, subject, headers, data } = stored
    const { subjects } = this.#deps.bus
    const parsed = subjects.parse(subject)
    if (parsed.kind !== 'custody' || sequence <= this.custody.position) return
    const body = decode(data, headers.get(HEADER.contentType))
    // The body of a message that the server published on behalf of a client is ignored, but its sequence counts: later guards name it.
    const says = body.ok && subjects.isTrusted(stored) ? body.value : undefined
    const counted = this.custody.take({ sequence, time, sender: parsed.person, body: says })
    if (!counted) {
      log.warn({ sequence, by: parsed.person }, 'custody event is not valid; ignored')
      return
    }
    if (counted.kind === 'erased') this.#erased(counted)
    if (counted.kind !== 'done') return
    const all = this.#going.get(counted.erase)
    this.#going.delete(counted.erase)
    // Also removes everything that was read of these messages before the erasure completed.
    if (all) this.onErased(all, 'done')
  }

  #erased({ erase, passes }: Extract<CustodyBody, { kind: 'erased' }>): void {
    const going = this.#going.get(erase) ?? new Set()
    this.#going.set(erase, going)
    const sequences = new Set<number>()
    for (const entry of entriesOf(passes)) {
      this.#remember(entry)
      going.add(entry.sequence)
      sequences.add(entry.sequence)
    }
    this.onErased(sequences, 'erased')
  }

  #remember(entry: ErasedEntry): void {
    const k = segmentOf(entry.sequence)
    if (k <= this.#sealed) return
    const known = this.#unsealed.get(k)
    if (known) known.set(entry.sequence, entry)
    else this.#unsealed.set(k, new Map([[entry.sequence, entry]]))
  }
}
