/**
 * @passover/archive: a tamper-evident archive of all stored messages. It consists of segments of frames, an index for each segment, the manifest, and
 * a chain of digests through all segments (docs/architecture/audit-archive.md#archive). The audit service writes it; `passover verify` and searches
 * read it through this package as well.
 *
 * Invariants:
 * I1 Segment k holds exactly the stored messages k·4096 … (k+1)·4096−1, and its manifest entry is created once. Later its object may be replaced
 *    (entries erased) or deleted (segment removed); its chain values stay.
 * I2 The chain covers the digest of each event, which covers its sequence, time, subject, headers and bytes. An erasure that keeps the digest does
 *    not break the chain.
 * I3 The package receives tables and objects from its caller. It knows neither NATS nor the rules of a pass.
 */
export {
  Archive,
  checkFrames,
  EARLY_MESSAGE_MS,
  framesIn,
  IndexesUnread,
  readSegment,
  readStanding,
  type Verified,
  verifyChain,
  withIndexes,
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
export { eventOf, SegmentBuffer, type SegmentFacts, storedOf } from './segment/buffer.js'
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
