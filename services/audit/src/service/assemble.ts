import type { Archive, Manifest } from '@passover/archive'
import type { ObjectStore, Table } from '@passover/bus'
import { type AgentRecord, makeInstance, type PassKey, type PassRecord } from '@passover/schemas'
import { AckIndex } from '../acknowledgments/ack-index.js'
import type { ChunkEntry } from '../acknowledgments/sequence-bitmap.js'
import { Archiver } from '../archive/archiver.js'
import { ApprovalExpiry } from '../inbox/approval-expiry.js'
import type { Inbox } from '../inbox/inbox.js'
import type { LoadedPass } from '../pass/load-pass.js'
import { DeliveryDeadlines } from '../projection/delivery-deadlines.js'
import { EarlyIdFilter } from '../projection/early-id-filter.js'
import { EndedMetrics } from '../projection/ended-metrics.js'
import { PassReloader } from '../projection/pass-reloader.js'
import { Projector } from '../projection/projector.js'
import type { ArchiveStart } from '../projection/start-position.js'
import { Violations } from '../projection/violations.js'
import { waitForPosition } from '../projection/wait-for-position.js'
import { buildCheckedRecord, createdAt } from '../records/build-record.js'
import { compactRecordOf } from '../records/compact-record.js'
import { hasBegun, isLasting, RecordStore, recordFilter, recordKey, type Slot } from '../records/record-store.js'
import { MAX_ROWS, RowCache } from '../records/row-cache.js'
import { SchemaChecks } from '../records/schema-checks.js'
import { Indexer } from '../search/index/indexer.js'
import { PassIndex } from '../search/index/pass-index.js'
import { MemoryListing } from '../search/memory-listing.js'
import type { RevokedAgents } from '../watchers/agent-watcher.js'
import type { CustodyWatcher } from '../watchers/custody-watcher.js'
import type { LoggingPolicy } from '../watchers/logging-policy.js'
import { type AuditOptions, rulesOf } from './options.js'
import type { AuditComponents, AuditDeps } from './parts.js'

/** Stores and watchers that were opened before the parts are assembled. */
interface OpenedStores {
  table: Table<PassRecord>
  manifest: Manifest
  objects: ObjectStore
  archive: Archive
  agents: Map<string, AgentRecord>
  revoked: RevokedAgents
  logging: LoggingPolicy
  start: ArchiveStart
  inbox: Inbox
  chunks: Table<ChunkEntry>
  custody: CustodyWatcher
}

/** Creates the parts of an audit and connects them to each other. Reads nothing yet. */
export function assemble(deps: AuditDeps, options: AuditOptions, stores: OpenedStores): AuditComponents {
  const { bus, clock, log, random } = deps
  const { table, manifest, objects, archive, agents, revoked, logging, start, inbox } = stores
  const rules = rulesOf(options)
  const listing: MemoryListing = new MemoryListing({ projector: () => projector, rows: () => rows, index: () => index })
  const changed = (text: string) => listing.note(text)
  const rows = new RowCache(MAX_ROWS, changed)
  const ended = new EndedMetrics()
  const index = new PassIndex(Buffer.from(random.bytes(4)).readUInt32LE(), (key) => listing.has(key))
  const indexing = new Indexer({ table, index, rows, clock, log })
  const records = new RecordStore(table, indexing, clock, log)
  const violations = new Violations(bus, clock, log)
  const acknowledged = new AckIndex(stores.chunks, clock, log)
  const outputs = deps.schemas
  const schemas = new SchemaChecks(outputs && ((schema, value, subagent) => outputs.checkFor(subagent, schema, value)))
  const early = new EarlyIdFilter(Buffer.from(random.bytes(4)).readUInt32LE())
  const reloader: PassReloader = new PassReloader({
    bus,
    clock,
    log,
    archive,
    rules,
    position: () => projector.position,
    early,
    hasRecord: (key) => hasRecord(table, key, hasBegun),
    onImpossible: ({ key, sequence }, what) => violations.reportOfNone(key, sequence, what),
    onLoaded: (loaded) =>
      recordLoaded({ table, records, rows, violations, schemas, inbox, undelivered, logging, options, custody: stores.custody }, loaded),
  })
  const expiries = new ApprovalExpiry({ bus, archive, rules, inbox, log, check: schemas.check })
  const waiting = { bus, archive, rules, clock, log, index: acknowledged, agents }
  const undelivered = new DeliveryDeadlines({ ...waiting, untilRead: (sequence) => waitForPosition({ deps, projector }, sequence) })
  acknowledged.onAcknowledged = (originator, sequences) => undelivered.acknowledged(originator, sequences)
  const isAgent = (name: string) => agents.has(name)
  const { open_ms, request_ms, ended_bytes } = options
  const projector: Projector = new Projector(
    { log, clock, rules, records, rows, ended, reloader, violations, schemas, inbox, undelivered, acknowledged, isAgent, changed },
    { writes: () => logging.on, open_ms, request_ms, ended_bytes },
  )
  const needed = () => Math.min(projector.needed() ?? Number.POSITIVE_INFINITY, projector.position + 1)
  const archiver = new Archiver(
    { bus, clock, log, manifest, objects, custody: stores.custody, needed },
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
    reloader,
    early,
    violations,
    schemas,
    manifest,
    agents,
    revoked,
    logging,
    rows,
    listing,
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

/** True if at least one record of the pass satisfies `such`. A pass can have a second record, made by a late request with the same id. */
async function hasRecord(table: Table<PassRecord>, key: PassKey, such: (record: PassRecord) => boolean): Promise<boolean> {
  for await (const { value } of table.entries(recordFilter(key))) if (such(value)) return true
  return false
}

/** Writes the record of a pass that was read again, and reports its impossible steps as violations. */
async function recordLoaded(
  parts: Pick<
    AuditComponents,
    'records' | 'rows' | 'violations' | 'schemas' | 'inbox' | 'undelivered' | 'logging' | 'options' | 'custody'
  > & { table: Table<PassRecord> },
  loaded: LoadedPass,
): Promise<boolean> {
  const { memory } = loaded
  const { table, records, rows, violations, schemas, inbox, undelivered, logging, options } = parts
  violations.reportLoaded(loaded)
  // A journal of only impossible steps is not a pass, and must not replace the record of one.
  if (memory.journal.state === 'none' && !memory.request) return true
  const { record, row } = await buildCheckedRecord(memory, rulesOf(options), schemas.check)
  // The pass is being erased; an agent stored another message for it meanwhile.
  if (parts.custody.isGoing(memory.first)) return true
  rows.put(row)
  inbox.note(record, memory.first)
  undelivered.note(memory)
  // While logging is off, only passes that already have a record are updated, so that this record stays true.
  if (!logging.on && !(await hasRecord(table, memory.key, isLasting))) return true
  const slot: Slot = { key: recordKey(memory.key, createdAt(record), record.session_id) }
  const stored = compactRecordOf(memory)?.stored ?? record
  return await records.write(slot, { stored, row })
}
