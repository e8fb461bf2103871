import { ARCHIVE_BUCKET, Archive, Manifest } from '@passover/archive'
import type { ObjectStore, Table } from '@passover/bus'
import { type AgentRecord, keyText, makeInstance, type PassKey, type PassRecord, SYSTEM } from '@passover/schemas'
import { ACKNOWLEDGED_BUCKET, Acknowledged, reread } from './acknowledged.js'
import { type AnswerDeps, answerQuestions } from './answer.js'
import { Archiver, archivePosition, sweepOrphans } from './archive.js'
import { briefOf, storedRecord } from './brief.js'
import { catchUp, takes } from './catch-up.js'
import { type ChunkEntry, chunkEntry } from './chunk.js'
import { DeadLetters } from './dead-letters.js'
import { createdAt, describeChecked } from './describe.js'
import { EndedPasses } from './ended-passes.js'
import { Expiries } from './expiries.js'
import { INBOX_BUCKET, Inbox, inboxEntry } from './inbox.js'
import type { Loaded } from './load.js'
import { Logging } from './logging.js'
import { openDeleter } from './open-deleter.js'
import type { AuditOptions } from './options.js'
import { Projector } from './project.js'
import { Query } from './query.js'
import { isKept, PASSES_BUCKET, Records, recordFilter, recordKey, type Slot, tellsMore } from './records.js'
import { Reloads } from './reload.js'
import { CustodyWatch } from './removal/custody-watch.js'
import { forgetsErased, openRemoval, sessionDeps } from './removal/removal.js'
import { Rows } from './rows.js'
import { type AuditDeps, type Parts, RunningAudit } from './running.js'
import { SchemaChecks } from './schema-checks.js'
import { Indexing } from './search/indexing.js'
import { OlderPasses } from './search/older.js'
import { PassIndex } from './search/pass-index.js'
import { PassSearch } from './search/pass-search.js'
import { beginOf } from './search/pending.js'
import { type ArchiveStart, isEmpty, projectionStart, seed } from './start.js'
import { Undelivered } from './undelivered.js'
import { untilRead } from './until-read.js'
import { Violations } from './violations.js'
import { watchAgents } from './watch-agents.js'

/**
 * Starts reading, projecting, archiving and answering. Throws where the archive belongs to another stream, or the buckets are not there.
 * `rebuild`: the records are made again from the stream's start, whatever the bucket holds.
 */
export async function beginAudit(deps: AuditDeps, options: AuditOptions, how: { rebuild?: boolean } = {}): Promise<RunningAudit> {
  const { bus, log } = deps
  const rules = { id_window_ms: options.id_window_ms }
  const [table, manifest, objects, waiting, chunks] = await Promise.all([
    bus.table(PASSES_BUCKET, storedRecord),
    Manifest.open(bus),
    bus.objects(ARCHIVE_BUCKET),
    bus.table(INBOX_BUCKET, inboxEntry),
    bus.table(ACKNOWLEDGED_BUCKET, chunkEntry),
  ])
  const inbox = new Inbox(waiting, deps.clock, log)
  const built = await inbox.load()
  const { agents, watch } = await watchAgents(bus)
  const logging = await Logging.open(bus, options.log_all_passes)
  const start = await archivePosition(bus, manifest)
  const swept = await sweepOrphans(manifest, objects)
  if (swept > 0) log.info({ objects: swept }, 'objects of a crash swept')
  const archive = new Archive(manifest, objects)
  const custody = await CustodyWatch.open({ bus, log, sealed: start.newest?.k ?? -1 })
  const parts = assemble(deps, options, { table, manifest, objects, archive, agents, logging, start, inbox, chunks, custody })
  let dead: DeadLetters | undefined
  const allRead = forgetsErased(parts, { archive, dead: () => dead })
  const seeded = seed(table, parts.rows).catch((error: unknown) => {
    // What is not known is then looked for in the bucket.
    parts.rows.complete = false
    log.warn({ err: error }, 'newest records not read')
  })
  const { from, rebuild } = await projectionStart(parts, { table, start, built: built && how.rebuild !== true })
  if (await isEmpty(chunks)) await reread(bus, parts.acknowledged, from)
  void parts.undelivered.scan(from)
  parts.projector.position = from - 1
  const behind = await catchUp(bus, parts.archiver)
  const reader = await bus.follow({ from, in_gulps: true }, takes(parts, behind))
  const { indexing, index, projector } = parts
  const indexed = indexing.prepare(archive.finder)
  const search = new PassSearch({
    bus,
    clock: deps.clock,
    archive,
    rules,
    table,
    index,
    indexing,
    projector,
    acknowledged: parts.acknowledged,
    check: parts.schemas.check,
    older: new OlderPasses({ bus, clock: deps.clock, archive, rules, has: (key) => index.has(key), check: parts.schemas.check }),
  })
  const query = new Query({
    bus,
    acknowledged: parts.acknowledged,
    projector: parts.projector,
    rows: parts.rows,
    seeded,
    table,
    archive,
    agents,
    rules,
    index,
    indexing: parts.indexing,
  })
  dead = options.answers ? await DeadLetters.start(bus, (name) => agents.has(name)) : undefined
  void Promise.all([indexed, seeded, dead?.caughtUp]).then(allRead)
  const answering = dead && (await answerQuestions(bus, answerDeps(parts, { archive, query, dead, search })))
  log.info({ from, segment: parts.archiver.from, rebuild }, 'audit reads')
  const deleter = options.deletes ? await openDeleter(parts, { archive, objects }) : undefined
  const removal = options.deletes ? openRemoval(parts, { archive, objects }) : undefined
  const { finder } = archive
  return new RunningAudit(parts, { reader, behind, answering, watch, dead, deleter, removal, finder, rebuild: rebuild || !built })
}

interface Stores {
  table: Table<PassRecord>
  manifest: Manifest
  objects: ObjectStore
  archive: Archive
  agents: Map<string, AgentRecord>
  logging: Logging
  start: ArchiveStart
  inbox: Inbox
  chunks: Table<ChunkEntry>
  custody: CustodyWatch
}

function assemble(deps: AuditDeps, options: AuditOptions, stores: Stores): Parts {
  const { bus, clock, log, random } = deps
  const { table, manifest, objects, archive, agents, logging, start, inbox } = stores
  const rules = { id_window_ms: options.id_window_ms }
  const records = new Records(table, clock, log)
  const rows = new Rows()
  const ended = new EndedPasses()
  const index = new PassIndex(Buffer.from(random.bytes(4)).readUInt32LE())
  const indexing = new Indexing({ table, index, clock, log })
  const violations = new Violations(bus, clock, log)
  const acknowledged = new Acknowledged(stores.chunks, clock, log)
  const outputs = deps.schemas
  const schemas = new SchemaChecks(outputs && ((schema, value) => outputs.check(schema, value)))
  const reloads: Reloads = new Reloads({
    bus,
    clock,
    log,
    archive,
    rules,
    position: () => projector.position,
    hasRecord: (key) => hasRecord(table, key, tellsMore),
    onLoaded: (loaded) => keepLoaded({ table, records, rows, violations, schemas, inbox, undelivered, indexing, logging, options }, loaded),
  })
  const expiries = new Expiries({ bus, archive, rules, inbox, log, check: schemas.check })
  const waiting = { bus, archive, rules, clock, log, index: acknowledged, agents }
  const undelivered = new Undelivered({ ...waiting, untilRead: (sequence) => untilRead({ deps, projector }, sequence) })
  acknowledged.onTaken = (originator, sequences) => undelivered.acknowledged(originator, sequences)
  const isAgent = (name: string) => agents.has(name)
  const { open_ms, request_ms, ended_bytes } = options
  const projector: Projector = new Projector(
    { log, rules, records, rows, ended, reloads, violations, schemas, inbox, undelivered, acknowledged, indexing, isAgent },
    { writes: () => logging.on, open_ms, request_ms, ended_bytes },
  )
  const archiver = new Archiver(
    {
      bus,
      clock,
      log,
      manifest,
      objects,
      custody: stores.custody,
      needed: () => Math.min(projector.needed() ?? Number.POSITIVE_INFINITY, projector.position + 1),
    },
    { compression: options.compression, buffer_bytes: options.buffer_bytes, instance: makeInstance(random) },
    start,
  )
  return {
    deps,
    options,
    custody: stores.custody,
    projector,
    archiver,
    records,
    reloads,
    violations,
    schemas,
    manifest,
    agents,
    logging,
    rows,
    ended,
    index,
    indexing,
    inbox,
    expiries,
    acknowledged,
    undelivered,
    table,
  }
}

/** Whether one of its records, which a late request may have a second of, is such. */
async function hasRecord(table: Table<PassRecord>, key: PassKey, such: (record: PassRecord) => boolean): Promise<boolean> {
  for await (const { value } of table.entries(recordFilter(key))) if (such(value)) return true
  return false
}

/** What was read of a pass again becomes its record; what it shows to be impossible is recorded. */
async function keepLoaded(
  parts: Pick<Parts, 'records' | 'rows' | 'violations' | 'schemas' | 'inbox' | 'undelivered' | 'indexing' | 'logging' | 'options'> & {
    table: Table<PassRecord>
  },
  loaded: Loaded,
): Promise<boolean> {
  const { memory } = loaded
  const { table, records, rows, violations, schemas, inbox, undelivered, indexing, logging, options } = parts
  violations.reportLoaded(loaded)
  // Nothing but impossible steps is no pass, and must not stand where one stood.
  if (memory.journal.state === 'none' && !memory.request) return true
  const { record, row } = await describeChecked(memory, { id_window_ms: options.id_window_ms }, schemas.check)
  rows.put(row)
  inbox.note(record, memory.first)
  undelivered.note(memory)
  // A record that is there stays true.
  if (!logging.on && !(await hasRecord(table, memory.key, isKept))) return true
  const slot: Slot = { key: recordKey(memory.key, createdAt(record), record.session_id) }
  const stored = briefOf(memory)?.stored ?? record
  const written = await records.write(slot, stored)
  if (written && slot.revision !== undefined) indexing.note(stored, row, slot.revision)
  return written
}

function answerDeps(parts: Parts, found: { archive: Archive; query: Query; dead: DeadLetters; search: PassSearch }): AnswerDeps {
  const { deps, options, agents, projector } = parts
  return {
    ...found,
    bus: deps.bus,
    log: deps.log,
    inbox: parts.inbox,
    custody: parts.custody,
    sessions: sessionDeps(parts, found.archive),
    index: parts.index,
    indexing: parts.indexing,
    acknowledged: parts.acknowledged,
    untilRead: (sequence) => untilRead(parts, sequence),
    rules: { id_window_ms: options.id_window_ms },
    check: parts.schemas.check,
    seesAll: (name) => seesAll(name, options, agents),
    requestOf: (key) => projector.notes.find(keyText(key))?.sequence,
    beginOf: (key) => beginOf(projector.find(keyText(key))) ?? parts.index.firstOf(key),
  }
}

/** I6: a person is known for one; only where the server is one person's own is everybody who is no registered agent. */
export function seesAll(
  asker: string,
  { people, open }: Pick<AuditOptions, 'people' | 'open'>,
  agents: { has(name: string): boolean },
): boolean {
  return asker === SYSTEM || people.includes(asker) || (open && !agents.has(asker))
}
