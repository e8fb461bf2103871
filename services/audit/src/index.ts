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
export { storedRecord } from './brief.js'
export { createdAt, describeChecked } from './describe.js'
export { startAudit } from './healing.js'
export { INBOX_BUCKET } from './inbox.js'
export type { AuditStats } from './metrics.js'
export { type AuditOptions, type AuditSettings, auditOptions } from './options.js'
export type { AuditDeps } from './parts.js'
export { runAudit } from './process.js'
export { PASSES_BUCKET, recordFilter, recordKey } from './records.js'
export { deletePass, deletionOrder } from './retention.js'
export type { AuditRunning } from './running.js'
export { Histogram } from './search/histogram.js'
export { Logged } from './walk/logged.js'
export { IndexesLost, type RebuildOptions, type RebuildProgress, type Rebuilt, rebuildRecords } from './walk/rebuild.js'
export { Spool } from './walk/spool.js'
export { type WalkDeps, type Walked, walkPasses } from './walk/walk.js'
