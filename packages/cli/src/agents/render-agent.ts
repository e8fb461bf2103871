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
    ['purpose', description],
    ['receives', roles.subagent ? 'passes' : 'no passes'],
    ['originates', roles.originates.replaceAll('_', ' ')],
    ['returns', record.durable_returns ? 'are kept until it acknowledges them' : undefined],
    ['skills', skills.length > 0 ? skills.join(', ') : undefined],
    ['workers', roles.subagent ? `${up} up, ${busy} of ${places} slots busy, ${queued} queued` : undefined],
    [
      'revoked',
      record.revoked_at === undefined
        ? undefined
        : `credentials revoked ${dateTime(record.revoked_at)}: no worker can connect as this agent`,
    ],
    ['by', `${formatPerson(registered_by, record)}, ${dateTime(updated_at)}`],
  ]
  const lines = facts.filter(([, value]) => value !== undefined).map(([label, value]) => `  ${label.padEnd(10)} ${oneLine(value ?? '')}`)
  const said = Object.entries(defaults).map(([field, value]) => `  ${field.padEnd(22)} ${oneLine(JSON.stringify(value), 200)}`)
  const sections = [colors.bold(name), lines.join('\n')]
  if (said.length > 0) sections.push(`${colors.bold('Defaults')} (the policy's settings for this agent override them)\n${said.join('\n')}`)
  return sections.join('\n')
}
