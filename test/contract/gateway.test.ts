import { type Gateway, openApiDocument, TokenFileError } from '@passover/gateway'
import { Ajv2020 } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { arbitraryOf } from '../support/builders/json-arbitrary.js'
import { GatewayWorld, TEST_TOKENS } from '../support/fixtures/gateway.js'
import { endings, makeEnding, type Sent } from '../support/fixtures/gateway-endings.js'

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
/** Documented, and not brought about here at will: where it is. */
const ELSEWHERE: Record<string, string> = {
  'livez 500': 'nothing in it can fail; a fault would be answered as everywhere (listAudit 500)',
  'readyz 500': 'likewise',
  'openapi 500': 'likewise',
  'livez 503': 'packages/core/src/runtime/health.test.ts: no trouble of a gateway is one that a restart mends',
  'readyz 503': 'packages/core/src/runtime/health.test.ts: it says what the report says',
  'cancelPass 202': 'where no dispatcher ends it within the moment that is waited: the same as an end that is waited for (createPass 202)',
  'requeueDeadLetter 200': 'test/e2e/people/dead-letters',
  'requeueDeadLetter 422': 'test/e2e/people/dead-letters: what was requeued is refused',
  'dropDeadLetter 409': 'test/e2e/people/dead-letters: it was requeued',
}

describe('the gateway keeps its document', () => {
  let world: GatewayWorld
  let patient: Gateway
  beforeAll(async () => {
    world = await GatewayWorld.start({ rate_burst: 100_000, rate_per_second: 100_000, most_wait_ms: 0 })
    await world.agents.world.agent('alice', { originates: 'always' })
    await world.agents.world.agent('audit')
    await (await world.agents.agent('audit')).onPass(async () => 'done')
    patient = await makeEnding(world)
  })
  afterAll(() => world?.[Symbol.asyncDispose]())

  /** `operation status`, of every answer so far. */
  const seen = new Set<string>()

  async function send(of: (typeof operations)[number], sent: Sent) {
    const { path = {}, query = {}, header = {}, body, gateway = world.gateway } = sent
    const token = sent.token ?? (of.operation.operationId === 'createPass' ? 'agent~alice' : 'ann')
    const target = of.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(path[name])))
    const search = new URLSearchParams(Object.entries(query).map(([name, value]): [string, string] => [name, String(value)]))
    const headers = new Headers({ authorization: `Bearer ${token}` })
    if (body !== undefined) headers.set('content-type', 'application/json')
    for (const [name, value] of Object.entries(header)) headers.set(name, String(value))
    const init = { method: of.method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) }
    return gateway.app.request(`http://localhost${target}?${search}`, init)
  }

  /** The status is documented, and the body is what the document says of it. */
  async function keeps({ operation }: (typeof operations)[number], response: Response): Promise<Json> {
    seen.add(`${operation.operationId} ${response.status}`)
    const media = (response.headers.get('content-type') ?? '').split(';')[0] ?? ''
    const documented = operation.responses[response.status]
    if (media === 'text/event-stream') {
      await response.body?.cancel()
      return {}
    }
    const text = await response.text()
    expect(documented, `${operation.operationId} answered ${response.status}: ${text.slice(0, 400)}`).toBeDefined()
    if (response.status >= 400) expect(media).toBe('application/problem+json')
    const schema = documented?.content?.[media]?.schema as { $ref?: string } | undefined
    if (!schema?.$ref) return {}
    const validate = ajv.compile({ $ref: `openapi${schema.$ref}` })
    expect(validate(JSON.parse(text)), `${operation.operationId} ${response.status} ${ajv.errorsText(validate.errors)}`).toBe(true)
    return JSON.parse(text) as Json
  }

  /** Asks, and gets the documented answer of this status. */
  async function told(operation: string, status: number, sent: Sent): Promise<Json> {
    const of = operations.find((one) => one.operation.operationId === operation)
    if (!of) throw new Error(`there is no operation ${operation}`)
    const response = await send(of, sent)
    const body = await keeps(of, response)
    expect(response.status, `${operation} ${JSON.stringify(sent.body)} ${JSON.stringify(body)}`).toBe(status)
    return body
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
      // No client can ask for a path with such a segment: it is taken out of the address.
      path: members('path').filter((path) => Object.values(path).every((value) => value !== '.' && value !== '..')),
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
          expect(response.status, operationId).toBeLessThan(500)
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
  it('turns away at the door as documented, every operation', async () => {
    const narrow = await world.another({ rate_burst: 1, rate_per_second: 0.001, body_bytes: 1_024 })
    const refusing = (error: Error) => world.another({}, { ...TEST_TOKENS, find: () => Promise.reject(error) })
    const broken = await refusing(new TypeError('planted'))
    const spoiled = await refusing(new TokenFileError('/tokens.json', 'is not a token file'))
    for (const { operation } of operations) {
      const { operationId: name, responses, requestBody } = operation
      const path = { id: 'no-such-pass-1' }
      await told(name, 403, { path, header: { origin: 'https://elsewhere.example' } })
      if (!('429' in responses)) continue
      await told(name, 401, { path, token: 'nobody' })
      const token = `${name.toLowerCase()}~none`
      await told(name, 403, { path, token, gateway: narrow })
      await told(name, 429, { path, token, gateway: narrow })
      await told(name, 500, { path, gateway: broken })
      const told503 = await told(name, 503, { path, gateway: spoiled })
      expect(JSON.stringify(told503)).not.toContain('/tokens.json')
      if (!requestBody) continue
      const headers = { ...('putPolicy' === name ? { 'if-match': '"0"' } : {}) }
      await told(name, 415, { path, body: {}, header: { ...headers, 'content-type': 'text/plain' } })
      const large = { path, body: { x: 'x'.repeat(2_000) }, header: headers, token: `${name.toLowerCase()}x`, gateway: narrow }
      await told(name, 413, large)
    }
  })

  it('answers what passes, policies and dead letters come to as documented', async () => {
    await endings(world, patient, told)
  }, 180_000)

  it('has no documented answer that nothing shows', () => {
    const documented = operations.flatMap(({ operation }) =>
      Object.keys(operation.responses).map((status) => `${operation.operationId} ${status}`),
    )
    expect(documented.filter((one) => !seen.has(one) && !(one in ELSEWHERE))).toEqual([])
    expect(Object.keys(ELSEWHERE).filter((one) => !documented.includes(one))).toEqual([])
  })
})
