import { clock, duration } from '../duration.js'
import type { Terminal } from '../terminal.js'
import type { Look } from '../top.js'
import { renderTable } from './table.js'

type View = Pick<Terminal, 'colors' | 'columns'>

/** What `top` shows; no line is wider than 60 columns where names and ids give way. */
export function renderTop(look: Look, view: View): string {
  const { bold, dim } = view.colors
  const { passes, p50_ms, p99_ms } = look.last_minute
  const times = p50_ms === undefined || p99_ms === undefined ? '' : `, p50 ${duration(p50_ms)}, p99 ${duration(p99_ms)}`
  const sections = [
    [
      `${bold(String(look.queued))} queued  ${bold(String(look.running))} running  ${bold(String(look.held))} held  ${dim(clock(look.time).slice(0, 8))}`,
      `${passes} in the last minute${times}`,
    ].join('\n'),
    look.agents.length === 0 ? 'No agents. Start one: passover work <name> -- <command>' : agentsTable(look, view),
    ...(look.slowest.length === 0 ? [] : [slowestTable(look, view)]),
  ]
  return sections.join('\n\n')
}

function agentsTable({ agents }: Look, view: View): string {
  return renderTable<Look['agents'][number]>(
    [
      { head: 'AGENT', cell: ({ name }) => name, shrinks: true },
      { head: 'UP', cell: ({ up }) => String(up) },
      { head: 'BUSY', cell: ({ busy, places }) => (places > 0 ? `${busy}/${places}` : '') },
      { head: 'QUEUED', cell: ({ queued }) => String(queued) },
      { head: 'RUNNING', cell: ({ running }) => String(running) },
      { head: 'HELD', cell: ({ waiting }) => String(waiting) },
    ],
    agents,
    view,
  )
}

function slowestTable({ slowest }: Look, view: View): string {
  return renderTable<Look['slowest'][number]>(
    [
      { head: 'OPEN FOR', cell: ({ lasted_ms }) => duration(lasted_ms) },
      { head: 'PASS', cell: ({ id }) => id, shrinks: true },
      { head: 'FROM', cell: ({ originator }) => originator, shrinks: true },
      { head: 'TO', cell: ({ subagent }) => subagent, shrinks: true },
    ],
    slowest,
    view,
  )
}
