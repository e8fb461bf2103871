import type { Bus } from '@passover/bus'
import { askPasses, askQuery } from '@passover/operator'
import type { AnsweredPass, PassError, PassRow, ReturnToContext, WorkControl, WorkOutput } from '@passover/schemas'
import { returnsPage, returnsParameters } from '@passover/schemas/http'
import type { Caller } from '../auth/caller.js'
import { OutputBudget } from '../http/output-budget.js'
import { toPassQuery } from '../passes/query-params.js'
import { visibleOutcome } from '../passes/visible-outcome.js'
import { route } from '../route.js'

const DEFAULT_LIMIT = 20
/** Number of passes read concurrently. */
const CONCURRENCY = 8

export const listReturns = route({
  method: 'get',
  path: '/api/pass-over/returns',
  name: 'listReturns',
  summary: 'List return contexts (ReturnToContext) of passes that were admitted or held, newest first',
  scope: 'read',
  access: 'own',
  query: returnsParameters,
  answers: { 200: { what: 'A page of return contexts; if it has a cursor there may be more', schema: returnsPage } },
  handle({ query, caller, actor, inside }) {
    return actor.as(async (bus) => {
      const { entries, cursor, complete, scanned } = await askQuery(bus, { limit: DEFAULT_LIMIT, ...toPassQuery(query) })
      const returns = await contexts(
        bus,
        { caller, budget: new OutputBudget(inside.options.output_bytes) },
        entries.map(({ row }) => row),
      )
      return { status: 200, body: { returns, cursor, complete, scanned } }
    })
  },
})

interface Reader {
  caller: Caller
  /** Budget for the whole page. */
  budget: OutputBudget
}

async function contexts(bus: Bus, reader: Reader, rows: PassRow[]): Promise<ReturnToContext[]> {
  const found: ReturnToContext[] = []
  for (let at = 0; at < rows.length; at += CONCURRENCY) {
    const some = rows.slice(at, at + CONCURRENCY).map(async ({ id, originator, subagent }) => {
      const [pass] = await askPasses(bus, { id, from: originator, to: subagent })
      return pass && (await contextOf(bus, reader, pass))
    })
    for (const context of await Promise.all(some)) if (context) found.push(context)
  }
  return found
}

/** Returns the return context, or `undefined` if the pass has none: it is undecided, or was refused before admission. */
async function contextOf(bus: Bus, { caller, budget }: Reader, pass: AnsweredPass): Promise<ReturnToContext | undefined> {
  const control = pass.control as WorkControl | undefined
  if (!control) return undefined
  const outcome = await visibleOutcome(bus, caller, pass, budget)
  const { row, status, deadline } = pass
  return {
    session_id: control.session_id,
    return_id: control.return_id,
    originating_agent_id: row.originator,
    subagent_id: row.subagent,
    pass_over_id: row.id,
    auto_return_enabled: control.policy.auto_return,
    auto_apply_enabled: control.policy.auto_apply,
    ...(deadline === undefined ? {} : { return_deadline: deadline }),
    chain_depth: control.chain_depth,
    max_chain_depth: control.max_chain_depth,
    ancestors: control.ancestors,
    status: status as ReturnToContext['status'],
    created_at: row.created_at,
    ...(row.ended_at === undefined ? {} : { returned_at: row.ended_at }),
    ...(outcome.output ? { pending_work_output: outcome.output as WorkOutput } : {}),
    ...errorsOf(outcome),
  }
}

function errorsOf({ error, withheld }: { error?: PassError; withheld?: string }): { processing_errors?: string[] } {
  const errors = [...(error ? [`${error.code} ${error.message}`] : []), ...(withheld === undefined ? [] : [withheld])]
  return errors.length === 0 ? {} : { processing_errors: errors }
}
