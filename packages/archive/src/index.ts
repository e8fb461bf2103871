/**
 * @passover/archive: what was stored, as files that tell when they were touched. Segments of frames, their index, their manifest, and the chain of
 * digests through all of them (docs/architecture/audit-archive.md#archive). The audit writes it; who verifies or searches it reads it here too.
 *
 * Invariants:
 * I1 Segment k holds exactly the messages k·4096 … (k+1)·4096−1 that were stored; its manifest entry is created once. Later its object may be another
 *    (entries erased) or gone (removed); what the chain says of it stays.
 * I2 The chain covers each event's digest of sequence, time, subject, headers and bytes: an erasure that keeps the digest leaves it whole.
 * I3 It gets tables and objects handed in, and knows neither NATS nor the rules of a pass.
 */
export {
  Archive,
  checkFrames,
  EARLY_MESSAGE_MS,
  framesIn,
  readSegment,
  readStanding,
  type Verified,
  verifyChain,
} from './archive/archive.js'
export { type ArchiveSource, ArchiveUnreadable, FolderWriter, folderArchive, liveArchive, savedWindow } from './archive/archive-source.js'
export { IdIndex } from './archive/id-index.js'
export { IdIndexPages } from './archive/id-index-pages.js'
export {
  ARCHIVE_BUCKET,
  findGaps,
  GapTracker,
  Manifest,
  type ManifestEntry,
  type RemovedSegment,
  sequenceAfter,
} from './archive/manifest.js'
export { type InMemorySegment, sealInMemory } from './archive/seal-in-memory.js'
export { segmentRanges } from './archive/segment-ranges.js'
export { type ArchiveFault, faultText, type SegmentBytes, type SegmentValidation, validateSegment } from './archive/validate-segment.js'
export { eventOf, SegmentBuffer, type SegmentFacts } from './segment/buffer.js'
export {
  type ArchivedEvent,
  Chain,
  decodeFrames,
  type ErasedEntry,
  encodeErased,
  encodeFrame,
  type Frame,
  frameSize,
  GENESIS,
  SEGMENT_SIZE,
  SegmentDamaged,
  segmentName,
  segmentOf,
  segmentRange,
  sequenceOf,
  writeFrame,
} from './segment/format.js'
export { ownedParts, partName } from './segment/part-references.js'
export {
  DigestIndexBuilder,
  decodeIndex,
  encodeIndex,
  IndexBuilder,
  type IndexedPass,
  keyOfFact,
} from './segment/pass-index.js'
export {
  type Compression,
  type SegmentSummary,
  type WriteOptions,
  type WrittenSegment,
  writeBufferedSegment,
  writeStreamedSegment,
} from './segment/write-segment.js'
