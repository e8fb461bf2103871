import type { AgentLine } from '@passover/sdk/people'
import { renderTable } from './render/table.js'
import type { Terminal } from './terminal.js'

export function renderAgents(agents: AgentLine[], terminal: Pick<Terminal, 'colors' | 'columns'>): string {
  return renderTable<AgentLine>(
    [
      { head: 'NAME', cell: ({ name }) => name },
      { head: 'SUBAGENT', cell: ({ subagent }) => (subagent ? 'yes' : 'no') },
      { head: 'ORIGINATES', cell: ({ originates }) => originates.replaceAll('_', ' ') },
      { head: 'UP', cell: ({ up, subagent }) => (subagent ? String(up) : '') },
      { head: 'BUSY', cell: ({ busy, places }) => (places > 0 ? `${busy}/${places}` : '') },
      { head: 'IDLE', cell: ({ idle_workers }) => String(idle_workers) },
      { head: 'QUEUED', cell: ({ queued }) => String(queued) },
      { head: 'RUNNING', cell: ({ running }) => String(running) },
      { head: 'HELD', cell: ({ waiting }) => String(waiting) },
      { head: 'ASKED FOR', cell: ({ originated }) => String(originated) },
      { head: 'RETURNS', cell: ({ durable_returns }) => (durable_returns ? 'wait' : '') },
      { head: 'PARTS', cell: partsText },
      { head: 'DESCRIPTION', cell: ({ description }) => description, shrinks: true },
      { head: 'BY', cell: ({ registered_by }) => registered_by },
    ],
    agents,
    terminal,
  )
}

const MIB = 1024 ** 2

/** Use and limit of its parts bucket, MiB; nothing where it has stored none. */
function partsText({ parts_bytes, parts_max }: AgentLine): string {
  if (parts_bytes === 0) return ''
  return `${(parts_bytes / MIB).toFixed(1)}${parts_max === undefined ? '' : `/${(parts_max / MIB).toFixed(0)}`} MiB`
}
