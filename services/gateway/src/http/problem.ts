import { BusReadError, BusUnreachable, TableError } from '@passover/bus'
import { ERRORS, oneLine, PassOverError, printableJson } from '@passover/core'
import { Failure } from '@passover/operator'
import type { ErrorCode } from '@passover/schemas'
import type { Problem } from '@passover/schemas/http'

/** An answer that is no success, thrown where it is found. */
export class HttpProblem extends Error {
  override readonly name = 'HttpProblem'

  constructor(
    readonly problem: Problem,
    readonly headers: Record<string, string> = {},
  ) {
    super(problem.detail)
  }
}

/** The file of tokens cannot be used: what the system, or its content, says. Nobody is let in by a file that is spoiled. */
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

/** A problem as an answer. */
export function problemResponse(problem: Problem, headers: Record<string, string> = {}): Response {
  return new Response(`${printableJson(problem)}\n`, {
    status: problem.status,
    headers: { 'content-type': 'application/problem+json; charset=utf-8', 'cache-control': 'no-store', ...headers },
  })
}

const RETRY_MS = 1_000

/** What an error tells whoever asked. `bug`: nobody foresaw it. */
export function problemOf(error: unknown): { problem: Problem; headers: Record<string, string>; bug?: true } {
  if (error instanceof HttpProblem) return { problem: error.problem, headers: { ...retryAfter(error.problem), ...error.headers } }
  if (error instanceof Failure) return answered(ofFailure(error))
  if (error instanceof PassOverError) return answered(ofPassError(error))
  if (error instanceof BusUnreachable)
    return answered(createProblem(ERRORS.E040.http, { code: 'E040', detail: error.message, hint: error.hint }))
  if (error instanceof BusReadError || error instanceof TableError) {
    return answered(createProblem(ERRORS.E040.http, { code: 'E040', detail: 'the server could not be read just now', hint: 'try again' }))
  }
  if (error instanceof TokenFileError) {
    // Where it stands is not for who asks.
    const detail = 'the tokens of this gateway cannot be read just now; its log says more'
    return { ...answered(createProblem(503, { code: 'E040', detail })), bug: true }
  }
  return { ...answered(createProblem(500, { code: 'INTERNAL', detail: 'this is a fault of the gateway; its log says more' })), bug: true }
}

function answered(problem: Problem): { problem: Problem; headers: Record<string, string> } {
  // What asking again never helps gets no time to do so.
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

/** As the error table has it. */
export function problemOfCode(code: ErrorCode, detail: string): Problem {
  return createProblem(ERRORS[code].http, { code, detail, hint: ERRORS[code].action })
}

function retryIn({ retry_after_ms }: Record<string, unknown>): { retry_after_ms?: number } {
  return typeof retry_after_ms === 'number' && retry_after_ms >= 0 ? { retry_after_ms } : {}
}

/** What whoever refused it knows better than the table. */
function hintIn({ mend }: Record<string, unknown>): { hint?: string } {
  return typeof mend === 'string' ? { hint: oneLine(mend, 300) } : {}
}
