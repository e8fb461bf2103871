import { Subjects } from '../subjects/subjects.js'
import type { Grant, PermissionContext } from './grants.js'
import { grantsFor, type Principal } from './permissions.js'

const CONTEXT: PermissionContext = { subjects: new Subjects(), agents: ['AGENT', 'PEER'] }

const SECTIONS: { title: string; principal: Principal }[] = [
  { title: 'An agent that only originates', principal: { role: 'agent', name: 'AGENT', originates: true, subagent: false } },
  {
    title: 'A subagent (one that also passes on has both lists)',
    principal: { role: 'agent', name: 'AGENT', originates: false, subagent: true },
  },
  { title: 'The dispatcher', principal: { role: 'dispatcher' } },
  { title: 'The audit service', principal: { role: 'audit' } },
  { title: 'The notifier', principal: { role: 'notifier' } },
  { title: 'The gateway', principal: { role: 'gateway' } },
  { title: 'A person', principal: { role: 'person', name: 'PERSON' } },
  {
    title: 'An auditor: a person who may also read the archive (`passover verify`, `evidence`)',
    principal: { role: 'auditor', name: 'PERSON' },
  },
  {
    title: 'A custodian: an auditor who may also hold sessions and passes (`passover audit hold`)',
    principal: { role: 'custodian', name: 'PERSON' },
  },
]

/**
 * Renders the permissions as Markdown, one table per role, generated from the grants that the server enforces. AGENT, PEER and PERSON are
 * placeholders for names.
 */
export function permissionTable(): string {
  return SECTIONS.map(({ title, principal }) => `## ${title}\n\n${tableOf(grantsFor(principal, CONTEXT))}`).join('\n\n')
}

/** Renders one table, with one row per purpose and kind of permission. */
function tableOf(grants: Grant[]): string {
  const rows = new Map<string, string[]>()
  for (const { may, subject, why } of grants) {
    const row = `${why} | ${may}`
    rows.set(row, [...(rows.get(row) ?? []), `\`${subject}\``])
  }
  const lines = [...rows].map(([row, subjects]) => `| ${row} | ${[...new Set(subjects)].join(', ')} |`)
  return ['| purpose | may | subjects |', '| --- | --- | --- |', ...lines].join('\n')
}
