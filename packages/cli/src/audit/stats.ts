import { askStats } from '@passover/operator'
import { STATS_BY, type StatsAnswer, type StatsGroup } from '@passover/schemas'
import { connectPerson } from '../connection/connect-person.js'
import type { Context } from '../connection/context.js'
import { noteUnknownPerson } from '../doctor/audit.js'
import { type Column, renderTable } from '../render/table.js'
import { duration } from '../terminal/duration.js'
import type { Terminal } from '../terminal/terminal.js'
import { count } from '../terminal/text.js'
import { type FilterFlags, filterFromFlags } from './filter-options.js'

type Stats = Extract<StatsAnswer, { ok: true }>

/** Shows counts and durations. */
export async function runStats(context: Context, flags: FilterFlags): Promise<number> {
  const { terminal } = context
  await using bus = await connectPerson(context)
  const { ok: _, ...stats } = await askStats(bus, filterFromFlags(flags))
  terminal.show(stats, () => renderStats({ ok: true, ...stats }, terminal))
  if (stats.passes === 0) await noteUnknownPerson(bus, terminal)
  if (!stats.complete)
    terminal.note('The audit service is still loading its records after a start, so some may be missing; try again in a moment.')
  return 0
}

/** Renders one table with all groups, the largest first within each kind. */
export function renderStats(stats: Stats, terminal: Pick<Terminal, 'colors' | 'columns'>): string {
  if (stats.passes === 0) return 'No passes.'
  const all: Line = { by: '', name: 'all', count: stats.passes, wall_ms: stats.wall_ms }
  const lines = STATS_BY.flatMap((by) => (stats.by[by]?.groups ?? []).map((group) => ({ ...group, by })))
  const columns: Column<Line>[] = [
    { head: 'BY', cell: ({ by }) => by },
    { head: 'NAME', cell: ({ name }) => name || '(none)', shrinks: true },
    { head: 'PASSES', cell: (line) => String(line.count) },
    { head: 'P50', cell: ({ wall_ms }) => timeOf(wall_ms.p50) },
    { head: 'P99', cell: ({ wall_ms }) => timeOf(wall_ms.p99) },
  ]
  const left = STATS_BY.flatMap((by) => {
    const left_out = stats.by[by]?.left_out ?? 0
    return left_out > 0 ? [`${count(left_out, `smaller ${by}`, `smaller ${by}s`)} left out`] : []
  })
  return [renderTable(columns, [all, ...lines], terminal), ...left].join('\n')
}

interface Line extends StatsGroup {
  by: string
}

function timeOf(ms: number | undefined): string {
  return ms === undefined ? '' : duration(ms)
}
