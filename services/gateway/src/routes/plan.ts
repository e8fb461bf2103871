import type { AnsweredPass, WorkOutput } from '@passover/schemas'
import { type ApplyPlan, applyPlan, idPath, partiesParameters } from '@passover/schemas/http'
import { type Judged, judge, mayApply } from '@passover/sdk'
import { Failure } from '@passover/sdk/people'
import { namedPass } from '../named-pass.js'
import { outcomeOf } from '../outcome.js'
import { route } from '../route.js'

export const showPlan = route({
  method: 'get',
  path: '/api/pass-over/passes/{id}/plan',
  name: 'showPlan',
  summary: 'What applying an output would change, and what was decided about each change. Files are changed where they are: passover apply',
  scope: 'read',
  access: 'own',
  params: idPath,
  query: partiesParameters,
  answers: { 200: { what: 'The plan', schema: applyPlan } },
  problems: [404, 409],
  handle({ params, query, caller, actor }) {
    return actor.as(async (bus) => {
      const pass = await namedPass(bus, { id: params.id, from: query.from, to: query.to })
      const { output } = await outcomeOf(bus, caller, pass)
      if (!output || !Array.isArray(output.artifacts)) {
        throw new Failure('E041', `${params.id} has no output to apply: it is ${pass.status}`, { hint: 'GET /api/pass-over/passes/{id}' })
      }
      return { status: 200, body: planOf(pass, judge(pass, pass.return, output as WorkOutput)) }
    })
  },
})

function planOf({ row, status }: AnsweredPass, judged: Judged): ApplyPlan {
  const allowed = mayApply(judged)
  const { decision, all } = judged
  const verdict = (digest: string) => (decision ? (decision.modifications?.[digest] ?? 'rejected') : 'undecided')
  return {
    id: row.id,
    status,
    may_apply: allowed.ok,
    ...(allowed.ok ? {} : { why_not: allowed.error.message }),
    ...(decision ? { decision } : {}),
    changes: all.map(({ number, digest, modification }) => ({ number, digest, verdict: verdict(digest), modification })),
  }
}
