import { blockedPort, PassOverError } from '@passover/core'
import { jsonFault } from '@passover/schemas'
import { problem } from '@passover/schemas/http'
import { z } from 'zod'
import { describeThrown } from '../errors/describe-thrown.js'
import { checkOptions, invalidOption, readSafely } from '../errors/option-errors.js'

export interface HttpOptions {
  /** Where the gateway is: `http://127.0.0.1:7420`, or below a path of a reverse proxy: `https://example.com/passover/`. */
  url: string
  token?: string | undefined
  /** Default: the global one. */
  fetch?: typeof fetch | undefined
  /** How long one request waits in all where the gateway says `Retry-After` (ms, default 30,000; 0: never). */
  most_wait_ms?: number | undefined
}

export interface Ask {
  method?: 'GET' | 'POST' | 'PUT'
  query?: Record<string, string | number | undefined>
  body?: unknown
  headers?: Record<string, string | undefined>
  signal?: AbortSignal | undefined
}

const API = 'api/pass-over'
const MOST_WAIT_MS = 30_000
const LEAST_WAIT_MS = 50
const TOO_MANY = 429
const NOT_NOW = 503

const httpOptions = z.strictObject({
  url: z.string(),
  token: z.string().optional(),
  fetch: z.custom<typeof fetch>((value) => typeof value === 'function', 'must be a function').optional(),
  most_wait_ms: z.number().min(0).optional(),
} satisfies Record<keyof HttpOptions, z.ZodType>)

/** Checks them before anything is sent. E005 names the option, and never shows a secret. */
export function checkHttp(options: HttpOptions): void {
  const { url, token } = checkOptions(httpOptions, options)
  const parsed = URL.canParse(url) ? new URL(url) : undefined
  if (parsed?.protocol !== 'http:' && parsed?.protocol !== 'https:')
    throw invalidOption('url', 'must be an address such as http://127.0.0.1:7420')
  if (parsed.username || parsed.password) throw invalidOption('url', 'must not include a user or password; give a token')
  if (blockedPort(url) !== undefined) throw invalidOption('url', `has a port that fetch does not connect to: ${blockedPort(url)}`)
  if (parsed.search || parsed.hash) throw invalidOption('url', 'must not include a query or a fragment')
  if (token !== undefined && !/^[\x21-\x7e]+$/.test(token)) throw invalidOption('token', 'must be printable ASCII without spaces')
}

/** An address of the API, below the path that the gateway has at its proxy. */
function addressOf(url: string, path: string): URL {
  const base = new URL(url)
  if (!base.pathname.endsWith('/')) base.pathname += '/'
  return new URL(`${API}${path}`, base)
}

function bodyText(body: unknown): string {
  return readSafely(body, 'body', () => {
    const found = jsonFault(body)
    if (found) throw invalidOption(found.path.map(String).join('.') || 'body', found.why)
    return JSON.stringify(body)
  })
}

/** Sends one request, and again after `Retry-After` where that can do no harm. PassOverError with the problem's code; E040 where nobody answers. */
export async function send(options: HttpOptions, path: string, asked: Ask = {}): Promise<Response> {
  let left_ms = options.most_wait_ms ?? MOST_WAIT_MS
  for (;;) {
    const response = await sendOnce(options, path, asked)
    if (response.ok) return response
    const error = await errorOf(response)
    const { retry_after_ms, pass_id } = error.context ?? {}
    // What a pass ended with would be another pass's end.
    if (typeof retry_after_ms !== 'number' || pass_id !== undefined || !mayAskAgain(response.status, asked)) throw error
    const wait_ms = Math.max(retry_after_ms, LEAST_WAIT_MS)
    if (wait_ms > left_ms) throw error
    left_ms -= wait_ms
    await pause(wait_ms, asked.signal)
    asked.signal?.throwIfAborted()
  }
}

/** What was turned away at the door was not done; of anything else only what changes nothing is asked again. */
function mayAskAgain(status: number, { method, body }: Ask): boolean {
  return status === TOO_MANY || (status === NOT_NOW && (method ?? 'GET') === 'GET' && body === undefined)
}

async function sendOnce({ url, token, fetch: ask = fetch }: HttpOptions, path: string, asked: Ask): Promise<Response> {
  const { method = asked.body === undefined ? 'GET' : 'POST', query = {}, body, signal } = asked
  const address = addressOf(url, path)
  for (const [name, value] of Object.entries(query)) if (value !== undefined) address.searchParams.set(name, String(value))
  const headers = new Headers(token === undefined ? {} : { authorization: `Bearer ${token}` })
  for (const [name, value] of Object.entries(asked.headers ?? {})) if (value !== undefined) headers.set(name, value)
  if (body !== undefined) headers.set('content-type', 'application/json')
  const sent = { method, headers, ...(body === undefined ? {} : { body: bodyText(body) }), ...(signal ? { signal } : {}) }
  return await ask(address, sent).catch((error: unknown) => {
    if (signal?.aborted) throw error
    throw new PassOverError('E040', `the gateway at ${url} does not answer: ${describeThrown(error).message}`)
  })
}

/** As JSON. What is no JSON comes from somebody else. */
export async function call<T>(options: HttpOptions, path: string, asked: Ask = {}): Promise<T> {
  const response = await send(options, path, asked)
  try {
    return (await response.json()) as T
  } catch {
    throw new PassOverError('E040', `what answers at ${options.url} is not a gateway; below a path of a proxy, the url includes that path`)
  }
}

async function errorOf(response: Response): Promise<PassOverError> {
  const said = problem.safeParse(await response.json().catch(() => undefined))
  const told = retryAfter(response.headers.get('retry-after'))
  if (!said.success) {
    return new PassOverError('E040', `the gateway answered ${response.status}`, { status: response.status, retry_after_ms: told })
  }
  const { code, detail, status, details, retry_after_ms = told, hint, errors, pass_id } = said.data
  const context = { ...details, status, retry_after_ms, hint, errors, pass_id }
  return new PassOverError(code === 'INTERNAL' ? 'E040' : code, detail, context)
}

/** In ms: seconds, or a date (RFC 9110). A proxy before the gateway says no more than this header. */
function retryAfter(header: string | null): number | undefined {
  if (header === null) return undefined
  if (/^\s*\d{1,9}\s*$/.test(header)) return Number(header) * 1_000
  const at = Date.parse(header)
  return Number.isNaN(at) ? undefined : Math.max(0, at - Date.now())
}

/** Ends early when the signal is aborted. */
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
