import type { Bus } from '@passover/bus'
import { askQuery, isOpen } from '@passover/operator'
import type { AnsweredPass } from '@passover/schemas'
import { auditParameters, idPath, passesPage, shownPass, showParameters } from '@passover/schemas/http'
import type { Caller } from '../auth/caller.js'
import { OutputBudget } from '../http/output-budget.js'
import { parsePreferWait } from '../http/parse-request.js'
import { findOnePass } from '../passes/find-pass.js'
import { visibleItem, visibleRecord } from '../passes/output-visibility.js'
import { toPassQuery } from '../passes/query-params.js'
import { visibleOutcome } from '../passes/visible-outcome.js'
import { route } from '../route.js'

const POLL_INTERVAL_MS = 250

export const listPasses = route({
  method: 'get',
  path: '/api/pass-over/passes',
  name: 'listPasses',
  summary: 'List passes, including open ones, newest first',
  scope: 'read',
  access: 'own',
  query: auditParameters,
  answers: { 200: { what: 'A page of passes; if it has a cursor there may be more', schema: passesPage } },
  async handle({ query, actor }) {
    const { entries, cursor, complete, scanned } = await actor.as((bus) => askQuery(bus, toPassQuery(query)))
    return { status: 200, body: { passes: entries.map(({ row }) => row), cursor, complete, scanned } }
  },
})

export const getPass = route({
  method: 'get',
  path: '/api/pass-over/passes/{id}',
  name: 'showPass',
  summary:
    'Get one pass: status, return, and the item that waits for a decision. With "Prefer: wait=30", wait up to 30 seconds for its end',
  scope: 'read',
  access: 'own',
  params: idPath,
  query: showParameters,
  answers: { 200: { what: 'The pass', schema: shownPass } },
  problems: [404, 409],
  handle({ params, query, caller, inside, request, actor }) {
    const wait_ms = parsePreferWait(request.headers.get('prefer'), inside.options.most_wait_ms)
    return actor.as(async (bus) => {
      const wants: { due: true; history?: true } = { due: true, ...(query.history === 'true' ? { history: true as const } : {}) }
      const until = inside.clock.monotonic() + wait_ms
      const look = () => findOnePass(bus, { id: params.id, from: query.from, to: query.to }, wants)
      let pass = await look()
      while (isOpen(pass.row) && inside.clock.monotonic() < until && !request.signal.aborted) {
        await new Promise((again) => setTimeout(again, POLL_INTERVAL_MS))
        pass = await look()
      }
      return { status: 200, body: await shown(bus, caller, pass, new OutputBudget(inside.options.output_bytes)) }
    })
  },
})

async function shown(bus: Bus, caller: Caller, pass: AnsweredPass, budget: OutputBudget): Promise<object> {
  const { row, status, digest, deadline, decisions, revoked, history, below } = pass
  const record = visibleRecord(caller, pass)
  const due = pass.due && visibleItem(caller, pass.due)
  return {
    pass: row,
    status,
    digest,
    deadline,
    decisions,
    record,
    due,
    revoked,
    history,
    below,
    ...(await visibleOutcome(bus, caller, pass, budget)),
  }
}
