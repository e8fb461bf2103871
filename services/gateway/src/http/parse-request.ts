import { oneLine } from '@passover/core'
import { fieldIssues, PROTO, parseJson } from '@passover/schemas'
import type { z } from 'zod'
import { tooComplex } from './json-complexity.js'
import { createProblem, HttpProblem } from './problem.js'
import { stalled, type Uploads } from './uploads.js'

/** Parses a part of a request. Throws 400 with each invalid field. */
export function parsePart<T>(what: string, schema: z.ZodType<T> | undefined, value: unknown): T {
  if (!schema) return undefined as T
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const errors = fieldIssues(result.error.issues, 20).map(({ field, why }) => ({ path: field ? `${what}.${field}` : what, message: why }))
  const [first] = errors
  throw new HttpProblem(
    createProblem(400, { code: 'E005', detail: `${first?.path}: ${first?.message}`, hint: 'see /openapi.json', errors }),
  )
}

/** Parses a query into an object. Refuses (400) a parameter that is given twice. */
export function parseQuery(url: string): Record<string, string> {
  const found: Record<string, string> = Object.create(null)
  for (const [name, value] of new URL(url).searchParams) {
    if (name in found) {
      throw new HttpProblem(createProblem(400, { code: 'E005', detail: `query.${name}: given twice`, hint: 'give each parameter once' }))
    }
    found[name] = value
  }
  return { ...found }
}

interface Uploading {
  uploads: Uploads
  token: string
  /** Called with the number of bytes that were read. */
  charge: (bytes: number) => void
}

/** Reads the body as JSON. Throws 415, 413, 408, 503 (too many uploads) or 400. */
export async function readJsonBody(request: Request, most: number, { uploads, token, charge }: Uploading): Promise<unknown> {
  const type = request.headers.get('content-type') ?? ''
  if (!/^application\/json\s*(;\s*charset="?utf-8"?\s*)?$/i.test(type)) {
    const detail = type === '' ? 'the body has no Content-Type' : `a body of type ${oneLine(type, 80)} is not accepted`
    throw new HttpProblem(createProblem(415, { code: 'E005', detail, hint: 'send JSON, with "Content-Type: application/json"' }))
  }
  const told = request.headers.get('content-length')
  const expected = told === null ? most : Math.min(most, Number(told) || 0)
  const bytes = await uploads.take(token, expected, () => readUpTo(request, most, uploads.stall_ms))
  charge(bytes.length)
  const complex = tooComplex(bytes)
  if (complex) throw new HttpProblem(createProblem(400, { code: 'E005', detail: `the body is too complex: ${complex}` }))
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw new HttpProblem(createProblem(400, { code: 'E005', detail: 'the body is not UTF-8' }))
  }
  try {
    return parseJson(text, protoRefused)
  } catch (error) {
    if (error instanceof HttpProblem) throw error
    const why = error instanceof Error ? error.message : String(error)
    throw new HttpProblem(createProblem(400, { code: 'E005', detail: `the body is not JSON: ${oneLine(why, 200)}` }))
  }
}

function protoRefused(): HttpProblem {
  return new HttpProblem(createProblem(400, { code: 'E005', detail: `body: the name ${PROTO} is not allowed` }))
}

async function readUpTo(request: Request, most: number, stall_ms: number): Promise<Uint8Array> {
  const told = Number(request.headers.get('content-length') ?? 0)
  if (told > most) throw tooLarge(most)
  const chunks: Uint8Array[] = []
  let size = 0
  try {
    for await (const chunk of chunksOf(request.body, stall_ms)) {
      size += chunk.length
      if (size > most) throw tooLarge(most)
      chunks.push(chunk)
    }
  } catch (error) {
    if (error instanceof HttpProblem) throw error
    // The sender closed the connection, so this response has no reader.
    throw new HttpProblem(createProblem(400, { code: 'E005', detail: 'the body ended before it was complete' }))
  }
  return Buffer.concat(chunks)
}

/** Yields the chunks of a body. Throws 408 if none arrives for `stall_ms`. */
async function* chunksOf(body: Request['body'], stall_ms: number): AsyncGenerator<Uint8Array> {
  const reader = body?.getReader()
  if (!reader) return
  let timer: NodeJS.Timeout | undefined
  try {
    for (;;) {
      const late = new Promise<never>((_, reject) => {
        timer = setTimeout(() => reject(stalled(stall_ms)), stall_ms)
      })
      const { done, value } = await Promise.race([reader.read(), late])
      clearTimeout(timer)
      if (done) return
      yield value
    }
  } finally {
    clearTimeout(timer)
    void reader.cancel().catch(() => undefined)
  }
}

function tooLarge(most: number): HttpProblem {
  const hint = 'send fewer or smaller files, or use @passover/sdk, which sends larger contexts over NATS'
  return new HttpProblem(createProblem(413, { code: 'E005', detail: `the body has more than ${most} bytes`, hint }), {
    connection: 'close',
  })
}

/** Returns the wait of `Prefer: wait=30` (RFC 7240) in milliseconds, at most `most_ms`; 0 if there is none. */
export function parsePreferWait(prefer: string | null, most_ms: number): number {
  const [, seconds] = /(?:^|[,;])\s*wait\s*=\s*"?(\d{1,5})"?\s*(?:$|[,;])/i.exec(prefer ?? '') ?? []
  return seconds === undefined ? 0 : Math.min(Number(seconds) * 1_000, most_ms)
}
