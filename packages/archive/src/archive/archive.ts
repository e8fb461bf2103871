import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import { ObjectError, type ObjectStore, readHeaders, type StoredMessage } from '@passover/bus'
import { idTime, keyText, type PassKey, sha256 } from '@passover/schemas'
import { Chain, decodeFrames, type Frame, GENESIS, SegmentDamaged, segmentOf, segmentRange } from '../segment/format.js'
import { decodeIndex, type IndexedPass } from '../segment/pass-index.js'
import { hasHash, hashesOf, hashOf, IdIndex } from './id-index.js'
import type { Manifest, ManifestEntry } from './manifest.js'
import { ReadCache } from './read-cache.js'

const gunzipAsync = promisify(gunzip)
/** How many unpacked segments and indexes are kept for the next question. */
const CACHED_SEGMENTS = 2
const CACHED_INDEXES = 16
/** Of so many segments the ids that begin there are kept as hashes, 4 bytes each and at most 4,096 a segment. */
const CACHED_FIRST_STEPS = 1_024
/** How far back a pass is looked for by index alone. */
const MAX_INDEXES_SEARCHED = 512
/** An id's time is its maker's: admission lets it be ahead by less. */
const ID_AHEAD_MS = 3_600_000
/**
 * So long before the request that its steps name something may be stored of a pass: a cancel, where the request had to be sent again; another
 * request for its id, where the dispatcher that was handed it stood still.
 */
export const EARLY_MESSAGE_MS = 45_000

interface Index {
  passes: Map<string, IndexedPass>
  /** Server's time of the segment's last message. */
  last_time: number
  isSealed: boolean
  /** It cannot be read: what it says of is not known. */
  damage?: SegmentDamaged
}

/** Not sealed yet, or no longer kept. */
const NO_MESSAGES: ReadonlyMap<number, StoredMessage> = new Map()

/** Reads what was archived. */
export class Archive {
  private readonly segments = new ReadCache<ReadonlyMap<number, StoredMessage>>(CACHED_SEGMENTS)
  private readonly indexes = new ReadCache<Index>(CACHED_INDEXES)
  /** Hashes of the ids that begin in a segment; undefined: it is not known. */
  private readonly begun = new ReadCache<{ ids: Uint32Array | undefined }>(CACHED_FIRST_STEPS)

  /** Large parts that the messages of a segment keep. */
  private readonly parts = new ReadCache<{ names: ReadonlySet<string> | 'any' }>(CACHED_INDEXES)

  /** Until it has read all indexes, a pass is looked for in the newest segments only. */
  readonly finder: IdIndex

  constructor(
    private readonly manifest: Manifest,
    private readonly objects: ObjectStore,
  ) {
    this.finder = new IdIndex(manifest, (k) => this.indexBytes(k))
  }

  /** The archived messages of these sequences, in order; those that no segment holds are left out. */
  async messages(
    sequences: readonly number[],
    keep: (stored: StoredMessage) => StoredMessage = (stored) => stored,
  ): Promise<StoredMessage[]> {
    const found: StoredMessage[] = []
    for (const sequence of [...sequences].sort((a, b) => a - b)) {
      const message = (await this.segment(segmentOf(sequence))).get(sequence)
      if (message) found.push(keep(message))
    }
    return found
  }

  /**
   * Sequences of a pass by the indexes, newest segments first, down to what is older than the request which its steps name
   * (`requestIn`) by `EARLY_MESSAGE_MS`, or older than its id. Its messages may be far apart. Throws SegmentDamaged where an index may say more.
   */
  async sequencesOf(key: PassKey, requestIn: (stored: StoredMessage) => number | undefined = () => undefined): Promise<number[]> {
    const since = (idTime(key.id) ?? 0) - ID_AHEAD_MS
    const found: number[] = []
    let lowest = 0
    let oldest = Number.POSITIVE_INFINITY
    for (const k of await this.segmentsOf(key.id)) {
      const { passes, last_time, damage } = await this.index(k)
      // One that holds nothing says nothing of when.
      if (k < segmentOf(lowest) && last_time > 0 && last_time < oldest - EARLY_MESSAGE_MS) break
      const pass = passes.get(keyText(key))
      if (pass) {
        found.unshift(...pass.sequences)
        for (const stored of await this.messages(pass.sequences, withoutBody)) {
          lowest = Math.max(lowest, requestIn(stored) ?? 0)
          oldest = Math.min(oldest, stored.time)
        }
      } else if (last_time < since) break
      else if (damage) throw damage
    }
    return found
  }

  /** Sequences of a pass that the indexes of segments after k name. Throws SegmentDamaged where an index may say more. */
  async sequencesAfter(key: PassKey, k: number): Promise<number[]> {
    const found: number[] = []
    for (const later of await this.segmentsOf(key.id)) {
      if (later <= k) continue
      const { passes, damage } = await this.index(later)
      const pass = passes.get(keyText(key))
      if (pass) found.push(...pass.sequences)
      else if (damage) throw damage
    }
    return found
  }

  /**
   * Whether a segment may hold the first step of a pass, by the indexes alone. False is certain: all of them were read, and none says so.
   * A pass that nothing began may be named in any number of segments.
   */
  async mayBegin(key: PassKey): Promise<boolean> {
    if (!this.finder.complete) return (await this.manifest.newest()) !== undefined
    const hash = hashOf(key.id)
    for (const k of await this.segmentsOf(key.id)) {
      const { ids } = await this.begun.of(
        k,
        () => this.readBegun(k),
        (found) => found.ids !== undefined,
      )
      if (!ids || hasHash(ids, hash)) return true
    }
    return false
  }

  /** Passes with this id, those of the newest segment that speaks of it. A damaged index says nothing. */
  async keysOf(id: string): Promise<PassKey[]> {
    const found = new Map<string, PassKey>()
    for (const k of await this.segmentsOf(id)) {
      for (const [text, { key }] of (await this.index(k)).passes) if (key.id === id) found.set(text, key)
      if (found.size > 0) break
    }
    return [...found.values()]
  }

  /**
   * Whether a message of a sealed segment keeps a part, as `kept` reads messages. Indexes say only which segments to read: they have hashes, and
   * those of earlier versions also list parts that another agent only named. A damaged segment may keep any. Undefined: not all indexes were read yet.
   */
  async keepsPart(part: string, kept: (stored: StoredMessage) => Iterable<string>): Promise<boolean | undefined> {
    const segments = await this.finder.segmentsNaming(part)
    if (!segments) return undefined
    for (const k of segments) {
      const { names } = await this.parts.of(
        k,
        () => this.readParts(k, kept),
        (found) => found.names !== 'any',
      )
      if (names === 'any' || names.has(part)) return true
    }
    return false
  }

  private async readParts(k: number, kept: (stored: StoredMessage) => Iterable<string>): Promise<{ names: ReadonlySet<string> | 'any' }> {
    try {
      const names = new Set<string>()
      for (const stored of (await this.segment(k)).values()) for (const name of kept(stored)) names.add(name)
      return { names }
    } catch (error) {
      if (error instanceof SegmentDamaged) return { names: 'any' }
      throw error
    }
  }

  /** Whether what is not found is not there: until all indexes are read, only the newest are looked through. */
  async findsAll(): Promise<boolean> {
    return this.finder.complete || ((await this.manifest.newest())?.k ?? 0) < MAX_INDEXES_SEARCHED
  }

  /** Segments that may speak of an id, newest first. */
  private async segmentsOf(id: string): Promise<number[]> {
    const found = await this.finder.segmentsOf(id)
    if (found) return found
    const newest = await this.manifest.newest()
    const count = Math.min(MAX_INDEXES_SEARCHED, (newest?.k ?? -1) + 1)
    return Array.from({ length: count }, (_, back) => (newest?.k ?? 0) - back)
  }

  /** What the index of one sealed segment says; it is read anew. Throws SegmentDamaged where it is not there, too. */
  async passesIn(k: number): Promise<IndexedPass[]> {
    const bytes = await this.indexBytes(k)
    return bytes ? decodeIndex(bytes) : []
  }

  private async indexBytes(k: number): Promise<Uint8Array | undefined> {
    const entry = await this.manifest.entry(k)
    const bytes = entry && !entry.removed ? await readIndex(this.objects, entry) : undefined
    if (!entry || entry.removed || bytes) return bytes
    // It is lost, unless it was taken away just now.
    const now = await this.manifest.entry(k)
    if (now?.index !== entry.index) return await this.indexBytes(k)
    if (!now.removed) throw new SegmentDamaged(`object ${entry.index} is missing`, 0)
    return undefined
  }

  /** A segment is gone. */
  forget(k: number): void {
    this.segments.forget(k)
    this.indexes.forget(k)
    this.begun.forget(k)
    this.parts.forget(k)
    this.finder.forget(k)
  }

  /** What was unpacked of a segment is unpacked anew. */
  forgetCached(k: number): void {
    this.segments.forget(k)
    this.indexes.forget(k)
    this.begun.forget(k)
    this.parts.forget(k)
  }

  /** A segment was written anew: what it said before stands until it is read again. */
  async renew(k: number): Promise<void> {
    this.forgetCached(k)
    const entry = await this.manifest.entry(k)
    if (entry) await this.finder.renew(entry)
  }

  private segment(k: number): Promise<ReadonlyMap<number, StoredMessage>> {
    return this.segments.of(
      k,
      () => this.readSegment(k),
      (found) => found !== NO_MESSAGES,
    )
  }

  private async readSegment(k: number): Promise<ReadonlyMap<number, StoredMessage>> {
    const { frames } = (await readStanding(this.manifest, this.objects, k)) ?? {}
    if (!frames) return NO_MESSAGES
    const messages = new Map<number, StoredMessage>()
    for (const frame of frames) {
      if (frame.kind === 'event') messages.set(frame.event.sequence, { ...frame.event, headers: readHeaders(frame.event.headers) })
    }
    return messages
  }

  private index(k: number): Promise<Index> {
    return this.indexes.of(
      k,
      () => this.readIndex(k),
      ({ isSealed, damage }) => isSealed && !damage,
    )
  }

  private async readBegun(k: number): Promise<{ ids: Uint32Array | undefined }> {
    const { passes, isSealed, damage } = await this.index(k)
    if (damage || !isSealed) return { ids: undefined }
    return { ids: hashesOf([...passes.values()].flatMap(({ key, begins }) => (begins === false ? [] : [key.id]))) }
  }

  private async readIndex(k: number): Promise<Index> {
    const entry = await this.manifest.entry(k)
    const last_time = entry?.last_time ?? Number.POSITIVE_INFINITY
    const isSealed = entry !== undefined
    try {
      const bytes = await this.indexBytes(k)
      const passes = new Map((bytes ? decodeIndex(bytes) : []).map((pass) => [keyText(pass.key), pass]))
      // Somebody made it anew since.
      if (entry && this.finder.isDamaged(k)) await this.finder.renew(entry)
      return { passes, last_time, isSealed }
    } catch (error) {
      if (error instanceof SegmentDamaged) return { passes: new Map(), last_time, isSealed, damage: error }
      throw error
    }
  }
}

/** Undefined: it is not there. Throws SegmentDamaged. */
async function readIndex(objects: ObjectStore, { index }: ManifestEntry): Promise<Uint8Array | undefined> {
  try {
    return await objects.get(index)
  } catch (error) {
    if (error instanceof ObjectError) throw new SegmentDamaged(error.message, 0)
    throw error
  }
}

/** The frames of a sealed segment, its bytes checked against the manifest. Throws SegmentDamaged. */
export async function readSegment(objects: ObjectStore, entry: ManifestEntry): Promise<Frame[]> {
  return [...(await framesIn(objects, entry))]
}

/** A sealed segment with the revision of its entry. `frames` undefined: it is removed. */
interface StandingSegment {
  entry: ManifestEntry
  revision: number
  frames: Frame[] | undefined
}

/**
 * A segment as it stands: one whose objects are gone since somebody wrote it anew, or removed it, after its entry was read is read again.
 * Undefined: it is not sealed. Throws SegmentDamaged.
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

/** The frames of a sealed segment one by one, for who has other things to do between them. */
export async function framesIn(objects: ObjectStore, entry: ManifestEntry): Promise<Iterable<Frame>> {
  const stored = await objects.get(entry.object)
  if (!stored) throw new SegmentDamaged(`object ${entry.object} is missing`, 0)
  if (sha256(stored) !== entry.sha256) throw new SegmentDamaged(`object ${entry.object} is not what was sealed`, 0)
  const raw = entry.compression === 'gzip' ? await gunzipAsync(stored) : stored
  return decodeFrames(raw)
}

export type Verified = { ok: true; segments: number; events: number } | { ok: false; k: number; what: string }

/** Follows the hash chain through every segment; names the first one that is missing, changed or out of order. */
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

/** What is wrong with a segment's frames; undefined when they are those that were sealed. */
export function checkFrames(entry: ManifestEntry, frames: readonly Frame[]): string | undefined {
  const range = segmentRange(entry.k)
  const chain = new Chain(Buffer.from(entry.chain_before, 'hex'))
  for (const frame of frames) {
    const sequence = frame.kind === 'event' ? frame.event.sequence : frame.sequence
    if (sequence < range.first || sequence > range.last) return `sequence ${sequence} does not belong here`
    chain.add(frame.digest)
  }
  if (frames.length !== entry.count) return `holds ${frames.length} events, not ${entry.count}`
  return chain.end() === entry.chain_after ? undefined : 'its events do not add up to the chain'
}

const EMPTY = new Uint8Array(0)

/** Subject, time and headers are enough, and bodies would be held until all are read. */
function withoutBody(stored: StoredMessage): StoredMessage {
  return { ...stored, data: EMPTY }
}
