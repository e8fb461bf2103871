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
export { Archive, checkFrames, EARLIER_MS, framesIn, readSegment, readStanding, type Verified, verifyChain } from './archive/archive.js'
export { type ArchiveSource, ArchiveUnreadable, FolderWriter, folderArchive, liveArchive, savedWindow } from './archive/archive-source.js'
export { IdFinder } from './archive/id-index.js'
export { IdPages } from './archive/id-index-pages.js'
export { ARCHIVE_BUCKET, gapsIn, Manifest, type ManifestEntry, Missing, nextAfter, type RemovedSegment } from './archive/manifest.js'
export { type LocalSegment, sealLocal } from './archive/seal-in-memory.js'
export { runsOf } from './archive/segment-ranges.js'
export { type ArchiveFault, type Examined, examineSegment, faultText, type SegmentBytes } from './archive/validate-segment.js'
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
export { partName, partsKept } from './segment/part-references.js'
export {
  decodeIndex,
  encodeIndex,
  IndexBuilder,
  type IndexedPass,
  keyOfFact,
  PrintsBuilder,
} from './segment/pass-index.js'
export { type Compression, type Packed, type PackedSegment, type PackOptions, packBuffered, packStreamed } from './segment/write-segment.js'
