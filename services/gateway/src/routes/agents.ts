import { askAgents, askInbox, readPresence } from '@passover/operator'
import { agentsPage, inboxPage, inboxParameters } from '@passover/schemas/http'
import { visibleItem } from '../passes/output-visibility.js'
import { route } from '../route.js'

export const listAgents = route({
  method: 'get',
  path: '/api/pass-over/agents',
  name: 'listAgents',
  summary: 'List registered agents by name, with their open passes and workers',
  scope: 'read',
  access: 'people',
  answers: { 200: { what: 'All registered agents', schema: agentsPage } },
  handle({ actor }) {
    return actor.as(async (bus) => {
      const [rows, up] = await Promise.all([askAgents(bus), readPresence(bus)])
      const agents = rows.map((row) => {
        const { instances = 0, running = 0, places = 0 } = up.get(row.agent.name) ?? {}
        return { ...row, up: instances, busy: running, places }
      })
      return { status: 200, body: { agents } }
    })
  },
})

export const listInbox = route({
  method: 'get',
  path: '/api/pass-over/inbox',
  name: 'listInbox',
  summary: 'List items that wait for a decision, oldest first; a page has some items of each agent',
  scope: 'read',
  access: 'own',
  query: inboxParameters,
  answers: { 200: { what: 'A page', schema: inboxPage } },
  async handle({ query, caller, actor }) {
    const { from, mine, limit, cursor } = query
    const filter = {
      ...(from === undefined ? {} : { root_originator: from }),
      ...(mine === 'true' ? { approver: caller.name } : {}),
      ...(limit === undefined ? {} : { limit }),
      ...(cursor === undefined ? {} : { after: cursor }),
    }
    const { items, next, left_out } = await actor.as((bus) => askInbox(bus, filter))
    return { status: 200, body: { items: items.map((item) => visibleItem(caller, item)), cursor: next, left_out } }
  },
})
