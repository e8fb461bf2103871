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
  /** Told where what was read is no longer in the stream: all of it must be read anew. */
  back: Pick<RollbackDetector, 'onRollback' | 'lose'>
}

/** Reads along what is said about custody (decision 87). Such events never leave the stream, so it knows all of them. */
export class CustodyWatcher implements AsyncDisposable {
  readonly custody = new CustodyLog()
  /** Told of sequences that a tombstone stands for, and of all of an erasure when it is done. */
  onErased: (sequences: ReadonlySet<number>, said: 'erased' | 'done') => void = () => undefined
  /** Tombstones' entries of segments that were not sealed when it looked last. */
  private readonly unsealed = new Map<number, Map<number, ErasedEntry>>()
  private sealed = -1
  /** Sequences that tombstones of an erasure stand for which is not done. */
  private readonly going = new Map<number, Set<number>>()
  private reader: StreamSubscription | undefined

  private constructor(private readonly deps: CustodyWatcherDeps) {}

  /** Settles when it knows all that was said before. `sealed`: the newest segment that is. */
  static async open({ log, sealed, ...deps }: CustodyWatcherDeps & { log: Logger; sealed: number }): Promise<CustodyWatcher> {
    const { bus, back } = deps
    const watch = new CustodyWatcher(deps)
    watch.sealed = sealed
    watch.reader = await bus.follow({ filters: [bus.subjects.all('custody')], onWentBack: back.onRollback }, (stored) =>
      watch.take(stored, log),
    )
    await Promise.race([watch.reader.caughtUp, watch.reader.closed])
    return watch
  }

  /** Settles when everything is known that is stored by now. Throws where that takes too long, or something else is known. */
  async current(): Promise<CustodyLog> {
    const { bus, clock } = this.deps
    const { position } = this.custody
    const newest = await bus.journal.newest(bus.subjects.all('custody'))
    // Such events never leave the stream: by what it lost, something may be held that is not known to be.
    if ((newest?.sequence ?? 0) < position) {
      const what = `what was said about custody at sequence ${position} is no longer in the stream`
      this.deps.back.lose(what)
      throw new Error(what)
    }
    for (let waited = 0; newest && this.custody.position < newest.sequence; waited += POLL_INTERVAL_MS) {
      if (waited >= TIMEOUT_MS) throw new Error(`what was said about custody at ${newest.sequence} is not read yet`)
      await new Promise<void>((done) => clock.after(POLL_INTERVAL_MS, done))
    }
    return this.custody
  }

  /** What tombstones stand for in a segment that is to be sealed, whoever took it out of the stream. */
  async erasedIn(k: number): Promise<ReadonlyMap<number, ErasedEntry>> {
    await this.current()
    return this.unsealed.get(k) ?? new Map()
  }

  /** Whether a message that may still be in the stream is being erased: nothing may be made of it any more. */
  isGoing(sequence: number): boolean {
    if (this.going.size > 0) for (const sequences of this.going.values()) if (sequences.has(sequence)) return true
    return false
  }

  /** Segment k is sealed. */
  forget(k: number): void {
    this.sealed = Math.max(this.sealed, k)
    this.unsealed.delete(k)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.reader?.[Symbol.asyncDispose]()
  }

  private take(stored: StoredMessage, log: Logger): void {
    const { sequence, time, subject, headers, data } = stored
    const { subjects } = this.deps.bus
    const parsed = subjects.parse(subject)
    if (parsed.kind !== 'custody' || sequence <= this.custody.position) return
    const body = decode(data, headers.get(HEADER.contentType))
    // A message that the server published on a client's behalf is not believed, but it is read: later guards name its sequence.
    const says = body.ok && subjects.isTrusted(stored) ? body.value : undefined
    const counted = this.custody.take({ sequence, time, sender: parsed.person, body: says })
    if (!counted) {
      log.warn({ sequence, by: parsed.person }, 'what was said about custody does not count')
      return
    }
    if (counted.kind === 'erased') this.erased(counted)
    if (counted.kind !== 'done') return
    const all = this.going.get(counted.erase)
    this.going.delete(counted.erase)
    // What was read of it before all was gone goes with it.
    if (all) this.onErased(all, 'done')
  }

  private erased({ erase, passes }: Extract<CustodyBody, { kind: 'erased' }>): void {
    const going = this.going.get(erase) ?? new Set()
    this.going.set(erase, going)
    const sequences = new Set<number>()
    for (const entry of entriesOf(passes)) {
      this.remember(entry)
      going.add(entry.sequence)
      sequences.add(entry.sequence)
    }
    this.onErased(sequences, 'erased')
  }

  private remember(entry: ErasedEntry): void {
    const k = segmentOf(entry.sequence)
    if (k <= this.sealed) return
    const known = this.unsealed.get(k)
    if (known) known.set(entry.sequence, entry)
    else this.unsealed.set(k, new Map([[entry.sequence, entry]]))
  }
}
