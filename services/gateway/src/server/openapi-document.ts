import * as structures from '@passover/schemas'
import * as api from '@passover/schemas/http'
import { z } from 'zod'
import type { Route } from '../route.js'
import { ROUTES } from '../routes/index.js'

type Json = Record<string, unknown>

/**
 * Options for schemas of client input. A union whose members may omit their discriminator becomes `anyOf`, since `oneOf` requires that exactly one
 * member matches.
 */
const INPUT = {
  io: 'input',
  unrepresentable: 'any',
  override({ jsonSchema }: { jsonSchema: Json }): void {
    const { oneOf } = jsonSchema as { oneOf?: { required?: string[] }[] }
    if (!oneOf || oneOf.every(({ required = [] }) => required.includes('type') || required.includes('kind') || required.includes('event')))
      return
    delete jsonSchema.oneOf
    jsonSchema.anyOf = oneOf
  },
} as const

/** Schemas that are listed once under `components` and referenced from there. */
const COMPONENTS: Record<string, z.ZodType> = {
  Problem: api.problem,
  PassRow: structures.passRow,
  PassOverAuditEntry: structures.passOverAuditEntry,
  ReturnToContext: structures.returnToContext,
  WorkOutput: structures.workOutput,
  FileModificationArtifact: structures.fileModificationArtifact,
  AgentPairOverride: structures.agentPairOverride,
  PassOverPreferences: structures.passOverPreferences,
  InboxItem: structures.inboxItem,
  DeadLetter: structures.deadLetter,
  AgentRecord: structures.agentRecord,
  PassError: structures.passError,
  HealthReport: structures.healthReport,
  FeedEvent: api.feedEvent,
}

const SHARED_PROBLEMS: Record<number, string> = {
  400: 'The request does not match this document',
  401: 'The token is missing or unknown',
  403: 'Not allowed',
  404: 'The pass, agent or version does not exist',
  409: 'Conflict with the current state',
  412: 'The version was changed in the meantime',
  413: 'Too large',
  415: 'Not JSON',
  422: 'Refused by chain or policy, or the policy document is not valid',
  428: 'If-Match with the version that was changed is required',
  429: 'Too many requests with this token',
  500: 'Internal error of the gateway',
  502: 'The subagent failed',
  503: 'Temporarily unavailable; retry after the time in Retry-After',
  504: 'Timed out',
}

/** Generates the OpenAPI 3.1 document from the same schemas that parse the requests. */
export function openApiDocument(): Json {
  const schemas = z.registry<{ id: string }>()
  for (const [id, schema] of Object.entries(COMPONENTS)) schemas.add(schema, { id })
  const named = nameBodies(schemas)
  const generated = z.toJSONSchema(schemas, { ...INPUT, uri: (id) => `#/components/schemas/${id}` })
  const components = Object.entries(generated.schemas).map(([id, schema]) => [id, bare(schema as Json)] as const)
  const paths: Record<string, Json> = {}
  for (const route of ROUTES) paths[route.path] = { ...paths[route.path], [route.method]: operationOf(route, named) }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Passover',
      version: '1',
      description: 'Pass work to another agent and get exactly one result.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/', description: 'The gateway that serves this document' }],
    paths,
    components: {
      schemas: Object.fromEntries(components.sort(([a], [b]) => (a < b ? -1 : 1))),
      securitySchemes: { token: { type: 'http', scheme: 'bearer' } },
    },
  }
}

/** Names body schemas that are not in COMPONENTS after their operation. */
function nameBodies(schemas: {
  has(schema: z.ZodType): boolean
  add(schema: z.ZodType, meta: { id: string }): unknown
}): Map<z.ZodType, string> {
  const named = new Map(Object.entries(COMPONENTS).map(([id, schema]) => [schema, id]))
  const add = (schema: z.ZodType | undefined, id: string) => {
    if (!schema || named.has(schema)) return
    named.set(schema, id)
    schemas.add(schema, { id })
  }
  for (const { name, body, answers } of ROUTES) {
    const upper = name[0]?.toUpperCase() + name.slice(1)
    add(body, `${upper}Body`)
    for (const { schema } of Object.values(answers)) add(schema, `${upper}Answer`)
  }
  return named
}

function operationOf(route: Route, named: Map<z.ZodType, string>): Json {
  const { name, summary, scope, access, body, answers, problems = [] } = route
  const refer = (schema: z.ZodType) => ({ $ref: `#/components/schemas/${named.get(schema)}` })
  const responses: Record<string, Json> = {}
  for (const [status, { what, schema, media = 'application/json' }] of Object.entries(answers)) {
    responses[status] = {
      description: what,
      content: {
        [media]: { schema: media === 'application/json' ? (schema ? refer(schema) : {}) : textual(media, schema && refer(schema)) },
      },
    }
  }
  for (const status of problemsOf(route, problems)) responses[status] ??= problemResponse(status)
  return {
    operationId: name,
    summary,
    ...(scope ? { security: [{ token: [] }, {}], 'x-passover-scope': scope, 'x-passover-access': access } : { security: [] }),
    parameters: parametersOf(route),
    ...(body ? { requestBody: { required: true, content: { 'application/json': { schema: refer(body) } } } } : {}),
    responses,
  }
}

/** Describes a text body, and the schema of its data once parsed. */
function textual(media: string, data: Json | undefined): Json {
  return { type: 'string', ...(data ? { contentMediaType: media, contentSchema: data } : {}) }
}

function problemsOf({ scope, body, params, query, headers }: Route, more: readonly number[]): number[] {
  const found = new Set([403, 500, ...more])
  if (scope) for (const status of [401, 429, 503]) found.add(status)
  if (query || headers || params || body) found.add(400)
  if (body) for (const status of [413, 415]) found.add(status)
  return [...found].sort((a, b) => a - b)
}

function problemResponse(status: number): Json {
  const description = SHARED_PROBLEMS[status] ?? 'The request failed'
  return { description, content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } } }
}

function parametersOf({ params, query, headers }: Route): Json[] {
  return [...membersOf(params, 'path'), ...membersOf(query, 'query'), ...membersOf(headers, 'header')]
}

function membersOf(schema: z.ZodType | undefined, place: 'path' | 'query' | 'header'): Json[] {
  if (!schema) return []
  const { properties = {}, required = [] } = bare(z.toJSONSchema(schema, INPUT) as Json) as {
    properties?: Record<string, Json>
    required?: string[]
  }
  return Object.entries(properties).map(([name, one]) => ({
    name,
    in: place,
    required: place === 'path' || required.includes(name),
    schema: one,
  }))
}

/** Removes `$schema` and `$id` from a generated schema, which are only for standalone documents. */
function bare({ $schema: _, $id: __, ...schema }: Json): Json {
  return schema
}
