import { BusReadError, TableError } from '@passover/bus'

/** Maximum number of attempts after errors that the server did not cause. Such an error is a bug, and must not block everything else. */
export const MAX_TRIES = 3

/** True if an error may go away without a change: the server did not answer, or not as expected. */
export function isTransient(error: unknown): boolean {
  if (error instanceof TableError) return error.outcome.kind !== 'refused' || error.outcome.reason !== 'too_large'
  return error instanceof BusReadError
}
