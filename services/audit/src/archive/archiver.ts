import {
  ARCHIVE_BUCKET,
  type Compression,
  findGaps,
  GENESIS,
  type IndexedPass,
  Manifest,
  type ManifestEntry,
  SegmentBuffer,
  segmentName,
  segmentOf,
  segmentRange,
  sequenceAfter,
  writeBufferedSegment,
  writeStreamedSegment,
} from '@passover/archive'
import type { Bus, ObjectStore, StoredMessage } from '@passover/bus'
import type { Clock } from '@passover/core'
import { type Fact, keyText, type PassKey, sha256 } from '@passover/schemas'
import type { Logger } from 'pino'
import { deletedTo } from '../deletion/deletion-state.js'
import { requestId } from '../pass/unanswered-requests.js'
import { mapInBatches } from '../runtime/concurrency.js'
import type { CustodyWatcher } from '../watchers/custody-watcher.js'

export interface ArchiverDeps {
  bus: Bus
  clock: Clock
  log: Logger
  manifest: Manifest
  objects: ObjectStore
  /** Returns the lowest sequence that a projector starting now would still need, or `undefined` if there is none. */
  needed: () => number | undefined
  custody: Pick<CustodyWatcher, 'erasedIn' | 'forget'>
}

export interface ArchiverOptions {
  compression: Compression
  /** Distinguishes this process's objects from those of other replicas. */
  instance: string
  /** Maximum bytes of a segment held in memory. */
  buffer_bytes: number
}

/**
 * The reader waits for the sealing if more segments are queued than this, and they take more memory than allowed. A segment too large for memory takes
 * none: it is read from the stream again, which takes minutes for one of 2 GiB, and must not stop the audit for that time.
 */
const MAX_WAITING = 2
const MAX_WAITING_BYTES = 64 * 1024 * 1024
/** Maximum number of segments that wait to be sealed, whatever their size. Their indexes stay in memory. */
const MAX_WAITING_SMALL = 32
const RETRY_DELAY_MS = 1000
/** Interval and number of checks for another replica's manifest entry, before this process seals the segment itself. */
const CHECK_INTERVAL_MS = 100
const MAX_CHECKS = 10
/** Maximum number of gaps of a segment checked at a time. Only a segment with deleted messages has many. */
const GAP_CONCURRENCY = 16

/**
 * Cuts the messages from the reader into numbered segments, stores each segment as an object and then claims its manifest entry. A crash between the
 * two steps leaves an unreferenced object. A replica that comes second finds the entry taken, deletes its own object and continues with the winner's
 * chain value. So there is no gap and no duplicate (I3).
 */
export class Archiver {
  readonly #deps: ArchiverDeps
  readonly #options: ArchiverOptions
  #current: SegmentBuffer
  #sealing: Promise<void> = Promise.resolve()
  #waiting = 0
  readonly #full = new Set<SegmentBuffer>()
  #stopped = false
  /**
   * True if a segment was given up at shutdown, or if the stream lost the messages it was built from: later segments could not continue its chain.
   */
  #broken = false
  #last: ManifestEntry | undefined
  /**
   * The replica that sealed the last segment seals the next one immediately. The others wait for its manifest entry first, because objects that they
   * write would be wasted.
   */
  #turn: 'mine' | 'theirs' = 'mine'
  /** Segments for which this process may have stored an object although another replica may own the manifest entry. */
  readonly #stored = new Set<number>()
  segments = 0
  /** Sequence and time of the last message taken. */
  position = 0
  time = 0
  /** Reason why the last segment is not sealed yet. */
  trouble: string | undefined
  /** Called when the stream has messages that the reader did not deliver: the audit must then restart from the beginning. */
  onMissed: (what: string) => void = () => undefined

  constructor(deps: ArchiverDeps, options: ArchiverOptions, start: { newest: ManifestEntry | undefined; from: number }) {
    this.#deps = deps
    this.#options = options
    this.#last = start.newest
    this.#current = this.#begin(segmentOf(start.from))
    this.position = start.from - 1
  }

  /** First sequence of the segment that is being filled. */
  get from(): number {
    return segmentRange(this.#current.k).first
  }

  /** True while a segment waits to be sealed. */
  get busy(): boolean {
    return this.#waiting > 0
  }

  /**
   * Returns a check whether an unsealed segment after k names a pass. The check covers the segments that are unsealed now, including messages added
   * to them later. A replica may have sealed k already.
   */
  unsealed(): (key: PassKey, k: number) => boolean {
    const buffers = [...this.#full, this.#current]
    return (key, k) => buffers.some((buffer) => buffer.k > k && buffer.index.has(keyText(key)))
  }

  /** Returns the index rows of the unsealed segments. */
  unsealedRows(): IndexedPass[] {
    return [...this.#full, this.#current].flatMap(({ index }) => [...index.rows()])
  }

  /** Returns the sequences of a pass in the unsealed segments. */
  unsealedOf(key: PassKey): number[] {
    const text = keyText(key)
    return [...this.#full, this.#current].flatMap(({ index }) => index.sequencesOf(text))
  }

  /** True if a message in an unsealed segment refers to a large part. Erased messages are ignored. */
  refersTo(part: string, erased?: { has(sequence: number): boolean }): boolean {
    return [...this.#full, this.#current].some(({ index }) => index.refersTo(part, erased))
  }

  /** Adds the next message. Returns a promise if the reader must wait until segments are sealed. */
  take(stored: StoredMessage, fact: Fact, session: string | undefined): Promise<void> | undefined {
    const k = segmentOf(stored.sequence)
    if (stored.sequence > this.position) {
      this.position = stored.sequence
      this.time = stored.time
    }
    if (k < this.#current.k) return undefined
    let busy: Promise<void> | undefined
    while (k > this.#current.k) busy = this.#seal() ?? busy
    this.#current.add(stored, passNamedBy(stored, fact), session)
    if (stored.sequence === segmentRange(k).last) busy = this.#seal() ?? busy
    return busy
  }

  /** Seals every segment that ends at or before `sequence`, even if messages at its end were deleted. */
  sealTo(sequence: number): void {
    while (this.#current.k < segmentOf(sequence + 1)) void this.#seal()
  }

  /** Stops sealing, because the stream no longer holds what was read. */
  abandon(): void {
    this.#stopped = true
    this.#broken = true
  }

  /** Waits for the segments that are being sealed. The open segment is not sealed; its messages are still in the stream. */
  async drain(): Promise<void> {
    this.#stopped = true
    await this.#sealing
  }

  #begin(k: number): SegmentBuffer {
    return new SegmentBuffer(k, this.#options.buffer_bytes)
  }

  #seal(): Promise<void> | undefined {
    const full = this.#current
    this.#current = this.#begin(full.k + 1)
    this.#full.add(full)
    this.#waiting++
    this.#sealing = this.#sealing.then(() => this.#untilSealed(full))
    return this.#isFull ? this.#sealing : undefined
  }

  get #isFull(): boolean {
    if (this.#waiting <= MAX_WAITING || this.#waiting > MAX_WAITING_SMALL) return this.#waiting > MAX_WAITING
    return [...this.#full].reduce((sum, { bytes }) => sum + bytes, 0) > MAX_WAITING_BYTES
  }

  async #untilSealed(buffer: SegmentBuffer): Promise<void> {
    while (!this.#broken) {
      try {
        this.#last = await this.#sealOnce(buffer)
        this.#deps.custody.forget(buffer.k)
        this.#full.delete(buffer)
        this.#waiting--
        this.trouble = undefined
        return
      } catch (error) {
        this.#deps.log.warn({ segment: buffer.k, err: error }, 'segment not sealed')
        this.trouble = `segment ${buffer.k} is not sealed: ${error instanceof Error ? error.message : String(error)}`
        this.#broken = this.#stopped
        if (this.#broken) return
        await new Promise<void>((done) => this.#deps.clock.after(RETRY_DELAY_MS, done))
      }
    }
  }

  async #sealOnce(buffer: SegmentBuffer): Promise<ManifestEntry> {
    const { bus, manifest, objects, log, needed, custody } = this.#deps
    const { compression } = this.#options
    const { k } = buffer
    const sealed = await this.#sealedByAnother(k)
    const object = this.#objectName(k, 'frames')
    const index = this.#objectName(k, 'index')
    if (sealed) return await this.#yieldTo({ k, object, index })
    await this.#compareGaps(buffer)
    this.#stored.add(k)
    const chain_before = this.#last?.chain_after ?? Buffer.from(GENESIS).toString('hex')
    const erased = new Map(await custody.erasedIn(k))
    const pack = { name: object, chain_before, compression, erased }
    const whole = erased.size > 0 && buffer.buffered ? buffer.erase(erased) : buffer
    const { packed, prints } = whole.buffered
      ? await writeBufferedSegment(objects, whole, pack)
      : await writeStreamedSegment(bus, objects, whole, pack)
    const indexed = (whole.buffered ? whole.index : whole.index.without(erased)).encode(k, prints)
    await objects.put(index, indexed)
    // Messages that were erased during the read would be missing from the segment.
    if ((await custody.erasedIn(k)).size !== erased.size) {
      await objects.delete(object, 'overwrite')
      await objects.delete(index, 'overwrite')
      throw new Error('entries of it were erased in the meantime')
    }
    if (this.#broken) throw new Error('the stream lost the messages of this segment')
    const resume = Math.min(needed() ?? Number.POSITIVE_INFINITY, segmentRange(k).last + 1)
    const entry: ManifestEntry = { v: 1, k, object, index, compression, ...packed, index_sha256: sha256(indexed), chain_before, resume }
    if (await manifest.claim(entry)) {
      this.segments++
      this.#turn = 'mine'
      this.#stored.delete(k)
      log.debug({ segment: k, events: packed.count, bytes: packed.size, resume }, 'segment sealed')
      return entry
    }
    return await this.#yieldTo(entry)
  }

  /**
   * Compares the gaps in what was read with the stream's leader. Every replica serves readers from its own copy, and one that was disconnected for a
   * while can lack messages without noticing (docs/quality/chaos-report.md#what-runs-found). They would be missing from the archive for good.
   */
  async #compareGaps({ k, gaps }: SegmentBuffer): Promise<void> {
    const missed = await mapInBatches(gaps, ({ from, to }) => this.#missedIn(from, to), GAP_CONCURRENCY)
    const sequence = missed.find((one) => one !== undefined)
    if (sequence === undefined) return
    const what = `segment ${k} was read without message ${sequence}, which is in the stream: the replica that was read lacks it`
    this.onMissed(what)
    throw new Error(what)
  }

  async #missedIn(from: number, to: number): Promise<number | undefined> {
    const next = await this.#deps.bus.journal.first('>', from)
    return next && next.sequence <= to ? next.sequence : undefined
  }

  async #sealedByAnother(k: number): Promise<ManifestEntry | undefined> {
    const { manifest, clock } = this.#deps
    for (let looks = this.#turn === 'mine' ? 1 : MAX_CHECKS; ; looks--) {
      const sealed = await manifest.entry(k)
      if (sealed || looks === 1 || this.#stopped) return sealed
      await new Promise<void>((done) => clock.after(CHECK_INTERVAL_MS, done))
    }
  }

  /** Handles a manifest entry that is taken: by another replica, or by our own claim whose answer was lost. */
  async #yieldTo(ours: Pick<ManifestEntry, 'k' | 'object' | 'index'>): Promise<ManifestEntry> {
    const { manifest, objects, log } = this.#deps
    const theirs = await manifest.entry(ours.k)
    if (!theirs) throw new Error(`manifest entry of segment ${ours.k} disappeared`)
    if (theirs.object === ours.object) return theirs
    this.#turn = 'theirs'
    if (!this.#stored.has(ours.k)) return theirs
    // Overwritten on disk, because a later erasure of its messages would not find an unreferenced object.
    await objects.delete(ours.object, 'overwrite')
    await objects.delete(ours.index, 'overwrite')
    this.#stored.delete(ours.k)
    log.debug({ segment: ours.k }, 'segment was sealed by a replica')
    return theirs
  }

  #objectName(k: number, what: 'frames' | 'index'): string {
    return `${segmentName(k)}.${this.#options.instance}.${what}`
  }
}

const RECOVERY_HINT =
  'Archiving is stopped. Stop the services and restore the stream and all buckets from one backup, or delete the archive (KV_archive, OBJ_archive)'

/**
 * Returns where archiving continues: after the newest sealed segment, or in the first gap that the stream can still fill. Such a gap remains if an
 * audit stopped while it sealed lost segments again; nothing in it was deleted from the stream. Sealed segments after the gap are read again and
 * kept. Without any segment, archiving starts with the first segment of the stream. Throws if the stream is not the archived one.
 */
export async function archivePosition(bus: Bus, manifest: Manifest): Promise<{ newest: ManifestEntry | undefined; from: number }> {
  const entries = await manifest.all()
  const { first, last } = await bus.bounds()
  const begin = segmentOf(Math.max(1, first))
  const archived = entries.at(-1)
  if (!archived) return { newest: undefined, from: segmentRange(begin).first }
  const why = await differsFromStream(bus, archived, last)
  if (why !== undefined) throw new Error(`${why}: this is a different stream, or it lost its newest messages. ${RECOVERY_HINT}`)
  const whole_from = Math.max(begin, (await deletedTo(bus)) ?? 0)
  for (const k of findGaps(entries)) {
    if (k >= whole_from && (await manifest.isFree(k)))
      return { newest: entries.find((entry) => entry.k === k - 1), from: segmentRange(k).first }
  }
  return { newest: archived, from: sequenceAfter(archived) }
}

/** Removes the manifest entries of segments whose objects are gone after the archive was lost, so that they are sealed again. */
export async function forgetLostSegments(bus: Bus): Promise<void> {
  const [manifest, objects, { first }] = await Promise.all([Manifest.open(bus), bus.objects(ARCHIVE_BUCKET), bus.bounds()])
  await manifest.forgetLost(segmentOf(Math.max(1, first)), objects)
}

/** Returns how the stream differs from the archived one at the newest archived message, or `undefined` if it does not. */
async function differsFromStream(bus: Bus, { last: archived, last_time }: ManifestEntry, last: number): Promise<string | undefined> {
  if (last < archived) return `the archive contains sequence ${archived}, but the stream ends at ${last}`
  const stored = archived > 0 ? await bus.journal.message(archived) : undefined
  return stored && stored.time !== last_time ? `at sequence ${archived}, stream and archive have different messages` : undefined
}

/** Adds the id to a request from a shell: it has no headers, its id is in its body, and the index must contain it. */
export function passNamedBy(stored: StoredMessage, fact: Fact): Fact {
  if (fact.type !== 'request' || fact.id !== undefined) return fact
  const id = requestId(stored, fact)
  return id === undefined ? fact : { ...fact, id }
}
