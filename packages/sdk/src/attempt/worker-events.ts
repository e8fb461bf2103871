import { withoutSecrets } from '@passover/bus'
import { oneLine, visibleLines } from '@passover/core'
import type { PassError, PassKey, WorkOutput } from '@passover/schemas'
import { stackOf } from '../errors/describe-thrown.js'
import type { Deps } from '../runtime/dependencies.js'

/** Events that a worker reports. `text` is for people and names the worker. */
export type WorkerEvent =
  /**
   * `waits`: the worker is ready for work. `lost`: it lost the connection to the server. `found`: it connected again. `unseen`: it cannot write its
   * heartbeat. `health`: its health changed.
   */
  | { kind: 'waits' | 'lost' | 'found' | 'unseen' | 'health'; text: string }
  /** This version cannot read the work. The worker returned it to the queue. */
  | { kind: 'unread'; text: string; pass: PassKey; sequence: number }
  /** A pass ended with the output of its handler. Not printed on stderr. */
  | { kind: 'returned'; text: string; pass: PassKey; attempt: number; status: WorkOutput['status'] }
  /** A pass ended with this error. `thrown` is the error of its handler, if that was the cause. */
  | { kind: 'failed'; text: string; pass: PassKey; attempt: number; error: PassError; thrown?: unknown }
  /** The result of an attempt was discarded. `error` is the error that the pass ended with, if known. */
  | { kind: 'discarded'; text: string; pass: PassKey; attempt: number; why: Discarded; error?: PassError }

/**
 * Reason for a discarded result: another process ended the pass (`ended`), another attempt returns (`lost`), the server did not store the return
 * (`gave_up`), or the worker shut down and returned the work to the queue (`handed_back`).
 */
export type Discarded = 'ended' | 'lost' | 'gave_up' | 'handed_back'

export type WorkerLogger = (event: WorkerEvent) => void

const MAX_STACK_LINES = 20

/** Creates a logger that passes events to the given logger, or else prints them with `say`. It never throws. */
export function createWorkerLogger({ say }: Pick<Deps, 'say'>, given: WorkerLogger | undefined): WorkerLogger {
  const logger: WorkerLogger | undefined = given ?? (say && ((event) => (event.kind === 'returned' ? undefined : say(event.text))))
  return (event) => {
    try {
      logger?.(event)
    } catch {
      // The given logger has a bug. The worker continues.
    }
  }
}

/** Describes the result of an attempt in one line, followed by the stack of the thrown error. */
export function attemptText(attempt: { pass: PassKey; attempt: number; what: string; thrown?: unknown }): string {
  const { pass, thrown, what } = attempt
  const stack = stackOf(thrown)
  const first = oneLine(`${pass.subagent}: ${pass.id} from ${pass.originator}, attempt ${attempt.attempt}: ${what}`)
  return stack === undefined ? first : `${first}\n${visibleLines(stack.split('\n').slice(0, MAX_STACK_LINES).join('\n'))}`
}

/** Formats server addresses without their credentials. */
export function serversText(servers: readonly string[]): string {
  return oneLine(servers.map(withoutSecrets).join(', '))
}
