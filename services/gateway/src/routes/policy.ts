import type { Bus } from '@passover/bus'
import { explainPolicy, PassOverError, type PolicyFault, readPolicy } from '@passover/core'
import { activePolicy, invalidPolicyError, openPolicySession, publish, sameDocument, validateForPublish } from '@passover/operator'
import { passOverPreferences } from '@passover/schemas'
import {
  explainedPolicy,
  explainParameters,
  policyInForce,
  publishedPolicy,
  putPolicyHeaders,
  putPolicyParameters,
} from '@passover/schemas/http'
import { z } from 'zod'
import { createProblem, HttpProblem, problemOf } from '../http/problem.js'
import { type Reply, route } from '../route.js'

export const getPolicy = route({
  method: 'get',
  path: '/api/pass-over/policy',
  name: 'getPolicy',
  summary: 'Get the policy in force; a change must send its ETag',
  scope: 'read',
  access: 'people',
  answers: { 200: { what: 'The policy', schema: policyInForce } },
  handle({ actor }) {
    return actor.as(async (bus) => {
      const { version, document, value } = await activePolicy(await openPolicySession(bus))
      const { by, time, reason } = value ?? {}
      return { status: 200, body: { version, document, by, time, reason }, headers: { etag: `"${version}"` } }
    })
  },
})

export const explainPolicyRoute = route({
  method: 'get',
  path: '/api/pass-over/policy/explain',
  name: 'explainPolicy',
  summary: 'Get every setting of a pair and the level that sets it',
  scope: 'read',
  access: 'people',
  query: explainParameters,
  answers: { 200: { what: 'The settings, field by field', schema: explainedPolicy } },
  handle({ query: { from, to }, actor }) {
    return actor.as(async (bus) => {
      const session = await openPolicySession(bus)
      const { version, document } = await activePolicy(session)
      const agent = session.agents?.get(to)
      const explained = explainPolicy(document, { from, to, agent })
      if (!explained.ok) throw PassOverError.from(explained.error)
      const fields = explained.value.fields.map(({ field, value, level, place }) => ({ field, value, level, path: place.path }))
      const { policy_name } = explained.value
      return { status: 200, body: { from, to, version, policy_name, registered: agent !== undefined, fields } }
    })
  },
})

/** `If-Match` is optional in the schema so that a missing one is answered with 428 instead of 400. */
const headers = z.object({ 'if-match': putPolicyHeaders.shape['if-match'].optional() })

export const putPolicy = route({
  method: 'put',
  path: '/api/pass-over/policy',
  name: 'putPolicy',
  summary: 'Publish the next version of the policy, based on the version in If-Match',
  scope: 'admin',
  access: 'people',
  query: putPolicyParameters,
  headers,
  body: passOverPreferences as z.ZodType<z.output<typeof passOverPreferences>>,
  answers: { 200: { what: 'The version is in force', schema: publishedPolicy } },
  problems: [409, 412, 422, 428],
  handle({ query, headers: given, body, actor }) {
    const base = baseOf(given['if-match'])
    return actor.as((bus) => put(bus, body, { ...query, base }))
  },
})

interface Put {
  base: number
  reason?: string | undefined
  allow_missing?: 'true' | 'false' | undefined
}

async function put(bus: Bus, body: unknown, { base, reason, allow_missing }: Put): Promise<Reply> {
  const read = readPolicy(body)
  if (!read.ok) throw invalidPolicyError('the document', read.faults)
  const { document } = read
  const session = await openPolicySession(bus)
  const warnings = await validateForPublish(document, {
    what: 'the document',
    agents: session.agents,
    allowMissing: allow_missing === 'true',
  })
  const live = await activePolicy(session)
  if (live.version !== base) throw overtaken(`version ${live.version} is in force, but your change is based on version ${base}`)
  if (sameDocument(document, live.document)) return published(live.version, { changed: false, warnings })
  const { version } = await publish(session, { document, base, reason }).catch((error: unknown) => {
    const { problem } = problemOf(error)
    throw problem.code === 'E031' ? overtaken(problem.detail) : error
  })
  return published(version, { changed: true, warnings })
}

function published(version: number, { changed, warnings }: { changed: boolean; warnings: PolicyFault[] }): Reply {
  const told = warnings.map(({ path, message }) => ({ path, message }))
  return { status: 200, body: { version, changed, warnings: told }, headers: { etag: `"${version}"` } }
}

function overtaken(detail: string): HttpProblem {
  return new HttpProblem(
    createProblem(412, { code: 'E031', detail, hint: 'GET the policy again, apply your change to it, and PUT it with its ETag' }),
  )
}

function baseOf(etag: string | undefined): number {
  // If-Match compares strongly: a weak tag matches no version.
  if (etag?.startsWith('W/')) throw overtaken(`${etag} is a weak tag, but If-Match needs the ETag of one version`)
  if (etag !== undefined) return Number(/\d+/.exec(etag)?.[0])
  const hint = 'GET /api/pass-over/policy and send its ETag as If-Match'
  throw new HttpProblem(createProblem(428, { code: 'E005', detail: 'If-Match does not name the version that was changed', hint }))
}
