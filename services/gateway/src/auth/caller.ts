import { createProblem, HttpProblem } from '../http/problem.js'

/** What a token lets its bearer ask for. What its owner may do beyond that, the server and the audit decide. */
export const SCOPES = ['read', 'create', 'decide', 'admin'] as const
export type Scope = (typeof SCOPES)[number]

/** Who asks: the person or agent under whose name, and with whose credentials, everything is done. */
export interface Caller {
  name: string
  kind: 'person' | 'agent'
  scopes: readonly Scope[]
  /** Id of the token; `open` where none is needed. */
  token: string
}

/** Where tokens stand. */
export interface Tokens {
  /** Whose token this is; undefined: nobody's, or not any more. */
  find(bearer: string): Promise<Caller | undefined>
  /** Whether what was found is still so: not revoked, not expired, and of no fewer scopes. */
  stands(caller: Caller): Promise<boolean>
  /** Whether there is any. */
  any(): Promise<boolean>
  /** Whether there is any, or ever was: who takes the last one back does not thereby let everybody in. */
  ever(): Promise<boolean>
}

/** The bearer of `Authorization`, or whoever may come without one. 401 problems. */
export async function callerOf(header: string | undefined, tokens: Tokens, open: Caller | undefined): Promise<Caller> {
  if (header === undefined) {
    if (open && !(await tokens.ever())) return open
    throw unauthorized('this needs a token')
  }
  const [, bearer] = /^Bearer ([\x21-\x7e]{1,512})$/i.exec(header) ?? []
  if (!bearer) throw unauthorized('Authorization is not "Bearer <token>"')
  const caller = await tokens.find(bearer)
  if (!caller) throw unauthorized('this token is not known, was revoked, or has expired')
  return caller
}

/** Whether who was let in would be let in now. */
export async function isStillAuthorized(caller: Caller, tokens: Tokens, open: Caller | undefined): Promise<boolean> {
  if (caller === open) return !(await tokens.ever())
  return tokens.stands(caller)
}

/** 403 where the token does not have the scope. */
export function requireScope(caller: Caller, scope: Scope): void {
  if (caller.scopes.includes(scope)) return
  const hint =
    caller.token === 'open'
      ? 'without tokens this gateway only reads; passover gateway token add makes one'
      : `passover gateway token add --scope ${scope} makes one that has it`
  throw new HttpProblem(createProblem(403, { code: 'E013', detail: `this token has not the scope "${scope}"`, hint }))
}

function unauthorized(detail: string): HttpProblem {
  const hint = 'send "Authorization: Bearer <token>"; passover gateway token add makes one'
  return new HttpProblem(createProblem(401, { code: 'E013', detail, hint }), { 'www-authenticate': 'Bearer realm="passover"' })
}
