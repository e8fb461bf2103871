import type { Bus } from '@passover/bus'
import {
  askNameVerification,
  decidePending,
  Failure,
  isOpen,
  type NameVerification,
  type PassResult,
  publishCancel,
  readResult,
  type ShownReturn,
  shownDigest,
  waitUntilEnded,
} from '@passover/operator'
import type { AnsweredPass, InboxItem, PassKey } from '@passover/schemas'
import { cancelledPass, cancelPass, type DecidePass, decidedPass, decidePass, idPath } from '@passover/schemas/http'
import { requireOriginator } from '../auth/access.js'
import { OutputBudget, requireFewLines } from '../http/output-budget.js'
import { createProblem, HttpProblem } from '../http/problem.js'
import { findOnePass } from '../passes/find-pass.js'
import { type Reply, type Route, route } from '../route.js'

export const cancelPassRoute = route({
  method: 'post',
  path: '/api/pass-over/passes/{id}/cancel',
  name: 'cancelPass',
  summary: 'Cancel a pass and all its descendants, and wait up to 5 seconds until it ends',
  scope: 'create',
  access: 'own',
  params: idPath,
  body: cancelPass,
  answers: {
    200: { what: 'The pass is cancelled, by this request or earlier', schema: cancelledPass },
    202: { what: 'The cancellation is requested; the pass has not ended yet', schema: cancelledPass },
  },
  problems: [404, 409],
  handle({ params, body, caller, actor }) {
    return actor.as(async (bus) => {
      const pass = await findOnePass(bus, { id: params.id, from: body.from, to: body.to })
      requireOriginator(caller, pass.key)
      if (!isOpen(pass.row)) return ended(pass)
      await publishCancel(bus, pass, body.reason)
      const [now, names] = await Promise.all([waitUntilEnded(bus, pass), askNameVerification(bus)])
      // Marks on the names of people do not apply to an agent that cancels its own pass.
      const by: By = { by: bus.identity, ...(caller.kind === 'person' && names) }
      return isOpen(now.row) ? { status: 202, body: { id: now.row.id, cancelled: false, status: now.status, ...by } } : ended(now, by)
    })
  },
})

type By = NameVerification & { by?: string }

function ended({ row, status }: AnsweredPass, by: By = {}): Reply {
  if (status === 'cancelled') return { status: 200, body: { id: row.id, cancelled: true, status, ...by } }
  const hint = 'a pass that has ended cannot be cancelled'
  throw new HttpProblem(createProblem(409, { code: 'E043', detail: `${row.id} has already ended: ${status}`, hint }))
}

function decisionRoute(verdict: 'approve' | 'deny'): Route {
  return route({
    method: 'post',
    path: `/api/pass-over/passes/{id}/${verdict}`,
    name: `${verdict}Pass`,
    summary: `${verdict === 'approve' ? 'Approve' : 'Deny'} the item a pass waits for: its start, the release of its result, or its changes`,
    scope: 'decide',
    access: 'people',
    params: idPath,
    body: decidePass,
    answers: { 200: { what: 'The decision is stored, or the same decision was stored earlier', schema: decidedPass } },
    problems: [404, 409, 412],
    handle: ({ params, body, actor, inside }) =>
      actor.as(async (bus) => {
        const { key } = await findOnePass(bus, { id: params.id, from: body.from, to: body.to })
        return decideOn(bus, key, { ...body, verdict, budget: new OutputBudget(inside.options.output_bytes) })
      }),
  })
}

export const approvePassRoute = decisionRoute('approve')
export const denyPassRoute = decisionRoute('deny')

interface DecisionInput extends DecidePass {
  verdict: 'approve' | 'deny'
  budget: OutputBudget
}

async function decideOn(bus: Bus, { id, originator, subagent }: PassKey, given: DecisionInput): Promise<Reply> {
  const { verdict, reason, item, only, digest, binary, whole, despite_revocation } = given
  const ref = { id, from: originator, to: subagent }
  const confirm = async (due: InboxItem, returned: ShownReturn | undefined) => {
    if (returned?.review && digest === undefined) throw new HttpProblem(createProblem(400, noDigest(id)))
    return digest === undefined || same(shownDigest(due, returned), digest)
  }
  const read = (pass: AnsweredPass, due: InboxItem) => changesOf(bus, { pass, due }, given)
  const what = { ref, verdict, reason, item, only, accepts: { binary, whole }, despite_revocation }
  const { document, sentence, exit } = await decidePending(bus, { ...what, read, confirm })
  if (exit === 0) return { status: 200, body: document }
  const [status, code] = exit === 4 ? ([403, 'E013'] as const) : ([409, 'E031'] as const)
  throw new HttpProblem(createProblem(status, { code, detail: sentence, details: document }))
}

/** Loads the output whose changes are to be approved. Other decisions need no output, so nothing is loaded for them. */
async function changesOf(
  bus: Bus,
  { pass, due }: { pass: AnsweredPass; due: InboxItem },
  { verdict, whole, budget }: DecisionInput,
): Promise<PassResult | undefined> {
  if (verdict === 'deny' || due.item !== 'apply') return undefined
  const result = await readResult(bus, pass, budget.takes)
  if (result && 'unreadable' in result)
    throw new Failure('E041', `the changes of ${pass.row.id} cannot be approved here: ${result.unreadable}`, {
      hint: 'passover approve shows them',
    })
  if (whole && result && 'output' in result) requireFewLines(result.output.artifacts)
  return result
}

function noDigest(id: string) {
  return {
    code: 'E005' as const,
    detail: 'an approval of changes needs the digest of their plan',
    hint: `GET /api/pass-over/passes/${id}/plan, then approve with the digest of that plan`,
  }
}

/** Throws 412 if the shown digest differs from that of the pending item. */
function same(waits: string, shown: string): true {
  if (waits === shown) return true
  const hint = 'get the current item: GET /api/pass-over/passes/{id}, or for changes …/plan'
  throw new HttpProblem(
    createProblem(412, { code: 'E031', detail: 'nothing was decided: the pending item differs from the one that was shown', hint }),
  )
}
