import type { Manifest } from '@passover/archive'
import type { Bus, Table } from '@passover/bus'
import type { Clock } from '@passover/core'
import type { AgentRecord, PassRecord, Random } from '@passover/schemas'
import type { OutputSchemas } from '@passover/validation'
import type { Logger } from 'pino'
import type { Acknowledged } from './acknowledged.js'
import type { Archiver } from './archive.js'
import type { EarlyIds } from './early-ids.js'
import type { EndedPasses } from './ended-passes.js'
import type { Expiries } from './expiries.js'
import type { Inbox } from './inbox.js'
import type { Listing } from './listing/listing.js'
import type { Logging } from './logging.js'
import type { AuditOptions } from './options.js'
import type { Projector } from './project.js'
import type { Records } from './records.js'
import type { Reloads } from './reload.js'
import type { CustodyWatch } from './removal/custody-watch.js'
import type { Rows } from './rows.js'
import type { SchemaChecks } from './schema-checks.js'
import type { Indexing } from './search/indexing.js'
import type { PassIndex } from './search/pass-index.js'
import type { Undelivered } from './undelivered.js'
import type { Violations } from './violations.js'
import type { Revoked } from './watch-agents.js'

/** What the audit is given: only a main constructs these. */
export interface AuditDeps {
  /** Connected as `passover`; the stream and the buckets exist. */
  bus: Bus
  clock: Clock
  random: Random
  log: Logger
  /** Applies output schemas; absent: none is. The audit ends it. */
  schemas?: OutputSchemas
  /** Health checks of the process that are not ok. */
  trouble?: (() => string[]) | undefined
  /** People in addition to those of the options; the set may change while the service runs. */
  people?: { has(name: string): boolean }
}

/** What an audit process consists of. */
export interface Parts {
  deps: AuditDeps
  options: AuditOptions
  projector: Projector
  archiver: Archiver
  records: Records
  reloads: Reloads
  early: EarlyIds
  violations: Violations
  schemas: SchemaChecks
  manifest: Manifest
  agents: Map<string, AgentRecord>
  revoked: Revoked
  logging: Logging
  rows: Rows
  listing: Listing
  ended: EndedPasses
  index: PassIndex
  indexing: Indexing
  inbox: Inbox
  expiries: Expiries
  acknowledged: Acknowledged
  undelivered: Undelivered
  custody: CustodyWatch
  table: Table<PassRecord>
}
