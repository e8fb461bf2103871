import { BusReadError } from '@passover/bus'
import { PassOverError } from '@passover/core'
import type { PassKey } from '@passover/schemas'

/** Errors that end the wait for a pass without a return. */

export function unreachableError(why: string, key?: PassKey): PassOverError {
  return new PassOverError('E040', why, key && { ...key })
}

/**
 * Returns the error for a pass with a stored return that only the audit service can confirm: two attempts were lost, or a step does not
 * follow the step before it.
 */
export function unconfirmedReturnError(key: PassKey, returned: number): PassOverError {
  const message = `a return of the pass is stored (sequence ${returned}), but the audit service, which confirms that it is valid, does not answer; do not request the work again, but request the same id when the audit service is back`
  // Not recoverable: a retry would repeat the work under another id.
  return new PassOverError('E040', message, { ...key, returned, recoverable: false })
}

/** Converts an error of subscribing to returns. A denied subscription is E013, because retrying does not help. */
export function subscribeError(error: unknown): PassOverError {
  if (error instanceof PassOverError) return error
  const why = error instanceof Error ? error.message : String(error)
  return error instanceof BusReadError && error.reason === 'permission'
    ? new PassOverError('E013', `not permitted: ${why}`)
    : unreachableError(why)
}

export function idReusedError(key: PassKey): PassOverError {
  return new PassOverError('E005', `id: ${key.id} was already used for another request to ${key.subagent}`, { field: 'id', ...key })
}

export function passNotFoundError(key: PassKey): PassOverError {
  return new PassOverError('E041', `no pass ${key.id} to ${key.subagent} exists`, { ...key })
}

export function agentClosedError(): PassOverError {
  return new PassOverError('E040', 'the agent was closed while it waited for the pass; request the same id again')
}
