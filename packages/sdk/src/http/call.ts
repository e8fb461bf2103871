import { PassOverError } from '@passover/core'
import { problem } from '@passover/schemas/http'

export interface HttpOptions {
  /** Where the gateway is: `http://127.0.0.1:7420`. */
  url: string
  token?: string | undefined
  /** Default: the global one. */
  fetch?: typeof fetch | undefined
}

export interface Ask {
  method?: 'GET' | 'POST' | 'PUT'
  query?: Record<string, string | number | undefined>
  body?: unknown
  headers?: Record<string, string | undefined>
  signal?: AbortSignal | undefined
}

const API = '/api/pass-over'

/** Sends one request. PassOverError with the problem's code; E040 where nobody answers. */
export async function send({ url, token, fetch: ask = fetch }: HttpOptions, path: string, asked: Ask = {}): Promise<Response> {
  const { method = asked.body === undefined ? 'GET' : 'POST', query = {}, body, signal } = asked
  const address = new URL(`${API}${path}`, url)
  for (const [name, value] of Object.entries(query)) if (value !== undefined) address.searchParams.set(name, String(value))
  const headers = new Headers(token === undefined ? {} : { authorization: `Bearer ${token}` })
  for (const [name, value] of Object.entries(asked.headers ?? {})) if (value !== undefined) headers.set(name, value)
  if (body !== undefined) headers.set('content-type', 'application/json')
  const sent = { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }), ...(signal ? { signal } : {}) }
  const response = await ask(address, sent).catch((error: unknown) => {
    if (signal?.aborted) throw error
    throw new PassOverError('E040', `the gateway at ${url} does not answer: ${error instanceof Error ? error.message : String(error)}`)
  })
  if (response.ok) return response
  throw await errorOf(response)
}

/** As JSON. What is no JSON comes from somebody else. */
export async function call<T>(options: HttpOptions, path: string, asked: Ask = {}): Promise<T> {
  const response = await send(options, path, asked)
  try {
    return (await response.json()) as T
  } catch {
    throw new PassOverError('E040', `what answers at ${options.url} is no gateway`)
  }
}

async function errorOf(response: Response): Promise<PassOverError> {
  const said = problem.safeParse(await response.json().catch(() => undefined))
  if (!said.success) return new PassOverError('E040', `the gateway answered ${response.status}`, { status: response.status })
  const { code, detail, status, details, retry_after_ms, hint, errors, pass_id } = said.data
  const context = { ...details, status, retry_after_ms, hint, errors, pass_id }
  return new PassOverError(code === 'INTERNAL' ? 'E040' : code, detail, context)
}
