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
      { head: 'DESCRIPTION', cell: ({ description }) => description, shrinks: true },
      { head: 'BY', cell: ({ registered_by }) => registered_by },
    ],
    agents,
    terminal,
  )
}
