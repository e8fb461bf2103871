import { createProblem, HttpProblem } from '../http/problem.js'

/** Scopes of a token. They limit its bearer in addition to what the server and the audit service allow its owner. */
export const SCOPES = ['read', 'create', 'decide', 'admin'] as const
export type Scope = (typeof SCOPES)[number]

/** The person or agent who sends a request. Everything runs under this name and with its credentials. */
export interface Caller {
  name: string
  kind: 'person' | 'agent'
  scopes: readonly Scope[]
  /** Id of the token; `open` if the request needed none. */
  token: string
}

/** Storage of tokens. */
export interface Tokens {
  /** Finds the owner of a token; `undefined` if it is unknown, revoked or expired. */
  find(bearer: string): Promise<Caller | undefined>
  /** True if the caller's token is still valid: not revoked, not expired, and with all its scopes. */
  stands(caller: Caller): Promise<boolean>
  /** True if there is at least one token. */
  any(): Promise<boolean>
  /** True if there is or ever was a token. Revoking the last token must not allow access without one. */
  ever(): Promise<boolean>
}

/** Returns the owner of the `Authorization` bearer token, or the caller for requests without a token. Throws 401 problems. */
export async function callerOf(header: string | undefined, tokens: Tokens, open: Caller | undefined): Promise<Caller> {
  if (header === undefined) {
    if (open && !(await tokens.ever())) return open
    throw unauthorized('a token is required')
  }
  const [, bearer] = /^Bearer ([\x21-\x7e]{1,512})$/i.exec(header) ?? []
  if (!bearer) throw unauthorized('the Authorization header does not have the form "Bearer <token>"')
  const caller = await tokens.find(bearer)
  if (!caller) throw unauthorized('the token is unknown, was revoked, or has expired')
  return caller
}

/** True if the caller would still be accepted now. */
export async function isStillAuthorized(caller: Caller, tokens: Tokens, open: Caller | undefined): Promise<boolean> {
  if (caller === open) return !(await tokens.ever())
  return tokens.stands(caller)
}

/** Throws 403 if the token lacks the scope. */
export function requireScope(caller: Caller, scope: Scope): void {
  if (caller.scopes.includes(scope)) return
  const hint =
    caller.token === 'open'
      ? 'this gateway has no tokens and allows only reads; to create a token: passover gateway token add'
      : `to create a token with this scope: passover gateway token add --scope ${scope}`
  throw new HttpProblem(createProblem(403, { code: 'E013', detail: `the token does not have the scope "${scope}"`, hint }))
}

function unauthorized(detail: string): HttpProblem {
  const hint = 'send "Authorization: Bearer <token>"; to create a token: passover gateway token add'
  return new HttpProblem(createProblem(401, { code: 'E013', detail, hint }), { 'www-authenticate': 'Bearer realm="passover"' })
}
