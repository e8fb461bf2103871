import { ARCHIVE_BUCKET, Archive, Manifest } from '@passover/archive'
import { waitForTime } from '@passover/bus'
import { ACKNOWLEDGED_BUCKET, rebuildAckIndex } from '../acknowledgments/ack-index.js'
import { chunkEntry } from '../acknowledgments/sequence-bitmap.js'
import { archivePosition } from '../archive/archiver.js'
import { catchUp, createMessageHandler } from '../archive/catch-up.js'
import { sweepOrphanChunks, sweepOrphanObjects } from '../archive/orphan-sweep.js'
import { INBOX_BUCKET, Inbox, inboxEntry } from '../inbox/inbox.js'
import { isEmpty, projectionStart, seedRows } from '../projection/start-position.js'
import { DeadLetters } from '../queries/dead-letters.js'
import { storedRecord } from '../records/compact-record.js'
import { PASSES_BUCKET } from '../records/record-store.js'
import { watchAgents } from '../watchers/agent-watcher.js'
import { CustodyWatcher } from '../watchers/custody-watcher.js'
import { LoggingPolicy } from '../watchers/logging-policy.js'
import { RollbackDetector } from '../watchers/rollback-detector.js'
import { assemble } from './assemble.js'
import { openDeleter } from './open-deleter.js'
import { openQueries } from './open-queries.js'
import { forgetErased, openRemovalTasks } from './open-retention.js'
import type { AuditOptions } from './options.js'
import type { AuditDeps } from './parts.js'
import { RunningAudit } from './running-audit.js'

/**
 * Starts reading, projecting, archiving and answering. With `rebuild`, all records are rebuilt from the start of the stream, whatever the bucket
 * holds.
 *
 * @throws Error if the archive belongs to another stream, or a bucket does not exist
 */
export async function beginAudit(deps: AuditDeps, options: AuditOptions, how: { rebuild?: boolean } = {}): Promise<RunningAudit> {
  const { bus, log } = deps
  await waitForTime(bus, deps.clock)
  const [table, manifest, objects, waiting, chunks] = await Promise.all([
    bus.table(PASSES_BUCKET, storedRecord),
    Manifest.open(bus),
    bus.objects(ARCHIVE_BUCKET),
    bus.table(INBOX_BUCKET, inboxEntry),
    bus.table(ACKNOWLEDGED_BUCKET, chunkEntry),
  ])
  const inbox = new Inbox(waiting, deps.clock, log)
  const built = await inbox.load()
  // Comes before anything is opened that would have to be closed again: it may throw at every start until a person decides.
  const start = await archivePosition(bus, manifest)
  const { agents, revoked, watch } = await watchAgents(bus)
  const logging = await LoggingPolicy.open(bus, options.log_all_passes)
  const swept = await sweepOrphanObjects(manifest, objects)
  if (swept > 0) log.info({ objects: swept }, 'incomplete objects of a crash deleted')
  // A failure is only logged, because each erasure does the same sweep before it completes.
  await sweepOrphanChunks(bus, objects).catch((error: unknown) => log.warn({ err: error }, 'incomplete objects of a crash not deleted now'))
  const archive = new Archive(manifest, objects)
  const back = new RollbackDetector(deps)
  const custody = await CustodyWatcher.open({ bus, clock: deps.clock, log, sealed: start.newest?.k ?? -1, back })
  const parts = assemble(deps, options, { table, manifest, objects, archive, agents, revoked, logging, start, inbox, chunks, custody })
  let dead: DeadLetters | undefined
  const allRead = forgetErased(parts, { archive, dead: () => dead })
  const seeded = seedRows(table, parts.rows).catch((error: unknown) => {
    // Rows that are not cached are then looked up in the bucket.
    parts.rows.complete = false
    log.warn({ err: error }, 'newest records not read')
  })
  const { from, rebuild } = await projectionStart(parts, { table, start, built: built && how.rebuild !== true })
  if (await isEmpty(chunks)) await rebuildAckIndex(bus, parts.acknowledged, from)
  void parts.undelivered.scan(from)
  void parts.early.scan(deps, from)
  parts.projector.position = from - 1
  back.watch(parts.archiver)
  parts.archiver.onMissed = (what) => back.lose(what)
  const behind = await catchUp(bus, parts.archiver, back)
  const take = createMessageHandler(parts, behind)
  const reader = await bus.follow({ from, in_gulps: true, onRollback: back.onRollback }, (stored, fact) =>
    back.unlessLost(() => take(stored, fact)),
  )
  const indexed = parts.indexing.prepare(archive.finder)
  dead = options.answers ? await DeadLetters.start(bus, (name) => agents.has(name), back.onRollback) : undefined
  void Promise.all([indexed, seeded, dead?.caughtUp]).then(allRead)
  const removal = options.deletes ? openRemovalTasks(parts, { archive, objects }) : undefined
  const answering = dead && (await openQueries(parts, { archive, objects, dead, seeded, overdue: () => removal?.overdue() ?? [] }))
  log.info({ from, segment: parts.archiver.from, rebuild }, 'audit service started')
  const deleter = options.deletes ? await openDeleter(parts, { archive, objects }) : undefined
  const { finder } = archive
  return new RunningAudit(parts, { reader, behind, back, answering, watch, dead, deleter, removal, finder, rebuild: rebuild || !built })
}
