/**
 * The audit: remembers. It reads everything that is stored, in order, projects it into one record a pass (KV `passes`), archives it as numbered
 * segments (objects `archive`), and answers what became of a pass.
 *
 * Invariants (the code cites them):
 * I1  It only watches: of the stream it changes nothing but by adding violations, and by exact deletions of what is archived and closed.
 * I2  A record is a pure function of the pass's messages. It is written by compare-and-set and never over one that knows more; deleting
 *     the bucket and starting again gives the same bytes.
 * I3  Segment k holds exactly the messages k·4096 … (k+1)·4096−1 that were stored; its manifest entry is created once. A crash anywhere, and
 *     replicas side by side, leave no gap and no double, and the chain of digests runs through all of them.
 * I4  A restart reads on from the newest segment, or earlier where a record of before was not yet acknowledged when it was sealed.
 * I5  What the fold calls impossible is recorded as one violation, however many replicas and restarts see it.
 * I6  Who is not known for a person is told about its own passes only.
 * I7  Memory is bounded by what is open: what ended leaves it, bodies and segments have limits, and the reader waits for its writes.
 */

export { deletePass, deletionOrder } from './deletion/deletion-order.js'
export { INBOX_BUCKET } from './inbox/inbox.js'
export { LoggingHistory } from './rebuild/logging-history.js'
export { IndexesLost, type RebuildOptions, type RebuildProgress, type Rebuilt, rebuildRecords } from './rebuild/rebuild.js'
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
