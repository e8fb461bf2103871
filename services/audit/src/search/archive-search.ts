import { type Archive, segmentOf, segmentRange } from '@passover/archive'
import type { CheckSchema, Clock } from '@passover/core'
import type { PassKey, PassRecord } from '@passover/schemas'
import { ifIndexed, type LoadDeps, loadPass } from '../pass/load-pass.js'
import { buildCheckedRecord } from '../records/build-record.js'
import { isBefore, type ListPosition, positionOf } from '../records/list-cursor.js'
import type { IndexFilter } from './index/index-filter.js'

export interface ArchiveSearchDeps extends LoadDeps {
  clock: Clock
  archive: Archive
  /** True if the bucket has a record of the pass; the index then finds it. */
  has: (key: PassKey) => boolean
  check: CheckSchema | undefined
}

export interface ArchiveSearchRange {
  after: ListPosition | undefined
  /** Position beyond which results are not needed now. */
  until: ListPosition | undefined
  /** Time in ms: passes requested after it are all in the bucket. */
  horizon: number
}

export interface ArchivedMatches {
  found: { position: ListPosition; record: PassRecord }[]
  /** Set if the time budget ran out: nothing beyond this position was examined. */
  reached?: ListPosition
  /** False while indexes of the archive are still being read, so that matches may be missing. */
  complete: boolean
}

/** Time budget of one search in ms; checked after each segment. */
const BUDGET_MS = 60
const CONCURRENCY = 16

/** Finds passes whose records dropped out of the bucket, by the indexes of the archive's segments: segment by segment, newest first. */
export class ArchiveSearch {
  readonly #deps: ArchiveSearchDeps

  constructor(deps: ArchiveSearchDeps) {
    this.#deps = deps
  }

  async search(filter: IndexFilter, { after, until, horizon }: ArchiveSearchRange): Promise<ArchivedMatches> {
    const { archive, bus, clock } = this.#deps
    const begun = clock.monotonic()
    const { last } = await bus.bounds()
    const found: ArchivedMatches['found'] = []
    const newest = Math.min(after?.created_at ?? Number.POSITIVE_INFINITY, filter.to ?? Number.POSITIVE_INFINITY, horizon)
    const { segments, complete } = await archive.finder.segments()
    for (const { k, first_time, last_time } of segments) {
      const { first } = segmentRange(k)
      // Skips empty segments, which have no time, and segments that hold nothing older than the position.
      if (first_time === 0 || first_time > newest || (after && first >= after.sequence)) continue
      if ((until && segmentOf(until.sequence) > k) || (last_time > 0 && last_time < (filter.from ?? 0))) break
      for (const record of await this.#inSegment(k, filter, last)) {
        const position = positionOf(record)
        if (segmentOf(position.sequence) === k && (!after || isBefore(after, position))) found.push({ position, record })
      }
      if (clock.monotonic() - begun >= BUDGET_MS) return { found, reached: { created_at: first_time, sequence: first }, complete }
    }
    return { found, complete }
  }

  async #inSegment(k: number, filter: IndexFilter, up_to: number): Promise<PassRecord[]> {
    const { archive, has, rules, check } = this.#deps
    const wanted = (await archive.passesIn(k)).filter(({ key, session_id }) => mayMatch(key, session_id, filter) && !has(key))
    const records: PassRecord[] = []
    for (let at = 0; at < wanted.length; at += CONCURRENCY) {
      const some = wanted.slice(at, at + CONCURRENCY)
      const loaded = await Promise.all(some.map(({ key }) => ifIndexed(loadPass(this.#deps, key, { up_to }))))
      for (const pass of loaded)
        if (pass && pass.memory.journal.state !== 'none') records.push((await buildCheckedRecord(pass.memory, rules, check)).record)
    }
    return records
  }
}

/** True if a pass may match by what the segment's index says. The session is known only if the held or work step is in the segment. */
function mayMatch(
  key: PassKey,
  session_id: string | undefined,
  { originator, subagent, party, session_id: session }: IndexFilter,
): boolean {
  return (
    (originator ?? key.originator) === key.originator &&
    (subagent ?? key.subagent) === key.subagent &&
    (party === undefined || party === key.originator || party === key.subagent) &&
    (session === undefined || session_id === undefined || session_id === session)
  )
}
