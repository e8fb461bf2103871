import { blockedPort, PassOverError } from '@passover/core'
import { jsonFault } from '@passover/schemas'
import { problem } from '@passover/schemas/http'
import { z } from 'zod'
import { describeThrown } from '../errors/describe-thrown.js'
import { checkOptions, invalidOption, readSafely } from '../errors/option-errors.js'

/** Options of `connectHttp`. */
export interface HttpOptions {
  /** URL of the gateway: `http://127.0.0.1:7420`, or a path of a reverse proxy: `https://example.com/passover/`. */
  url: string
  /**
   * Token of an agent or a person. The gateway acts as this agent or person.
   * @defaultValue None. A gateway on the same machine may answer reads without a token.
   */
  token?: string | undefined
  /**
   * Function that sends requests.
   * @defaultValue The global `fetch`.
   */
  fetch?: typeof fetch | undefined
  /**
   * Maximum total time in milliseconds that a call waits because of `Retry-After` headers. With 0, it never waits.
   * @defaultValue `30_000`
   */
  maxWaitMs?: number | undefined
}

export interface Ask {
  method?: 'GET' | 'POST' | 'PUT'
  query?: Record<string, string | number | undefined>
  body?: unknown
  headers?: Record<string, string | undefined>
  signal?: AbortSignal | undefined
}

const API = 'api/pass-over'
const MAX_WAIT_MS = 30_000
const MIN_WAIT_MS = 50
const TOO_MANY = 429
const NOT_NOW = 503

const httpOptions = z.strictObject({
  url: z.string(),
  token: z.string().optional(),
  fetch: z.custom<typeof fetch>((value) => typeof value === 'function', 'must be a function').optional(),
  maxWaitMs: z.number().min(0).optional(),
} satisfies Record<keyof HttpOptions, z.ZodType>)

/** Validates the options before anything is sent. Throws E005, which names the option and never contains a secret. */
export function checkHttp(options: HttpOptions): void {
  const { url, token } = checkOptions(httpOptions, options)
  const parsed = URL.canParse(url) ? new URL(url) : undefined
  if (parsed?.protocol !== 'http:' && parsed?.protocol !== 'https:')
    throw invalidOption('url', 'must be an address such as http://127.0.0.1:7420')
  if (parsed.username || parsed.password) throw invalidOption('url', 'must not include a user or password; use a token')
  if (blockedPort(url) !== undefined) throw invalidOption('url', `has a port that fetch does not connect to: ${blockedPort(url)}`)
  if (parsed.search || parsed.hash) throw invalidOption('url', 'must not include a query or a fragment')
  if (token !== undefined && !/^[\x21-\x7e]+$/.test(token)) throw invalidOption('token', 'must be printable ASCII without spaces')
}

/** Returns a URL of the API, below the path that the gateway has at its proxy. */
function addressOf(url: string, path: string): URL {
  const base = new URL(url)
  if (!base.pathname.endsWith('/')) base.pathname += '/'
  return new URL(`${API}${path}`, base)
}

function bodyText(body: unknown): string {
  return readSafely(body, 'body', () => {
    const fault = jsonFault(body)
    if (fault) throw invalidOption(fault.path.map(String).join('.') || 'body', fault.why)
    return JSON.stringify(body)
  })
}

/**
 * Sends a request, and repeats it after `Retry-After` if a repetition is safe. Throws a PassOverError with the problem's code, or E040 if there is no
 * answer.
 */
export async function send(options: HttpOptions, path: string, request: Ask = {}): Promise<Response> {
  let left_ms = options.maxWaitMs ?? MAX_WAIT_MS
  for (;;) {
    const response = await sendOnce(options, path, request)
    if (response.ok) return response
    const error = await errorOf(response)
    const { retry_after_ms, pass_id } = error.context ?? {}
    // An error with a pass id ended that pass. Repeating the request would create another pass.
    if (typeof retry_after_ms !== 'number' || pass_id !== undefined || !mayRetry(response.status, request)) throw error
    const wait_ms = Math.max(retry_after_ms, MIN_WAIT_MS)
    if (wait_ms > left_ms) throw error
    left_ms -= wait_ms
    await pause(wait_ms, request.signal)
    request.signal?.throwIfAborted()
  }
}

/** Returns true if a request may be repeated: after a rate limit, because the request was not processed, and otherwise only if it changes nothing. */
function mayRetry(status: number, { method, body }: Ask): boolean {
  return status === TOO_MANY || (status === NOT_NOW && (method ?? 'GET') === 'GET' && body === undefined)
}

async function sendOnce({ url, token, fetch: ask = fetch }: HttpOptions, path: string, request: Ask): Promise<Response> {
  const { method = request.body === undefined ? 'GET' : 'POST', query = {}, body, signal } = request
  const address = addressOf(url, path)
  for (const [name, value] of Object.entries(query)) if (value !== undefined) address.searchParams.set(name, String(value))
  const headers = new Headers(token === undefined ? {} : { authorization: `Bearer ${token}` })
  for (const [name, value] of Object.entries(request.headers ?? {})) if (value !== undefined) headers.set(name, value)
  if (body !== undefined) headers.set('content-type', 'application/json')
  const sent = { method, headers, ...(body === undefined ? {} : { body: bodyText(body) }), ...(signal ? { signal } : {}) }
  return await ask(address, sent).catch((error: unknown) => {
    if (signal?.aborted) throw error
    throw new PassOverError('E040', `the gateway at ${url} does not answer: ${describeThrown(error).message}`)
  })
}

/** Sends a request and parses the JSON response. A response that is not JSON is not from a gateway: E040. */
export async function call<T>(options: HttpOptions, path: string, request: Ask = {}): Promise<T> {
  const response = await send(options, path, request)
  try {
    return (await response.json()) as T
  } catch {
    throw new PassOverError(
      'E040',
      `the server at ${options.url} is not a gateway; behind a proxy with a path, the url must include that path`,
    )
  }
}

async function errorOf(response: Response): Promise<PassOverError> {
  const body = problem.safeParse(await response.json().catch(() => undefined))
  const headerDelay = retryAfter(response.headers.get('retry-after'))
  if (!body.success) {
    return new PassOverError('E040', `the gateway answered ${response.status}`, { status: response.status, retry_after_ms: headerDelay })
  }
  const { code, detail, status, details, retry_after_ms = headerDelay, hint, errors, pass_id } = body.data
  const context = { ...details, status, retry_after_ms, hint, errors, pass_id }
  return new PassOverError(code === 'INTERNAL' ? 'E040' : code, detail, context)
}

/**
 * Parses `Retry-After`, which has seconds or a date (RFC 9110). Returns milliseconds. A proxy in front of the gateway sends nothing but this header.
 */
function retryAfter(header: string | null): number | undefined {
  if (header === null) return undefined
  if (/^\s*\d{1,9}\s*$/.test(header)) return Number(header) * 1_000
  const at = Date.parse(header)
  return Number.isNaN(at) ? undefined : Math.max(0, at - Date.now())
}

/** Resolves after `ms` milliseconds, or earlier when the signal is aborted. */
export function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const over = () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', over)
      resolve()
    }
    const timer = setTimeout(over, ms)
    signal?.addEventListener('abort', over, { once: true })
  })
}
