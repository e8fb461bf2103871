/**
 * The audit service reads every message of the stream in order, projects them into one record per pass (KV `passes`), archives them as numbered
 * segments (objects `archive`), and answers queries about passes.
 *
 * Invariants (the code cites them):
 * I1  The audit never decides the state of a pass. It adds events and empty acknowledgments to the stream, and deletes single messages that are
 *     archived and belong to closed passes, or that an erasure covers.
 * I2  A record is a pure function of the pass's messages. It is written by compare-and-set and never replaces one built from more messages.
 *     Deleting the bucket and starting again gives the same bytes.
 * I3  Segment k holds exactly the stored messages with the sequences k·4096 … (k+1)·4096−1; its manifest entry is created once. Crashes and
 *     concurrent replicas leave no gap and no duplicate, and the chain of digests runs through all segments.
 * I4  A restart resumes after the newest segment, or earlier if records of older messages were not yet acknowledged when it was sealed.
 * I5  A message that the fold calls impossible is recorded as one violation, however many replicas and restarts read it.
 * I6  An asker that is not a known person gets answers about its own passes only.
 * I7  Memory is bounded by the open passes: ended passes leave it, bodies and segments have limits, and the reader waits for its writes.
 */

export { deletePass, deletionOrder } from './deletion/deletion-order.js'
export { INBOX_BUCKET } from './inbox/inbox.js'
export { LoggingHistory } from './rebuild/logging-history.js'
export { IndexesLost, type RebuildOptions, type RebuildProgress, type Rebuilt, rebuildRecords } from './rebuild/rebuild.js'
export type { Repair, RepairCounts } from './rebuild/record-repair.js'
export { ReverseSpool } from './rebuild/reverse-spool.js'
export { type WalkDeps, type WalkedPass, walkPasses } from './rebuild/walk-passes.js'
export { buildCheckedRecord, createdAt } from './records/build-record.js'
export { storedRecord } from './records/compact-record.js'
export { PASSES_BUCKET, recordFilter, recordKey } from './records/record-store.js'
export { Histogram } from './search/histogram.js'
export type { AuditStats } from './service/metrics.js'
export { type AuditOptions, type AuditSettings, auditOptions } from './service/options.js'
export type { AuditDeps } from './service/parts.js'
export { runAudit } from './service/process.js'
export type { AuditRunning } from './service/running-audit.js'
export { startAudit } from './service/supervisor.js'
