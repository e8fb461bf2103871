import { BusReadError, TableError } from '@passover/bus'

/** What fails for another reason than the server's is tried so often: it is a bug, and must not hold up everything else. */
export const MAX_TRIES = 3

/** Whether an error may pass by itself: the server did not answer, or not as it should. */
export function isTransient(error: unknown): boolean {
  if (error instanceof TableError) return error.outcome.kind !== 'refused' || error.outcome.reason !== 'too_large'
  return error instanceof BusReadError
}
