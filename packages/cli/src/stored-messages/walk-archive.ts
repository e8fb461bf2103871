import {
  type ArchivedEvent,
  type ArchiveFault,
  type ArchiveSource,
  Chain,
  decodeFrames,
  type Frame,
  GENESIS,
  type ManifestEntry,
  type SegmentBytes,
  SegmentDamaged,
  type SegmentValidation,
  segmentRange,
  sequenceOf,
  validateSegment,
} from '@passover/archive'
import type { ErasedDigest, RemovedSegmentEntry } from '@passover/core'
import { type PassKey, sha256 } from '@passover/schemas'

/** Chain value after an entry, with which a later verification is compared. */
export interface ChainValue {
  sequence: number
  hash: string
}

/** Callbacks for reading an archive and the stream after it. */
export interface ArchiveVisitor {
  /** May return a promise to delay the walk. */
  event(event: ArchivedEvent): Promise<void> | void
  /** `pass` is the pass it belonged to, if the index still has it. */
  erased(entry: ErasedDigest, pass?: PassKey): void
  /** Called for a segment that retention removed, after the messages that were kept from it. */
  removed?(told: RemovedSegmentEntry): void
  fault(fault: ArchiveFault): void
  /** Called with a chain value and the digests that follow it. */
  chain?(before: string, digests: readonly Uint8Array[]): void
  /** Called after a segment was read. May return a promise to delay the walk. */
  segment?(entry: ManifestEntry, frames: readonly Frame[], bytes: SegmentBytes): Promise<void> | undefined
  /** Returns true to stop the walk. */
  stop?(): boolean
}

export interface ArchiveWalk {
  segments: number
  entries: number
  /** Last value of the chain; `undefined` if the archive is empty. */
  head: ChainValue | undefined
  /** Values of the chain after each segment. */
  values: ChainValue[]
  /** Last entry of the manifest, even if its segment was skipped. */
  newest: ManifestEntry | undefined
  /** Set if the archive's oldest segments are no longer kept. The chain then begins with a value that nothing here proves. */
  begins: { k: number; chain: string } | undefined
  /** Number of segments that retention removed, and the time (server ms) of their newest message. */
  removed: { segments: number; up_to: number } | undefined
}

const DAY_MS = 86_400_000

export const GENESIS_HEX = Buffer.from(GENESIS).toString('hex')

/**
 * Reads an archive segment by segment, and checks each against its manifest entry, its index and the chain. Only one segment is in memory at a time.
 * Skips segments before `from`, and takes the chain value from the first one that is read.
 */
export async function walkArchive(source: ArchiveSource, visitor: ArchiveVisitor, from = 1): Promise<ArchiveWalk> {
  const walked: ArchiveWalk = {
    segments: 0,
    entries: 0,
    head: undefined,
    values: [],
    newest: undefined,
    begins: undefined,
    removed: undefined,
  }
  for (const listed of await source.entries()) {
    if (visitor.stop?.()) break
    const previous = walked.newest
    walked.newest = listed
    if (listed.last < from && listed.last > 0) continue
    const { entry, read } = await readCurrentSegment(source, listed)
    walked.newest = entry
    const broken = linkFault(entry, previous)
    if (broken !== undefined) visitor.fault({ k: entry.k, what: broken })
    const { last } = segmentRange(entry.k)
    if (entry.resume > last + 1)
      visitor.fault({ k: entry.k, what: `has the resume position ${entry.resume}, which is after its own end, ${last}` })
    if (!previous && (entry.k > 0 || entry.chain_before !== GENESIS_HEX)) walked.begins = { k: entry.k, chain: entry.chain_before }
    if (!read) {
      await passRemoved(source, visitor, { entry, walked })
      continue
    }
    const { bytes, frames, faults, passOf } = read
    for (const fault of faults) visitor.fault(fault)
    for (const frame of frames) {
      if (frame.kind === 'erased') visitor.erased(frame, passOf(frame.sequence))
      else await visitor.event(frame.event)
    }
    visitor.chain?.(
      entry.chain_before,
      frames.map(({ digest }) => digest),
    )
    await visitor.segment?.(entry, frames, bytes)
    walked.segments++
    walked.entries += frames.length
    walked.head = { sequence: frames.length > 0 ? sequenceOf(frames[frames.length - 1] as Frame) : entry.last, hash: entry.chain_after }
    walked.values.push(walked.head)
  }
  return walked
}

const MAX_ATTEMPTS = 20

export interface CurrentSegment {
  entry: ManifestEntry
  /** `undefined` if the segment was removed. */
  read: (SegmentValidation & { bytes: SegmentBytes }) | undefined
}

/**
 * Reads a segment. In a running installation it may have been rewritten or removed since it was listed, so its manifest entry is read again if the
 * segment has faults.
 */
export async function readCurrentSegment(source: ArchiveSource, listed: ManifestEntry): Promise<CurrentSegment> {
  let entry = listed
  for (let tries = 1; ; tries++) {
    if (entry.removed) return { entry, read: undefined }
    const bytes = { object: await source.object(entry.object), index: await source.object(entry.index) }
    const read = { bytes, ...(await validateSegment(entry, bytes)) }
    const next = read.faults.length > 0 && tries < MAX_ATTEMPTS ? await source.again?.(entry.k) : undefined
    if (!next || (!next.removed && next.object === entry.object && next.index === entry.index)) return { entry, read }
    entry = next
  }
}

/** Continues the chain through the entry of a removed segment, and visits the messages kept from it, which later entries are checked against. */
async function passRemoved(
  source: ArchiveSource,
  visitor: ArchiveVisitor,
  { entry, walked }: { entry: ManifestEntry; walked: ArchiveWalk },
): Promise<void> {
  const { k, removed } = entry
  if (!removed) return
  const kept = removed.kept && (await source.object(removed.kept.object))
  if (removed.kept && (!kept || sha256(kept) !== removed.kept.sha256)) {
    visitor.fault({ k, what: `the messages kept from it (${removed.kept.object}) are missing or were changed` })
  }
  const frames = kept ? readableIn(kept) : []
  for (const frame of frames) if (frame.kind === 'event') await visitor.event(frame.event)
  if (removed.at - entry.last_time < removed.retention_days * DAY_MS) {
    visitor.fault({ k, what: `was removed before its recorded retention of ${removed.retention_days} days was over` })
  }
  const empty = entry.count === 0
  if (empty && new Chain(Buffer.from(entry.chain_before, 'hex')).end() !== entry.chain_after) {
    visitor.fault({ k, what: 'is recorded as empty at its removal, but its chain value is not that of an empty segment' })
  }
  visitor.removed?.({
    k,
    ...segmentRange(k),
    count: entry.count,
    chain_before: entry.chain_before,
    chain_after: entry.chain_after,
    times: empty ? undefined : { first: entry.first_time, last: entry.last_time },
    at: removed.at,
    stored: await source.storedAt?.(k),
  })
  await visitor.segment?.(entry, frames, { object: kept, index: undefined })
  walked.removed = { segments: (walked.removed?.segments ?? 0) + 1, up_to: Math.max(walked.removed?.up_to ?? 0, entry.last_time) }
  walked.head = { sequence: entry.last, hash: entry.chain_after }
  walked.values.push(walked.head)
}

function readableIn(bytes: Uint8Array): Frame[] {
  try {
    return [...decodeFrames(bytes)]
  } catch (error) {
    if (error instanceof SegmentDamaged) return []
    throw error
  }
}

/** Returns why a segment does not continue the previous one. */
function linkFault(entry: ManifestEntry, previous: ManifestEntry | undefined): string | undefined {
  if (!previous) return undefined
  if (entry.k <= previous.k) return `comes after segment ${previous.k} in the manifest`
  if (entry.k > previous.k + 1) {
    const missing = entry.k - previous.k - 1
    return missing === 1
      ? `segment ${previous.k + 1} is missing before it`
      : `segments ${previous.k + 1} to ${entry.k - 1} are missing before it`
  }
  if (entry.index_sha256 === undefined && previous.index_sha256 !== undefined)
    return 'has no digest of its index, although earlier segments have one'
  return entry.chain_before === previous.chain_after
    ? undefined
    : `does not continue the chain: its chain value does not match the one after segment ${previous.k}`
}
