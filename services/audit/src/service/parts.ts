import type { Manifest } from '@passover/archive'
import type { Bus, Table } from '@passover/bus'
import type { Clock } from '@passover/core'
import type { AgentRecord, PassRecord, Random } from '@passover/schemas'
import type { OutputSchemas } from '@passover/validation'
import type { Logger } from 'pino'
import type { AckIndex } from '../acknowledgments/ack-index.js'
import type { Archiver } from '../archive/archiver.js'
import type { ApprovalExpiry } from '../inbox/approval-expiry.js'
import type { Inbox } from '../inbox/inbox.js'
import type { DeliveryDeadlines } from '../projection/delivery-deadlines.js'
import type { EarlyIdFilter } from '../projection/early-id-filter.js'
import type { EndedMetrics } from '../projection/ended-metrics.js'
import type { PassReloader } from '../projection/pass-reloader.js'
import type { Projector } from '../projection/projector.js'
import type { Violations } from '../projection/violations.js'
import type { RecordStore } from '../records/record-store.js'
import type { RowCache } from '../records/row-cache.js'
import type { SchemaChecks } from '../records/schema-checks.js'
import type { Indexer } from '../search/index/indexer.js'
import type { PassIndex } from '../search/index/pass-index.js'
import type { MemoryListing } from '../search/memory-listing.js'
import type { RevokedAgents } from '../watchers/agent-watcher.js'
import type { CustodyWatcher } from '../watchers/custody-watcher.js'
import type { LoggingPolicy } from '../watchers/logging-policy.js'
import type { AuditOptions } from './options.js'

/** Dependencies of the audit. Only a main function constructs them. */
export interface AuditDeps {
  /** Connected as `passover`; the stream and the buckets exist. */
  bus: Bus
  clock: Clock
  random: Random
  log: Logger
  /** Applies output schemas; if absent, none are applied. The audit disposes it. */
  schemas?: OutputSchemas
  /** Returns the health checks of the process that are failing. */
  trouble?: (() => string[]) | undefined
  /** People in addition to those of the options; the set may change while the service runs. */
  people?: { has(name: string): boolean }
}

/** Parts that an audit process consists of. */
export interface AuditComponents {
  deps: AuditDeps
  options: AuditOptions
  projector: Projector
  archiver: Archiver
  records: RecordStore
  reloader: PassReloader
  early: EarlyIdFilter
  violations: Violations
  schemas: SchemaChecks
  manifest: Manifest
  agents: Map<string, AgentRecord>
  revoked: RevokedAgents
  logging: LoggingPolicy
  rows: RowCache
  listing: MemoryListing
  ended: EndedMetrics
  index: PassIndex
  indexing: Indexer
  inbox: Inbox
  expiries: ApprovalExpiry
  acknowledged: AckIndex
  undelivered: DeliveryDeadlines
  custody: CustodyWatcher
  table: Table<PassRecord>
}
