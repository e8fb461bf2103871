import { takenModifications } from '@passover/core'
import { Failure } from '@passover/operator'
import { type AnsweredPass, sha256, type WorkOutput } from '@passover/schemas'
import { type ApplyPlan, applyPlan, idPath, planParameters } from '@passover/schemas/http'
import { type AuthorizationInput, authorizationInput, authorizeApply, reviewable, reviewReturn } from '@passover/sdk/internal'
import { OutputBudget, requireFewLines } from '../http/output-budget.js'
import { findOnePass } from '../passes/find-pass.js'
import { visibleOutcome } from '../passes/visible-outcome.js'
import { route } from '../route.js'

export const getApplyPlan = route({
  method: 'get',
  path: '/api/pass-over/passes/{id}/plan',
  name: 'showPlan',
  summary:
    'Get the changes that applying an output would make, file by file with warnings, and the decision on them. An approval of the changes needs the digest of this plan. The gateway does not change files; `passover apply` does, on the machine that has them',
  scope: 'read',
  access: 'own',
  params: idPath,
  query: planParameters,
  answers: { 200: { what: 'The plan', schema: applyPlan } },
  problems: [404, 409],
  handle({ params, query, caller, actor, inside }) {
    return actor.as(async (bus) => {
      const pass = await findOnePass(bus, { id: params.id, from: query.from, to: query.to })
      const { output_bytes } = inside.options
      const budget = new OutputBudget(caller.kind === 'agent' ? Math.min(output_bytes, AGENT_BYTES) : output_bytes)
      const { output, withheld } = await visibleOutcome(bus, caller, pass, budget)
      if (withheld !== undefined)
        throw new Failure('E041', `the plan of ${params.id} cannot be shown here: ${withheld}`, {
          hint: 'passover approve shows the changes',
        })
      if (!output || !Array.isArray(output.artifacts)) {
        throw new Failure('E041', `${params.id} has no output to apply: its status is ${pass.status}`, {
          hint: 'GET /api/pass-over/passes/{id}',
        })
      }
      if (!reviewable(output.artifacts))
        throw new Failure('E041', `the changes of ${params.id} cannot be read`, { hint: 'GET /api/pass-over/passes/{id}' })
      const only = query.only?.split(',').map(Number)
      const whole = query.whole === 'true' && caller.kind === 'person'
      if (whole) requireFewLines(output.artifacts)
      const options = { whole, ...(caller.kind === 'agent' && { steps: AGENT_STEPS }) }
      return { status: 200, body: planOf(pass, authorizationInput(pass, pass.return, output as WorkOutput), { only, options }) }
    })
  },
})

/**
 * Diff steps of a plan for an agent, about 20 ms. Agents choose the contents and cannot approve; with the default, each request of an agent could
 * keep the gateway busy for a second.
 */
const AGENT_STEPS = 200_000
/** Bytes of an output that a plan for an agent loads, limited for the same reason. Plans for agents do not show whole files either. */
const AGENT_BYTES = 1024 * 1024

interface Shown {
  only: readonly number[] | undefined
  options: { whole: boolean; steps?: number }
}

function planOf({ row, status, return: returned }: AnsweredPass, input: AuthorizationInput, { only, options }: Shown): ApplyPlan {
  const allowed = authorizeApply(input)
  const { decision, all } = input
  const unknown = only?.filter((number) => !all.some((one) => one.number === number)) ?? []
  if (unknown.length > 0)
    throw new Failure('E005', `only: there is no change ${unknown.join(', ')}; the pass has changes 1 to ${all.length}`)
  const candidates = decision ? takenModifications(all, decision) : all
  const taken = only ? candidates.filter(({ number }) => only.includes(number)) : candidates
  const review = reviewReturn(sha256(returned?.data ?? new Uint8Array()), taken, options)
  const verdict = (digest: string) => (decision ? (decision.modifications?.[digest] ?? 'rejected') : 'undecided')
  return {
    id: row.id,
    status,
    may_apply: allowed.ok,
    ...(allowed.ok ? {} : { why_not: allowed.error.message }),
    ...(decision ? { decision } : {}),
    ...review,
    changes: all.map(({ number, digest, modification }) => ({ number, digest, verdict: verdict(digest), modification })),
  }
}
