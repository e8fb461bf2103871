import type { AgentLine } from '@passover/operator'
import { formatPerson, type NameVerification } from '../connection/verified-names.js'
import { renderTable } from '../render/table.js'
import type { Terminal } from '../terminal/terminal.js'

/** An agent with the verification of names. */
export type ShownAgent = AgentLine & NameVerification

export function renderAgents(agents: ShownAgent[], terminal: Pick<Terminal, 'colors' | 'columns'>): string {
  return renderTable<ShownAgent>(
    [
      { head: 'NAME', cell: ({ name, revoked_at }) => (revoked_at === undefined ? name : `${name} (revoked)`) },
      { head: 'SUBAGENT', cell: ({ subagent }) => (subagent ? 'yes' : 'no') },
      { head: 'ORIGINATES', cell: ({ originates }) => originates.replaceAll('_', ' '), optional: true },
      { head: 'UP', cell: ({ up, subagent }) => (subagent ? String(up) : '') },
      { head: 'BUSY', cell: ({ busy, places }) => (places > 0 ? `${busy}/${places}` : '') },
      { head: 'IDLE', cell: ({ idle_workers }) => String(idle_workers), optional: true },
      { head: 'QUEUED', cell: ({ queued }) => String(queued) },
      { head: 'RUNNING', cell: ({ running }) => String(running) },
      { head: 'HELD', cell: ({ waiting }) => String(waiting), optional: true },
      { head: 'ORIGINATED', cell: ({ originated }) => String(originated), optional: true },
      { head: 'RETURNS', cell: ({ durable_returns }) => (durable_returns ? 'wait' : ''), optional: true },
      { head: 'PARTS', cell: partsText, optional: true },
      { head: 'DESCRIPTION', cell: ({ description }) => description, shrinks: true, optional: true },
      { head: 'BY', cell: (agent) => formatPerson(agent.registered_by, agent), optional: true },
    ],
    agents,
    terminal,
  )
}

const MIB = 1024 ** 2

/** Formats use and limit of an agent's parts bucket in MiB; empty if nothing is stored. */
function partsText({ parts_bytes, parts_max }: AgentLine): string {
  if (parts_bytes === 0) return ''
  return `${(parts_bytes / MIB).toFixed(1)}${parts_max === undefined ? '' : `/${(parts_max / MIB).toFixed(0)}`} MiB`
}
