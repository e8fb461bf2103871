import type { Archive } from '@passover/archive'
import type { Consumption, ObjectStore } from '@passover/bus'
import { keyText, SYSTEM } from '@passover/schemas'
import { waitForPosition } from '../projection/wait-for-position.js'
import type { DeadLetters } from '../queries/dead-letters.js'
import { PassLists } from '../queries/pass-lists.js'
import { serveQuestions } from '../queries/query-router.js'
import { LoggingHistory } from '../rebuild/logging-history.js'
import { RecordRepair } from '../rebuild/record-repair.js'
import type { OverdueSegment } from '../retention/archive-retention.js'
import { ArchiveSearch } from '../search/archive-search.js'
import { IndexVerifier } from '../search/index-verifier.js'
import { PassSearch } from '../search/pass-search.js'
import { firstSequenceOf } from '../search/unrecorded-passes.js'
import { sessionDeps } from './open-retention.js'
import { type AuditOptions, rulesOf } from './options.js'
import type { AuditComponents, AuditDeps } from './parts.js'

/** Starts answering questions from the parts of an audit. */
export function openQueries(
  parts: AuditComponents,
  found: { archive: Archive; objects: ObjectStore; dead: DeadLetters; seeded: Promise<void>; overdue: () => OverdueSegment[] },
): Promise<Consumption> {
  const { deps, options, agents, acknowledged, index, indexing, projector, rows, listing, table } = parts
  const { bus, clock, log } = deps
  const { archive, objects, dead, seeded, overdue } = found
  const rules = rulesOf(options)
  const { check } = parts.schemas
  const older = new ArchiveSearch({ bus, clock, archive, rules, has: (key) => index.has(key), check })
  const search = new PassSearch({ bus, clock, archive, rules, table, index, indexing, projector, listing, acknowledged, check, older })
  return serveQuestions(bus, {
    archive,
    lists: new PassLists({
      bus,
      clock,
      acknowledged,
      projector,
      rows,
      listing,
      seeded,
      table,
      archive,
      agents,
      rules,
      index,
      indexing,
      search,
    }),
    dead,
    search,
    bus,
    log,
    trouble: deps.trouble,
    overdue,
    inbox: parts.inbox,
    custody: parts.custody,
    sessions: sessionDeps(parts, archive),
    index,
    comparing: new IndexVerifier({ table, index, clock, log }),
    repair: new RecordRepair({
      bus,
      archive,
      manifest: parts.manifest,
      objects,
      table,
      rules,
      check,
      logged: () => LoggingHistory.read(bus, options.log_all_passes),
      isGoing: (sequence) => parts.custody.isGoing(sequence),
    }),
    indexing,
    acknowledged,
    untilRead: (sequence) => waitForPosition(parts, sequence),
    rules,
    check,
    revoked: parts.revoked,
    hasPeople: hasPeople(deps, options),
    seesAll: (name) => deps.people?.has(name) || seesAll(name, options, agents),
    requestOf: (key) => projector.notes.find(keyText(key))?.sequence,
    beginOf: (key) => firstSequenceOf(projector.find(keyText(key))) ?? index.firstOf(key),
  })
}

/** True if anyone other than a service may list every pass of an audit with these options. */
export function hasPeople(deps: Pick<AuditDeps, 'people'>, { people, open }: Pick<AuditOptions, 'people' | 'open'>): boolean {
  return open || people.length > 0 || deps.people !== undefined
}

/** True if the asker may see every pass (I6): the system, a configured person or, on an open server, any name that is not a registered agent. */
export function seesAll(
  asker: string,
  { people, open }: Pick<AuditOptions, 'people' | 'open'>,
  agents: { has(name: string): boolean },
): boolean {
  return asker === SYSTEM || people.includes(asker) || (open && !agents.has(asker))
}
