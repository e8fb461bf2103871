import type { Archive } from '@passover/archive'
import type { Consumption } from '@passover/bus'
import { keyText, SYSTEM } from '@passover/schemas'
import { untilRead } from '../projection/wait-for-position.js'
import type { DeadLetters } from '../queries/dead-letters.js'
import { Query } from '../queries/pass-query.js'
import { answerQuestions } from '../queries/query-router.js'
import { OlderPasses } from '../search/archive-search.js'
import { Comparing } from '../search/index-verifier.js'
import { PassSearch } from '../search/pass-search.js'
import { beginOf } from '../search/unrecorded-passes.js'
import { sessionDeps } from './open-retention.js'
import { type AuditOptions, rulesOf } from './options.js'
import type { AuditDeps, Parts } from './parts.js'

/** Answers questions by what the parts of an audit know. */
export function openAnswers(parts: Parts, found: { archive: Archive; dead: DeadLetters; seeded: Promise<void> }): Promise<Consumption> {
  const { deps, options, agents, acknowledged, index, indexing, projector, rows, listing, table } = parts
  const { bus, clock, log } = deps
  const { archive, dead, seeded } = found
  const rules = rulesOf(options)
  const { check } = parts.schemas
  const older = new OlderPasses({ bus, clock, archive, rules, has: (key) => index.has(key), check })
  const search = new PassSearch({ bus, clock, archive, rules, table, index, indexing, projector, listing, acknowledged, check, older })
  return answerQuestions(bus, {
    archive,
    query: new Query({
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
    inbox: parts.inbox,
    custody: parts.custody,
    sessions: sessionDeps(parts, archive),
    index,
    comparing: new Comparing({ table, index, clock, log }),
    indexing,
    acknowledged,
    untilRead: (sequence) => untilRead(parts, sequence),
    rules,
    check,
    revoked: parts.revoked,
    hasPeople: hasPeople(deps, options),
    seesAll: (name) => deps.people?.has(name) || seesAll(name, options, agents),
    requestOf: (key) => projector.notes.find(keyText(key))?.sequence,
    beginOf: (key) => beginOf(projector.find(keyText(key))) ?? index.firstOf(key),
  })
}

/** Whether an audit with these options lists every pass for anybody but services. */
export function hasPeople(deps: Pick<AuditDeps, 'people'>, { people, open }: Pick<AuditOptions, 'people' | 'open'>): boolean {
  return open || people.length > 0 || deps.people !== undefined
}

/** I6: a person is known for one; only where the server is one person's own is everybody who is no registered agent. */
export function seesAll(
  asker: string,
  { people, open }: Pick<AuditOptions, 'people' | 'open'>,
  agents: { has(name: string): boolean },
): boolean {
  return asker === SYSTEM || people.includes(asker) || (open && !agents.has(asker))
}
