import { BusReadError, ObjectError, type ObjectStore, type StoredMessage, type Subjects } from '@passover/bus'
import { idTime, keyText, type PassKey, sha256 } from '@passover/schemas'
import { storedOf } from '../segment/buffer.js'
import { Chain, decodeFrames, type Frame, GENESIS, SegmentDamaged, segmentOf, segmentRange } from '../segment/format.js'
import { ownedParts } from '../segment/part-references.js'
import { decodeIndex, type IndexedPass } from '../segment/pass-index.js'
import { unpackSegment } from '../segment/unpack.js'
import { hasHash, hashesOf, hashOf, IdIndex } from './id-index.js'
import type { Manifest, ManifestEntry } from './manifest.js'
import { ReadCache } from './read-cache.js'

/** Number of decoded segments and indexes kept in the cache. */
const CACHED_SEGMENTS = 2
const CACHED_INDEXES = 16
/** Number of segments for which the ids that begin there are cached as hashes: 4 bytes each, at most 4,096 for a segment. */
const CACHED_FIRST_STEPS = 1_024
/** Maximum number of indexes searched for a pass while the id index is incomplete. */
const MAX_INDEXES_SEARCHED = 512
/** Maximum time by which an id may be ahead of the server. The time of an id comes from the client that made it, and admission limits it. */
const ID_AHEAD_MS = 3_600_000
/**
 * Milliseconds before the request named by its steps in which other messages of a pass may be stored: a cancel if the request had to be sent again,
 * or another request for its id if the dispatcher that received it stalled.
 */
export const EARLY_MESSAGE_MS = 45_000

/** Only the newest indexes were read so far, and an older segment may hold what was looked for. A retry succeeds once all indexes are read. */
export class IndexesUnread extends BusReadError {
  override readonly name = 'IndexesUnread'

  constructor(read: number, segments: number) {
    super(`old parts of the archive are still being loaded: the indexes of ${read} of ${segments} segments are read`, 'timeout')
  }
}

/**
 * Runs a search. If it needs indexes that are not read yet, waits until they are and runs it again. That may take minutes, so it is for background
 * work and commands, not for answers.
 */
export async function withIndexes<T>({ finder }: Pick<Archive, 'finder'>, search: () => Promise<T>): Promise<T> {
  try {
    return await search()
  } catch (error) {
    if (!(error instanceof IndexesUnread)) throw error
    await finder.prepare()
    return await search()
  }
}

interface Index {
  passes: Map<string, IndexedPass>
  /** Server time of the segment's last message. */
  last_time: number
  isSealed: boolean
  /** Present if the index cannot be read. The passes of its segment are then unknown. */
  damage?: SegmentDamaged
}

/** Result for a segment that is not sealed yet or was removed. */
const NO_MESSAGES: ReadonlyMap<number, StoredMessage> = new Map()

/** Reads archived messages. */
export class Archive {
  readonly #manifest: Manifest
  readonly #objects: ObjectStore
  readonly #segments = new ReadCache<ReadonlyMap<number, StoredMessage>>(CACHED_SEGMENTS)
  readonly #indexes = new ReadCache<Index>(CACHED_INDEXES)
  /** Hashes of the ids that begin in a segment; `undefined` if they are not known. */
  readonly #begun = new ReadCache<{ ids: Uint32Array | undefined }>(CACHED_FIRST_STEPS)

  /** Names of the large parts that the messages of a segment keep. */
  readonly #parts = new ReadCache<{ names: ReadonlySet<string> | 'any' }>(CACHED_INDEXES)

  /** Finds the segments of an id. Until it has read all indexes, only the newest segments are searched, and what is not found there throws IndexesUnread. */
  readonly finder: IdIndex
  readonly #mostSearched: number

  /** `mostSearched` is the number of segments searched until all indexes are read. */
  constructor(manifest: Manifest, objects: ObjectStore, mostSearched = MAX_INDEXES_SEARCHED) {
    this.#manifest = manifest
    this.#objects = objects
    this.#mostSearched = mostSearched
    this.finder = new IdIndex(manifest, (k) => this.#indexBytes(k))
  }

  /** Returns the archived messages with these sequences in order. Sequences that no segment holds are omitted. */
  async messages(
    sequences: readonly number[],
    keep: (stored: StoredMessage) => StoredMessage = (stored) => stored,
  ): Promise<StoredMessage[]> {
    const found: StoredMessage[] = []
    for (const sequence of [...sequences].sort((a, b) => a - b)) {
      const message = (await this.#segment(segmentOf(sequence))).get(sequence)
      if (message) found.push(keep(message))
    }
    return found
  }

  /**
   * Returns the sequences of a pass from the indexes. Searches from the newest segment back until segments are older than the request named by its
   * steps (`requestIn`) by `EARLY_MESSAGE_MS`, or older than its id. The messages of a pass may be far apart.
   *
   * @throws SegmentDamaged if an index that may name more sequences cannot be read
   * @throws IndexesUnread if a segment whose index was not read yet may name more
   */
  async sequencesOf(key: PassKey, requestIn: (stored: StoredMessage) => number | undefined = () => undefined): Promise<number[]> {
    const found: number[] = []
    let lowest = 0
    let oldest = Number.POSITIVE_INFINITY
    const { segments, isOlder, unread } = await this.#segmentsOf(key.id)
    for (const k of segments) {
      const { passes, last_time, damage } = await this.#index(k)
      // A segment without messages has no time to compare.
      if (k < segmentOf(lowest) && last_time > 0 && last_time < oldest - EARLY_MESSAGE_MS) return found
      const pass = passes.get(keyText(key))
      if (pass) {
        found.unshift(...pass.sequences)
        for (const stored of await this.messages(pass.sequences, withoutBody)) {
          lowest = Math.max(lowest, requestIn(stored) ?? 0)
          oldest = Math.min(oldest, stored.time)
        }
      } else if (isOlder(last_time)) return found
      else if (damage) throw damage
    }
    if (unread > 0) throw this.#unread(unread)
    return found
  }

  /** Returns the sequences of a pass from the indexes of segments after k. Throws as `sequencesOf` does. */
  async sequencesAfter(key: PassKey, k: number): Promise<number[]> {
    const found: number[] = []
    const { segments, unread } = await this.#segmentsOf(key.id)
    if (unread > k + 1) throw this.#unread(unread)
    for (const later of segments) {
      if (later <= k) continue
      const { passes, damage } = await this.#index(later)
      const pass = passes.get(keyText(key))
      if (pass) found.push(...pass.sequences)
      else if (damage) throw damage
    }
    return found
  }

  /**
   * Returns true if a segment may hold the first step of a pass, judged by the indexes alone. False is certain: all indexes were read, and none names
   * it.
   * A pass that never began may be named in any number of segments.
   */
  async mayBegin(key: PassKey): Promise<boolean> {
    if (!this.finder.complete) return (await this.#manifest.newest()) !== undefined
    const hash = hashOf(key.id)
    for (const k of (await this.#segmentsOf(key.id)).segments) {
      const { ids } = await this.#begun.of(
        k,
        () => this.#readBegun(k),
        (found) => found.ids !== undefined,
      )
      if (!ids || hasHash(ids, hash)) return true
    }
    return false
  }

  /**
   * Returns the passes with this id from the newest segment that names it. Damaged indexes are skipped. Throws IndexesUnread if it found none and not all
   * indexes were read yet.
   */
  async keysOf(id: string): Promise<PassKey[]> {
    const { segments, isOlder, unread } = await this.#segmentsOf(id)
    for (const k of segments) {
      const { passes, last_time } = await this.#index(k)
      const found = [...passes.values()].filter(({ key }) => key.id === id)
      if (found.length > 0 || isOlder(last_time)) return found.map(({ key }) => key)
    }
    if (unread > 0) throw this.#unread(unread)
    return []
  }

  /**
   * Returns true if a message of a sealed segment keeps a part. The indexes only select the segments to read: they contain hashes, and those of earlier
   * versions also list parts that another agent merely named. A damaged segment counts as keeping every part. Returns `undefined` if not all indexes were
   * read yet.
   */
  async keepsPart(part: string, subjects: Subjects): Promise<boolean | undefined> {
    const segments = await this.finder.segmentsNaming(part)
    if (!segments) return undefined
    for (const k of segments) {
      const { names } = await this.#parts.of(
        k,
        () => this.#readParts(k, subjects),
        (found) => found.names !== 'any',
      )
      if (names === 'any' || names.has(part)) return true
    }
    return false
  }

  async #readParts(k: number, subjects: Subjects): Promise<{ names: ReadonlySet<string> | 'any' }> {
    try {
      const names = new Set<string>()
      for (const stored of (await this.#segment(k)).values())
        for (const name of ownedParts(stored, subjects.toFact(stored))) names.add(name)
      return { names }
    } catch (error) {
      if (error instanceof SegmentDamaged) return { names: 'any' }
      throw error
    }
  }

  /**
   * Returns the segments that may name an id, newest first. `unread` older ones may name it, too, because not all indexes were read yet. No segment
   * that ended before the time in the id names it (`isOlder`).
   */
  async #segmentsOf(id: string): Promise<{ segments: number[]; unread: number; isOlder: (last_time: number) => boolean }> {
    const since = (idTime(id) ?? 0) - ID_AHEAD_MS
    // A segment without messages has no time to compare.
    const isOlder = (last_time: number) => last_time > 0 && last_time < since
    const found = await this.finder.segmentsOf(id)
    if (found) return { segments: found, unread: 0, isOlder }
    const all = ((await this.#manifest.newest())?.k ?? -1) + 1
    const unread = Math.max(0, all - this.#mostSearched)
    return { segments: Array.from({ length: all - unread }, (_, back) => all - 1 - back), unread, isOlder }
  }

  #unread(unread: number): IndexesUnread {
    return new IndexesUnread(this.finder.read, unread + this.#mostSearched)
  }

  /** Reads the index of a sealed segment, bypassing the cache. Throws SegmentDamaged also if the index is missing. */
  async passesIn(k: number): Promise<IndexedPass[]> {
    const bytes = await this.#indexBytes(k)
    return bytes ? decodeIndex(bytes) : []
  }

  async #indexBytes(k: number): Promise<Uint8Array | undefined> {
    const entry = await this.#manifest.entry(k)
    const bytes = entry && !entry.removed ? await readIndex(this.#objects, entry) : undefined
    if (!entry || entry.removed || bytes) return bytes
    // The index is lost, unless the segment was removed or its index replaced just now.
    const now = await this.#manifest.entry(k)
    if (now?.index !== entry.index) return await this.#indexBytes(k)
    if (!now.removed) throw new SegmentDamaged(`object ${entry.index} is missing`, 0)
    return undefined
  }

  /** Forgets a removed segment. */
  forget(k: number): void {
    this.#segments.forget(k)
    this.#indexes.forget(k)
    this.#begun.forget(k)
    this.#parts.forget(k)
    this.finder.forget(k)
  }

  /** Drops the cached content of a segment, so that it is read again. */
  forgetCached(k: number): void {
    this.#segments.forget(k)
    this.#indexes.forget(k)
    this.#begun.forget(k)
    this.#parts.forget(k)
  }

  /** Reads a rewritten segment again. Its previous index stays in use until the new one has been read. */
  async renew(k: number): Promise<void> {
    this.forgetCached(k)
    const entry = await this.#manifest.entry(k)
    if (entry) await this.finder.renew(entry)
  }

  #segment(k: number): Promise<ReadonlyMap<number, StoredMessage>> {
    return this.#segments.of(
      k,
      () => this.#readSegment(k),
      (found) => found !== NO_MESSAGES,
    )
  }

  async #readSegment(k: number): Promise<ReadonlyMap<number, StoredMessage>> {
    const { frames } = (await readStanding(this.#manifest, this.#objects, k)) ?? {}
    if (!frames) return NO_MESSAGES
    const messages = new Map<number, StoredMessage>()
    for (const frame of frames) {
      if (frame.kind === 'event') messages.set(frame.event.sequence, storedOf(frame.event))
    }
    return messages
  }

  #index(k: number): Promise<Index> {
    return this.#indexes.of(
      k,
      () => this.#readIndex(k),
      ({ isSealed, damage }) => isSealed && !damage,
    )
  }

  async #readBegun(k: number): Promise<{ ids: Uint32Array | undefined }> {
    const { passes, isSealed, damage } = await this.#index(k)
    if (damage || !isSealed) return { ids: undefined }
    return { ids: hashesOf([...passes.values()].flatMap(({ key, begins }) => (begins === false ? [] : [key.id]))) }
  }

  async #readIndex(k: number): Promise<Index> {
    const entry = await this.#manifest.entry(k)
    const last_time = entry?.last_time ?? Number.POSITIVE_INFINITY
    const isSealed = entry !== undefined
    try {
      const bytes = await this.#indexBytes(k)
      const passes = new Map((bytes ? decodeIndex(bytes) : []).map((pass) => [keyText(pass.key), pass]))
      // The index has been rebuilt since it was found damaged.
      if (entry && this.finder.isDamaged(k)) await this.finder.renew(entry)
      return { passes, last_time, isSealed }
    } catch (error) {
      if (error instanceof SegmentDamaged) return { passes: new Map(), last_time, isSealed, damage: error }
      throw error
    }
  }
}

/** Returns the bytes of an index, or `undefined` if the object is missing. Throws SegmentDamaged if the object cannot be read. */
async function readIndex(objects: ObjectStore, { index }: ManifestEntry): Promise<Uint8Array | undefined> {
  try {
    return await objects.get(index)
  } catch (error) {
    if (error instanceof ObjectError) throw new SegmentDamaged(error.message, 0)
    throw error
  }
}

/** Returns the frames of a sealed segment after checking its bytes against the manifest. Throws SegmentDamaged. */
export async function readSegment(objects: ObjectStore, entry: ManifestEntry): Promise<Frame[]> {
  return [...(await framesIn(objects, entry))]
}

/** A sealed segment with the revision of its manifest entry. `frames` is `undefined` if the segment is removed. */
interface StandingSegment {
  entry: ManifestEntry
  revision: number
  frames: Frame[] | undefined
}

/**
 * Reads the current version of a segment. If its objects disappeared because it was rewritten or removed after its entry was read, reads the entry
 * again. Returns `undefined` if the segment is not sealed.
 *
 * @throws SegmentDamaged if its current objects are missing or damaged
 */
export async function readStanding(manifest: Manifest, objects: ObjectStore, k: number): Promise<StandingSegment | undefined> {
  for (let failed: { revision: number; error: unknown } | undefined; ; ) {
    const standing = await manifest.standing(k)
    if (!standing || standing.entry.removed) return standing && { ...standing, frames: undefined }
    if (failed?.revision === standing.revision) throw failed.error
    try {
      return { ...standing, frames: await readSegment(objects, standing.entry) }
    } catch (error) {
      if (!(error instanceof SegmentDamaged || error instanceof ObjectError)) throw error
      failed = { revision: standing.revision, error }
    }
  }
}

/** Returns the frames of a sealed segment one at a time, so that the caller can do other work between them. */
export async function framesIn(objects: ObjectStore, entry: ManifestEntry): Promise<Iterable<Frame>> {
  const stored = await objects.get(entry.object)
  if (!stored) throw new SegmentDamaged(`object ${entry.object} is missing`, 0)
  if (sha256(stored) !== entry.sha256) throw new SegmentDamaged(`object ${entry.object} differs from the sealed one`, 0)
  if (entry.compression !== 'gzip') return decodeFrames(stored)
  const { bytes, damage } = await unpackSegment(stored, entry)
  if (damage) throw damage
  return decodeFrames(bytes)
}

export type Verified = { ok: true; segments: number; events: number } | { ok: false; k: number; what: string }

/** Verifies the hash chain through all segments. Returns the first segment that is missing, changed or out of order. */
export async function verifyChain(manifest: Manifest, objects: ObjectStore): Promise<Verified> {
  let previous: ManifestEntry | undefined
  let events = 0
  const entries = await manifest.all()
  for (const entry of entries) {
    const { k } = entry
    if (previous && k !== previous.k + 1) return { ok: false, k: previous.k + 1, what: 'segment is missing' }
    const before = previous?.chain_after ?? Buffer.from(GENESIS).toString('hex')
    if (entry.chain_before !== before) return { ok: false, k, what: 'does not continue the chain' }
    const what = entry.removed ? undefined : await damageOf(objects, entry)
    if (what !== undefined) return { ok: false, k, what }
    events += entry.removed ? 0 : entry.count
    previous = entry
  }
  return { ok: true, segments: entries.length, events }
}

async function damageOf(objects: ObjectStore, entry: ManifestEntry): Promise<string | undefined> {
  try {
    return checkFrames(entry, await readSegment(objects, entry))
  } catch (error) {
    if (error instanceof SegmentDamaged) return error.message
    throw error
  }
}

/** Returns the first defect in the frames of a segment, or `undefined` if they are the ones that were sealed. */
export function checkFrames(entry: ManifestEntry, frames: readonly Frame[]): string | undefined {
  const range = segmentRange(entry.k)
  const chain = new Chain(Buffer.from(entry.chain_before, 'hex'))
  for (const frame of frames) {
    const sequence = frame.kind === 'event' ? frame.event.sequence : frame.sequence
    if (sequence < range.first || sequence > range.last) return `sequence ${sequence} does not belong here`
    chain.add(frame.digest)
  }
  if (frames.length !== entry.count) return `contains ${frames.length} events, not ${entry.count}`
  return chain.end() === entry.chain_after ? undefined : 'its events do not match its chain value'
}

const EMPTY = new Uint8Array(0)

/** Drops the body of a message. Subject, time and headers are sufficient here, and bodies would stay in memory until all messages are read. */
function withoutBody(stored: StoredMessage): StoredMessage {
  return { ...stored, data: EMPTY }
}
