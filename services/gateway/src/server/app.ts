import type { ServerResponse } from 'node:http'
import { oneLine, printableJson, TokenBuckets } from '@passover/core'
import { type Context, Hono } from 'hono'
import { Actor, requireAccess } from '../auth/access.js'
import { type Caller, callerOf, requireScope, type Tokens } from '../auth/caller.js'
import { parsePart, parseQuery, readJsonBody } from '../http/parse-request.js'
import { createProblem, HttpProblem, problemOf, problemResponse } from '../http/problem.js'
import { Uploads } from '../http/uploads.js'
import type { HandlerContext, Reply, Route } from '../route.js'
import { ROUTES } from '../routes/index.js'
import { isLoopbackName } from './listen.js'
import { PendingResponses } from './pending-responses.js'

export interface AppDeps {
  inside: HandlerContext
  tokens: Tokens
  /** Caller of requests without a token, as long as no token was ever created; `undefined` if every request needs a token. */
  open: Caller | undefined
}

const HARDENING = { 'x-content-type-options': 'nosniff', 'referrer-policy': 'no-referrer' }

/** Builds the app. Every route checks the caller, the rate limit, scope and access, and parses the request before its handler runs. */
export function createApp(deps: AppDeps): Hono {
  const app = new Hono()
  const rates = new TokenBuckets({ per_second: deps.inside.options.rate_per_second, burst: deps.inside.options.rate_burst })
  const uploads = new Uploads(deps.inside.options)
  const pending = new PendingResponses(deps.inside.options)
  app.use(async (context, next) => {
    requireReadable(context.req.raw.url)
    await next()
  })
  for (const route of ROUTES) {
    app.on(route.method.toUpperCase(), route.path.replaceAll(/\{(\w+)\}/g, ':$1'), (context) =>
      answer(context, route, { ...deps, rates, uploads, pending }),
    )
  }
  app.notFound((context) => logUnexpected(context, noRoute(context)))
  app.onError((error, context) => logUnexpected(context, error, deps.inside))
  return app
}

interface Gate extends AppDeps {
  rates: TokenBuckets
  uploads: Uploads
  pending: PendingResponses
}

async function answer(context: Context, route: Route, gate: Gate): Promise<Response> {
  const begun = performance.now()
  const { metrics } = gate.inside
  try {
    const response = await handled(context, route, gate)
    metrics.answered(route.name, response.status, performance.now() - begun)
    return response
  } catch (error) {
    const response = logUnexpected(context, error, gate.inside)
    metrics.answered(route.name, response.status, performance.now() - begun)
    return response
  }
}

async function handled(context: Context, route: Route, gate: Gate): Promise<Response> {
  const { inside, tokens, open, rates, uploads, pending } = gate
  const request = context.req.raw
  refuseForeign(request)
  const caller = route.scope === undefined ? NO_CALLER : await callerOf(request.headers.get('authorization') ?? undefined, tokens, open)
  if (caller === open) refuseNamed(request)
  if (route.scope !== undefined) {
    const rate = rates.take(caller.token, performance.now())
    if (!rate.ok) throw tooMany(rate.wait_ms)
    requireScope(caller, route.scope)
    requireAccess(caller, route.access)
  }
  const charge = (bytes: number) => rates.charge(caller.token, Math.floor(bytes / BYTES_A_REQUEST), performance.now())
  const params = parsePart('path', route.params, context.req.param())
  const query = parsePart('query', route.query, route.query ? parseQuery(request.url) : undefined)
  const headers = parsePart('header', route.headers, Object.fromEntries(request.headers))
  const body = parsePart(
    'body',
    route.body,
    route.body ? await readJsonBody(request, inside.options.body_bytes, { uploads, token: caller.token, charge }) : undefined,
  )
  const reply = await route.handle({
    params,
    query,
    headers,
    body,
    caller,
    actor: new Actor(inside.pool, caller, inside.options.output_bytes),
    inside,
    request,
  })
  if (reply instanceof Response) return hardened(reply)
  const text = reply.body === undefined ? undefined : `${printableJson(reply.body)}\n`
  if (text !== undefined) {
    const bytes = Buffer.byteLength(text)
    charge(bytes)
    const { outgoing } = (context.env ?? {}) as { outgoing?: ServerResponse }
    if (outgoing) pending.send(caller.token, bytes, outgoing)
  }
  return respond(reply, text)
}

/** Bytes of a body or a response that count as one more request of the rate limit, because large ones take longer to read or to produce. */
const BYTES_A_REQUEST = 256 * 1024

const NO_CALLER: Caller = { name: '', kind: 'person', scopes: [], token: '' }

/** Refuses a request URL (400) without a valid host, or with a path that is not percent-encoded UTF-8. */
function requireReadable(address: string): void {
  if (!URL.canParse(address)) {
    throw new HttpProblem(createProblem(400, { code: 'E005', detail: 'the Host header contains no host' }))
  }
  try {
    decodeURIComponent(new URL(address).pathname)
  } catch {
    throw new HttpProblem(createProblem(400, { code: 'E005', detail: 'the path is not percent-encoded UTF-8' }))
  }
}

/** Refuses requests that a browser sends from a page of another site (cross-site request forgery). */
function refuseForeign(request: Request): void {
  const { host } = new URL(request.url)
  const origin = request.headers.get('origin')
  if (origin !== null && (!URL.canParse(origin) || new URL(origin).host !== host)) {
    throw new HttpProblem(createProblem(403, { code: 'E013', detail: 'requests from pages of other sites are not allowed' }))
  }
}

/** Refuses host names other than loopback while no token is needed: a foreign name that resolves to this address could be a DNS rebinding attack. */
function refuseNamed(request: Request): void {
  const { hostname } = new URL(request.url)
  if (!isLoopbackName(hostname)) {
    const detail = `without tokens, only programs on this machine may connect, using the name localhost or 127.0.0.1, not "${oneLine(hostname, 80)}"`
    throw new HttpProblem(createProblem(403, { code: 'E013', detail, hint: 'to create a token: passover gateway token add' }))
  }
}

function tooMany(retry_after_ms: number): HttpProblem {
  const detail = 'too many requests with this token'
  return new HttpProblem(createProblem(429, { code: 'E014', detail, hint: 'wait for the time in Retry-After', retry_after_ms }))
}

function respond({ status, headers = {} }: Reply, text: string | undefined): Response {
  if (text === undefined) return hardened(new Response(null, { status, headers }))
  return hardened(
    new Response(text, { status, headers: { 'content-type': 'application/json; charset=utf-8', 'cache-control': 'no-store', ...headers } }),
  )
}

function hardened(response: Response): Response {
  for (const [name, value] of Object.entries(HARDENING)) response.headers.set(name, value)
  return response
}

/** Turns an error into a problem response (RFC 9457), and logs it if it was unexpected. */
function logUnexpected(context: Context, error: unknown, inside?: HandlerContext): Response {
  const { problem, headers, bug } = problemOf(error)
  if (bug) inside?.log.error({ err: error, method: context.req.method, path: context.req.path }, 'a request failed')
  return hardened(problemResponse(problem, headers))
}

/** Returns 405 if the path exists for another method, otherwise 404. */
function noRoute(context: Context): HttpProblem {
  const { path, method } = context.req
  const here = ROUTES.filter((route) => new RegExp(`^${route.path.replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(path))
  const hint = 'GET /openapi.json lists all paths'
  if (here.length === 0) {
    return new HttpProblem(createProblem(404, { code: 'E042', detail: `path ${oneLine(path, 200)} does not exist`, hint }))
  }
  const allow = here.map((route) => route.method.toUpperCase()).join(', ')
  const detail = `${oneLine(method, 20)} is not allowed for ${oneLine(path, 200)}`
  return new HttpProblem(createProblem(405, { code: 'E042', detail, hint: `allowed methods: ${allow}` }), { allow })
}
