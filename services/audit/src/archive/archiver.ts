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
  /** The lowest sequence that a projector starting now would still need; undefined: none. */
  needed: () => number | undefined
  custody: Pick<CustodyWatcher, 'erasedIn' | 'forget'>
}

export interface ArchiverOptions {
  compression: Compression
  /** Tells this process's objects from a replica's. */
  instance: string
  /** Bytes of a segment held in memory. */
  buffer_bytes: number
}

/** Segments that may wait to be sealed before the reader has to. */
const MAX_WAITING = 2
const RETRY_DELAY_MS = 1000
/** Whose turn it is not looks so often, and so many times, whether it is sealed. */
const CHECK_INTERVAL_MS = 100
const MAX_CHECKS = 10
/** Gaps of a segment that are looked up at once. Only a segment of which messages were deleted has many. */
const GAP_CONCURRENCY = 16

/**
 * Cuts what the reader hands on into numbered segments, stores each as an object and then claims its manifest entry. A crash between the two
 * leaves an object that nobody names; a replica that comes second finds the entry taken, drops its own object and goes on
 * from the winner's chain value. So there is no gap and no double (I3).
 */
export class Archiver {
  private current: SegmentBuffer
  private sealing: Promise<void> = Promise.resolve()
  private waiting = 0
  private readonly full = new Set<SegmentBuffer>()
  private stopped = false
  /** A segment was given up when the process ended, or what it was made of is lost: those after it would not continue its chain. */
  private broken = false
  private last: ManifestEntry | undefined
  /** Who sealed the last one seals the next at once, the others when it does not: what they wrote would be for nothing. */
  private turn: 'mine' | 'theirs' = 'mine'
  /** Segments of which an object of ours may exist, though the entry may be someone else's. */
  private readonly stored = new Set<number>()
  segments = 0
  /** Sequence and time of the last message taken. */
  position = 0
  time = 0
  /** Why the last segment is not sealed yet. */
  trouble: string | undefined
  /** Called when the stream has messages that the reader did not hand on: the audit must begin again. */
  onMissed: (what: string) => void = () => undefined

  constructor(
    private readonly deps: ArchiverDeps,
    private readonly options: ArchiverOptions,
    start: { newest: ManifestEntry | undefined; from: number },
  ) {
    this.last = start.newest
    this.current = this.begin(segmentOf(start.from))
    this.position = start.from - 1
  }

  /** The first sequence that it still wants. */
  get from(): number {
    return segmentRange(this.current.k).first
  }

  /** A segment is being sealed. */
  get busy(): boolean {
    return this.waiting > 0
  }

  /** Whether of what is read and not sealed yet, as it stands now and goes on to grow, something after segment k speaks of a pass. A replica may have sealed k meanwhile. */
  unsealed(): (key: PassKey, k: number) => boolean {
    const buffers = [...this.full, this.current]
    return (key, k) => buffers.some((buffer) => buffer.k > k && buffer.index.has(keyText(key)))
  }

  /** What an index would say of it now. */
  unsealedRows(): IndexedPass[] {
    return [...this.full, this.current].flatMap(({ index }) => [...index.rows()])
  }

  /** Sequences in it that speak of a pass. */
  unsealedOf(key: PassKey): number[] {
    const text = keyText(key)
    return [...this.full, this.current].flatMap(({ index }) => index.sequencesOf(text))
  }

  /** Whether any of it that is not erased refers to a large part. */
  refersTo(part: string, erased?: { has(sequence: number): boolean }): boolean {
    return [...this.full, this.current].some(({ index }) => index.refersTo(part, erased))
  }

  /** Takes the next event. A promise means that the reader must wait for it. */
  take(stored: StoredMessage, fact: Fact, session: string | undefined): Promise<void> | undefined {
    const k = segmentOf(stored.sequence)
    if (stored.sequence > this.position) {
      this.position = stored.sequence
      this.time = stored.time
    }
    if (k < this.current.k) return undefined
    let busy: Promise<void> | undefined
    while (k > this.current.k) busy = this.seal() ?? busy
    this.current.add(stored, passNamedBy(stored, fact), session)
    if (stored.sequence === segmentRange(k).last) busy = this.seal() ?? busy
    return busy
  }

  /** What was read ends with this sequence: whatever of it was deleted, its segments are whole. */
  sealTo(sequence: number): void {
    while (this.current.k < segmentOf(sequence + 1)) void this.seal()
  }

  /** What was read is no longer what the stream holds: nothing is sealed of it. */
  abandon(): void {
    this.stopped = true
    this.broken = true
  }

  /** Waits for the segments that are being sealed; the open one stays in the stream. */
  async drain(): Promise<void> {
    this.stopped = true
    await this.sealing
  }

  private begin(k: number): SegmentBuffer {
    return new SegmentBuffer(k, this.options.buffer_bytes)
  }

  private seal(): Promise<void> | undefined {
    const full = this.current
    this.current = this.begin(full.k + 1)
    this.full.add(full)
    this.waiting++
    this.sealing = this.sealing.then(() => this.untilSealed(full))
    return this.waiting > MAX_WAITING || !full.buffered ? this.sealing : undefined
  }

  private async untilSealed(buffer: SegmentBuffer): Promise<void> {
    while (!this.broken) {
      try {
        this.last = await this.sealOnce(buffer)
        this.deps.custody.forget(buffer.k)
        this.full.delete(buffer)
        this.waiting--
        this.trouble = undefined
        return
      } catch (error) {
        this.deps.log.warn({ segment: buffer.k, err: error }, 'segment not sealed')
        this.trouble = `segment ${buffer.k} is not sealed: ${error instanceof Error ? error.message : String(error)}`
        this.broken = this.stopped
        if (this.broken) return
        await new Promise<void>((done) => this.deps.clock.after(RETRY_DELAY_MS, done))
      }
    }
  }

  private async sealOnce(buffer: SegmentBuffer): Promise<ManifestEntry> {
    const { bus, manifest, objects, log, needed, custody } = this.deps
    const { compression } = this.options
    const { k } = buffer
    const sealed = await this.sealedByAnother(k)
    const object = this.objectName(k, 'frames')
    const index = this.objectName(k, 'index')
    if (sealed) return await this.yieldTo({ k, object, index })
    await this.compareGaps(buffer)
    this.stored.add(k)
    const chain_before = this.last?.chain_after ?? Buffer.from(GENESIS).toString('hex')
    const erased = new Map(await custody.erasedIn(k))
    const pack = { name: object, chain_before, compression, erased }
    const whole = erased.size > 0 && buffer.buffered ? buffer.erase(erased) : buffer
    const { packed, prints } = whole.buffered
      ? await writeBufferedSegment(objects, whole, pack)
      : await writeStreamedSegment(bus, objects, whole, pack)
    const indexed = (whole.buffered ? whole.index : whole.index.without(erased)).encode(k, prints)
    await objects.put(index, indexed)
    // What left the stream while it was read would be missing in it.
    if ((await custody.erasedIn(k)).size !== erased.size) {
      await objects.delete(object, 'overwrite')
      await objects.delete(index, 'overwrite')
      throw new Error('entries of it were erased meanwhile')
    }
    if (this.broken) throw new Error('the stream lost what it was made of')
    const resume = Math.min(needed() ?? Number.POSITIVE_INFINITY, segmentRange(k).last + 1)
    const entry: ManifestEntry = { v: 1, k, object, index, compression, ...packed, index_sha256: sha256(indexed), chain_before, resume }
    if (await manifest.claim(entry)) {
      this.segments++
      this.turn = 'mine'
      this.stored.delete(k)
      log.debug({ segment: k, events: packed.count, bytes: packed.size, resume }, 'segment sealed')
      return entry
    }
    return await this.yieldTo(entry)
  }

  /**
   * Compares the gaps of what was read with the stream's leader. Every replica serves readers from its own copy, and one that was cut off for a
   * while can lack messages without noticing (docs/quality/chaos-report.md#what-runs-found). They would be missing from the archive for good.
   */
  private async compareGaps({ k, gaps }: SegmentBuffer): Promise<void> {
    const missed = await mapInBatches(gaps, ({ from, to }) => this.missedIn(from, to), GAP_CONCURRENCY)
    const sequence = missed.find((one) => one !== undefined)
    if (sequence === undefined) return
    const what = `segment ${k} was read without message ${sequence}, which the stream has: the server that was read from lacks it`
    this.onMissed(what)
    throw new Error(what)
  }

  private async missedIn(from: number, to: number): Promise<number | undefined> {
    const next = await this.deps.bus.journal.first('>', from)
    return next && next.sequence <= to ? next.sequence : undefined
  }

  private async sealedByAnother(k: number): Promise<ManifestEntry | undefined> {
    const { manifest, clock } = this.deps
    for (let looks = this.turn === 'mine' ? 1 : MAX_CHECKS; ; looks--) {
      const sealed = await manifest.entry(k)
      if (sealed || looks === 1 || this.stopped) return sealed
      await new Promise<void>((done) => clock.after(CHECK_INTERVAL_MS, done))
    }
  }

  /** Someone else claimed the segment, or our own claim got through though its answer was lost. */
  private async yieldTo(ours: Pick<ManifestEntry, 'k' | 'object' | 'index'>): Promise<ManifestEntry> {
    const { manifest, objects, log } = this.deps
    const theirs = await manifest.entry(ours.k)
    if (!theirs) throw new Error(`manifest entry of segment ${ours.k} vanished`)
    if (theirs.object === ours.object) return theirs
    this.turn = 'theirs'
    if (!this.stored.has(ours.k)) return theirs
    // What stands in it may be erased some day, and could not be found on disk then.
    await objects.delete(ours.object, 'overwrite')
    await objects.delete(ours.index, 'overwrite')
    this.stored.delete(ours.k)
    log.debug({ segment: ours.k }, 'segment was sealed by a replica')
    return theirs
  }

  private objectName(k: number, what: 'frames' | 'index'): string {
    return `${segmentName(k)}.${this.options.instance}.${what}`
  }
}

const RECOVERY_HINT =
  'Nothing is archived over that: stop the services and restore the stream and all buckets from one backup, or delete the archive (KV_archive, OBJ_archive)'

/**
 * Where an archiver goes on: after the newest sealed segment, or in the first gap that the stream can fill (the audit that sealed anew ended at it;
 * nothing was deleted of it): segments behind that are met again on the way. Without any, where the stream begins. Throws where the stream is not the archived one.
 */
export async function archivePosition(bus: Bus, manifest: Manifest): Promise<{ newest: ManifestEntry | undefined; from: number }> {
  const entries = await manifest.all()
  const { first, last } = await bus.bounds()
  const begin = segmentOf(Math.max(1, first))
  const archived = entries.at(-1)
  if (!archived) return { newest: undefined, from: segmentRange(begin).first }
  const why = await differsFromStream(bus, archived, last)
  if (why !== undefined) throw new Error(`${why}: it is another stream, or lost its end. ${RECOVERY_HINT}`)
  const whole_from = Math.max(begin, (await deletedTo(bus)) ?? 0)
  for (const k of findGaps(entries)) {
    if (k >= whole_from && (await manifest.isFree(k)))
      return { newest: entries.find((entry) => entry.k === k - 1), from: segmentRange(k).first }
  }
  return { newest: archived, from: sequenceAfter(archived) }
}

/** Where the archive is another one, what it lost of what its list names is forgotten. */
export async function forgetLostSegments(bus: Bus): Promise<void> {
  const [manifest, objects, { first }] = await Promise.all([Manifest.open(bus), bus.objects(ARCHIVE_BUCKET), bus.bounds()])
  await manifest.forgetLost(segmentOf(Math.max(1, first)), objects)
}

/** Undefined: the stream is the one that was archived, as far as its newest archived message says. */
async function differsFromStream(bus: Bus, { last: archived, last_time }: ManifestEntry, last: number): Promise<string | undefined> {
  if (last < archived) return `the archive holds sequence ${archived}, but the stream ends at ${last}`
  const stored = archived > 0 ? await bus.journal.message(archived) : undefined
  return stored && stored.time !== last_time ? `at sequence ${archived} the stream has another message than the archive` : undefined
}

/** A request from a shell has no headers: its id is in its body, and the index must have it. */
export function passNamedBy(stored: StoredMessage, fact: Fact): Fact {
  if (fact.type !== 'request' || fact.id !== undefined) return fact
  const id = requestId(stored, fact)
  return id === undefined ? fact : { ...fact, id }
}
