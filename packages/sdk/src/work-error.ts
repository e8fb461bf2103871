import { PassOverError } from '@passover/core'

/**
 * Thrown by a handler, it ends the pass with this very error, where a worker may say it of its own run: E010, E011, E014, E021, and E013
 * for a right (`details.field`) that the run broke. Any other error that a handler throws is E011, a child pass's included.
 */
export class WorkError extends PassOverError {}
