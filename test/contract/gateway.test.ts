import { openApiDocument } from '@passover/gateway'
import { Ajv2020 } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { GatewayWorld } from '../support/gateway.js'
import { arbitraryOf } from '../support/json-arbitrary.js'

type Json = Record<string, unknown>
interface Parameter {
  name: string
  in: 'path' | 'query' | 'header'
  required: boolean
  schema: Json
}
interface Operation {
  operationId: string
  parameters: Parameter[]
  requestBody?: { content: { 'application/json': { schema: Json } } }
  responses: Record<string, { content?: Record<string, { schema: Json }> }>
}

const document = openApiDocument() as { paths: Record<string, Record<string, Operation>>; components: { schemas: Record<string, Json> } }
const ajv = new Ajv2020({ strict: false, validateFormats: false })
ajv.addSchema(document, 'openapi')

const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
)
const resolve = (ref: string) => document.components.schemas[ref.split('/').at(-1) ?? ''] ?? {}
/** Opaque: only what a page gave back is one. */
const OPAQUE = new Set(['cursor', 'after', 'before'])
const RUNS = 12

describe('the gateway keeps its document', () => {
  let world: GatewayWorld
  beforeAll(async () => {
    world = await GatewayWorld.start({ rate_burst: 100_000, rate_per_second: 100_000, most_wait_ms: 0 })
    await world.agents.world.agent('alice', { originates: 'always' })
    await world.agents.world.agent('audit')
    await (await world.agents.agent('audit')).onPass(async () => 'done')
  })
  afterAll(() => world?.[Symbol.asyncDispose]())

  interface Sent {
    path?: Json
    query?: Json
    header?: Json
    body?: unknown
  }

  async function send(of: (typeof operations)[number], { path = {}, query = {}, header = {}, body }: Sent) {
    const target = of.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(path[name])))
    const search = new URLSearchParams(Object.entries(query).map(([name, value]): [string, string] => [name, String(value)]))
    const headers = new Headers({ authorization: `Bearer ${of.operation.operationId === 'createPass' ? 'agent~alice' : 'ann'}` })
    for (const [name, value] of Object.entries(header)) headers.set(name, String(value))
    if (body !== undefined) headers.set('content-type', 'application/json')
    const sent = { method: of.method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) }
    return world.gateway.app.request(`http://localhost${target}?${search}`, sent)
  }

  /** The status is documented, and the body is what the document says of it. */
  async function keeps({ operation }: (typeof operations)[number], response: Response): Promise<void> {
    const media = (response.headers.get('content-type') ?? '').split(';')[0] ?? ''
    const documented = operation.responses[response.status]
    if (media === 'text/event-stream') return void (await response.body?.cancel())
    const text = await response.text()
    expect(documented, `${operation.operationId} answered ${response.status}: ${text.slice(0, 400)}`).toBeDefined()
    expect(response.status, text).toBeLessThan(500)
    if (response.status >= 400) expect(media).toBe('application/problem+json')
    const schema = documented?.content?.[media]?.schema as { $ref?: string } | undefined
    if (!schema?.$ref) return
    const validate = ajv.compile({ $ref: `openapi${schema.$ref}` })
    expect(validate(JSON.parse(text)), `${operation.operationId} ${response.status} ${ajv.errorsText(validate.errors)}`).toBe(true)
  }

  function valid({ operation }: (typeof operations)[number]): fc.Arbitrary<Sent> {
    const members = (place: Parameter['in']) => {
      const all = operation.parameters.filter((one) => one.in === place && !OPAQUE.has(one.name))
      const required = all.filter((one) => one.required).map(({ name }) => name)
      return fc.record(Object.fromEntries(all.map(({ name, schema }) => [name, arbitraryOf(schema, resolve)])), { requiredKeys: required })
    }
    const schema = operation.requestBody?.content['application/json'].schema
    const header = members('header').map((headers) =>
      Object.fromEntries(Object.entries(headers).filter(([, value]) => /^[!-~]+$/.test(String(value)))),
    )
    return fc.record({
      path: members('path'),
      query: members('query'),
      header,
      body: schema ? arbitraryOf(schema, resolve) : fc.constant(undefined),
    })
  }

  for (const of of operations) {
    const { operationId, parameters, requestBody } = of.operation

    it(`${operationId}: what the document allows gets a documented answer`, async () => {
      const plain = of.method === 'GET' && parameters.every((one) => one.in === 'query')
      await fc.assert(
        fc.asyncProperty(valid(of), async (sent) => {
          const response = await send(of, sent)
          if (plain) expect(response.status, `${operationId} ${JSON.stringify(sent.query)}`).toBe(200)
          await keeps(of, response)
        }),
        { numRuns: RUNS },
      )
    })

    it(`${operationId}: what it does not allow gets a documented problem`, async () => {
      const wrong: fc.Arbitrary<Sent>[] = []
      if (parameters.some((one) => one.in === 'query'))
        wrong.push(valid(of).map((sent) => ({ ...sent, query: { ...sent.query, colour: 'red' } })))
      for (const { name, in: place, schema } of parameters) {
        if (place === 'query' && schema.type === 'integer')
          wrong.push(valid(of).map((sent) => ({ ...sent, query: { ...sent.query, [name]: 'many' } })))
      }
      if (requestBody)
        wrong.push(
          valid(of).map((sent) => ({ ...sent, body: [sent.body] })),
          valid(of).map((sent) => ({ ...sent, body: 7 })),
        )
      if (wrong.length === 0) return
      await fc.assert(
        fc.asyncProperty(fc.oneof(...wrong), async (sent) => {
          const response = await send(of, sent)
          expect(response.status, operationId).toBeGreaterThanOrEqual(400)
          await keeps(of, response)
        }),
        { numRuns: RUNS },
      )
    })
  }
})
