import type { AgentRecord } from '@passover/schemas'
import { formatPerson, type NameVerification } from '../connection/verified-names.js'
import { dateTime } from '../terminal/duration.js'
import type { Terminal } from '../terminal/terminal.js'
import { oneLine } from '../terminal/text.js'

export interface AgentWorkers {
  up: number
  busy: number
  places: number
  queued: number
}

/** Renders the output of `agents show`. */
export function renderAgent(record: AgentRecord & NameVerification, workers: AgentWorkers, { colors }: Pick<Terminal, 'colors'>): string {
  const { name, roles, description, skills = [], defaults = {}, registered_by, updated_at } = record
  const { up, busy, places, queued } = workers
  const facts: [string, string | undefined][] = [
    ['is for', description],
    ['receives', roles.subagent ? 'passes' : 'no passes'],
    ['originates', roles.originates.replaceAll('_', ' ')],
    ['returns', record.durable_returns ? 'wait for it while it is away' : undefined],
    ['skills', skills.length > 0 ? skills.join(', ') : undefined],
    ['workers', roles.subagent ? `${up} up, ${busy} of ${places} places busy, ${queued} queued` : undefined],
    ['revoked', record.revoked_at === undefined ? undefined : `its credentials, ${dateTime(record.revoked_at)}: nobody can work as it`],
    ['by', `${formatPerson(registered_by, record)}, ${dateTime(updated_at)}`],
  ]
  const lines = facts.filter(([, value]) => value !== undefined).map(([label, value]) => `  ${label.padEnd(10)} ${oneLine(value ?? '')}`)
  const said = Object.entries(defaults).map(([field, value]) => `  ${field.padEnd(22)} ${oneLine(JSON.stringify(value), 200)}`)
  const sections = [colors.bold(name), lines.join('\n')]
  if (said.length > 0) sections.push(`${colors.bold('Defaults')} (they stand below the policy's entry for it)\n${said.join('\n')}`)
  return sections.join('\n')
}
