import { BusReadError, BusUnreachable, TableError } from '@passover/bus'
import { ERRORS, oneLine, PassOverError, printableJson } from '@passover/core'
import { Failure } from '@passover/operator'
import type { ErrorCode } from '@passover/schemas'
import type { Problem } from '@passover/schemas/http'

/** A response that is not a success, thrown where the problem is found. */
export class HttpProblem extends Error {
  override readonly name = 'HttpProblem'

  constructor(
    readonly problem: Problem,
    readonly headers: Record<string, string> = {},
  ) {
    super(problem.detail)
  }
}

/** The token file cannot be used, because of a system error or its content. An invalid file authenticates no caller. */
export class TokenFileError extends Error {
  override readonly name = 'TokenFileError'
  constructor(
    readonly path: string,
    readonly why: string,
  ) {
    super(`the file of tokens ${path} ${why}`)
  }
}

type ProblemDetails = Omit<Problem, 'type' | 'title' | 'status'>

export function createProblem(status: number, said: ProblemDetails): Problem {
  const { code } = said
  const title = code === 'INTERNAL' ? 'The gateway failed.' : ERRORS[code].sentence
  return { type: `urn:passover:error:${code}`, title, status, ...said }
}

/** Turns a problem into a response. */
export function problemResponse(problem: Problem, headers: Record<string, string> = {}): Response {
  return new Response(`${printableJson(problem)}\n`, {
    status: problem.status,
    headers: { 'content-type': 'application/problem+json; charset=utf-8', 'cache-control': 'no-store', ...headers },
  })
}

const RETRY_MS = 1_000

/** Maps an error to the problem that the client sees. `bug` is set if the error needs a log entry. */
export function problemOf(error: unknown): { problem: Problem; headers: Record<string, string>; bug?: true } {
  if (error instanceof HttpProblem) return { problem: error.problem, headers: { ...retryAfter(error.problem), ...error.headers } }
  if (error instanceof Failure) return answered(ofFailure(error))
  if (error instanceof PassOverError) return answered(ofPassError(error))
  if (error instanceof BusUnreachable)
    return answered(createProblem(ERRORS.E040.http, { code: 'E040', detail: error.message, hint: error.hint }))
  if (error instanceof BusReadError || error instanceof TableError) {
    return answered(createProblem(ERRORS.E040.http, { code: 'E040', detail: 'the server cannot be read at the moment', hint: 'try again' }))
  }
  if (error instanceof TokenFileError) {
    // The client does not see the path of the file.
    const detail = 'the tokens of this gateway cannot be read at the moment; see its log'
    return { ...answered(createProblem(503, { code: 'E040', detail })), bug: true }
  }
  return { ...answered(createProblem(500, { code: 'INTERNAL', detail: 'this is a bug in the gateway; see its log' })), bug: true }
}

function answered(problem: Problem): { problem: Problem; headers: Record<string, string> } {
  // Errors that a retry cannot fix get no Retry-After.
  const untold = problem.status === 503 && problem.retry_after_ms === undefined && problem.details?.recoverable !== false
  const waits = untold ? { ...problem, retry_after_ms: RETRY_MS } : problem
  return { problem: waits, headers: retryAfter(waits) }
}

function retryAfter({ retry_after_ms }: Problem): Record<string, string> {
  return retry_after_ms === undefined ? {} : { 'retry-after': String(Math.max(1, Math.ceil(retry_after_ms / 1_000))) }
}

function ofFailure({ code, message, hint, faults }: Failure): Problem {
  const errors = faults?.map(({ path, message: why }) => ({ path: String(path ?? ''), message: String(why ?? '') }))
  const mend = hint ?? ERRORS[code].action
  return createProblem(ERRORS[code].http, { code, detail: message, hint: mend, ...(errors ? { errors } : {}) })
}

function ofPassError({ code, message, context }: PassOverError): Problem {
  return { ...problemOfCode(code, message), ...(context ? { details: context, ...retryIn(context), ...hintIn(context) } : {}) }
}

/** Builds a problem with status and hint from the error table. */
export function problemOfCode(code: ErrorCode, detail: string): Problem {
  return createProblem(ERRORS[code].http, { code, detail, hint: ERRORS[code].action })
}

function retryIn({ retry_after_ms }: Record<string, unknown>): { retry_after_ms?: number } {
  return typeof retry_after_ms === 'number' && retry_after_ms >= 0 ? { retry_after_ms } : {}
}

/** Returns the hint of the error itself, which is more specific than that of the error table. */
function hintIn({ mend }: Record<string, unknown>): { hint?: string } {
  return typeof mend === 'string' ? { hint: oneLine(mend, 300) } : {}
}
