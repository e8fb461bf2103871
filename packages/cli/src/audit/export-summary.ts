import { Histogram } from '@passover/audit'
import type { PassOverAuditEntry, StatsBy, StatsGroup } from '@passover/schemas'
import { monthOf } from './export-files.js'

/** Number of groups of each kind with a histogram of times; later groups are only counted. */
const MAX_TIMED_GROUPS = 2_000

/** The part of a pass that is exported. */
export interface ExportedPass {
  entry: PassOverAuditEntry
  code?: string | undefined
  wall_ms?: number | undefined
}

/** `audit-summary.json`: counts and times by month, session, pair, status and error. Times in server ms. */
export interface AuditSummary {
  passes: number
  /** Times at which the first and the last of these passes were requested. */
  from?: number
  to?: number
  /**
   * Passes requested before this time are not counted: `--since` excluded them, or they are no longer in the archive. Existing files keep
   * their lines.
   */
  counted_since?: number
  wall_ms: StatsGroup['wall_ms']
  by: Record<StatsBy, (Pick<StatsGroup, 'name' | 'count'> & Partial<StatsGroup>)[]>
}

/** Builds the summary incrementally, pass by pass. */
export class SummaryBuilder {
  readonly #all = new Histogram()
  readonly #groups: Record<StatsBy, Map<string, { count: number; times: Histogram | undefined }>> = {
    month: new Map(),
    session: new Map(),
    pair: new Map(),
    status: new Map(),
    code: new Map(),
  }
  passes = 0
  #from = Number.POSITIVE_INFINITY
  #to = Number.NEGATIVE_INFINITY

  add({ entry, code, wall_ms }: ExportedPass): void {
    this.passes++
    this.#from = Math.min(this.#from, entry.timestamp)
    this.#to = Math.max(this.#to, entry.timestamp)
    if (wall_ms !== undefined) this.#all.add(wall_ms)
    this.#count('month', monthOf(entry.timestamp), wall_ms)
    this.#count('session', entry.session_id, wall_ms)
    this.#count('pair', `${entry.originating_agent}->${entry.subagent}`, wall_ms)
    this.#count('status', entry.status, wall_ms)
    if (code !== undefined) this.#count('code', code, wall_ms)
  }

  told(): AuditSummary {
    const all = this.#all
    const groups = this.#groups
    const from = this.#from
    const to = this.#to
    const { passes } = this
    const range = passes === 0 ? {} : { from, to }
    const by = Object.fromEntries(Object.entries(groups).map(([name, found]) => [name, groupsOf(found)])) as AuditSummary['by']
    return { passes, ...range, wall_ms: all.told(), by }
  }

  #count(by: StatsBy, name: string, wall_ms: number | undefined): void {
    const groups = this.#groups[by]
    const known = groups.get(name) ?? { count: 0, times: groups.size < MAX_TIMED_GROUPS ? new Histogram() : undefined }
    known.count++
    if (wall_ms !== undefined) known.times?.add(wall_ms)
    groups.set(name, known)
  }
}

function groupsOf(found: ReadonlyMap<string, { count: number; times: Histogram | undefined }>): AuditSummary['by'][StatsBy] {
  return [...found]
    .map(([name, { count, times }]) => ({ name, count, ...(times ? { wall_ms: times.told() } : {}) }))
    .sort((a, b) => b.count - a.count || (a.name < b.name ? -1 : 1))
}
