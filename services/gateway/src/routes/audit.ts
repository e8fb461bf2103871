import { askQuery } from '@passover/operator'
import { auditPage, auditParameters } from '@passover/schemas/http'
import { visibleEntry } from '../passes/output-visibility.js'
import { toPassQuery } from '../passes/query-params.js'
import { route } from '../route.js'

export const listAudit = route({
  method: 'get',
  path: '/api/pass-over/audit',
  name: 'listAudit',
  summary: 'List audit entries of ended passes, newest first',
  scope: 'read',
  access: 'own',
  query: auditParameters,
  answers: { 200: { what: 'A page of entries; if it has a cursor there may be more, even if the page is not full', schema: auditPage } },
  async handle({ query, caller, actor }) {
    const { entries, cursor, complete, scanned } = await actor.as((bus) => askQuery(bus, toPassQuery(query)))
    const ended = entries.map((one) => visibleEntry(caller, one)).filter((entry) => entry !== undefined)
    return { status: 200, body: { entries: ended, cursor, complete, scanned } }
  },
})
