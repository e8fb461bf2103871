import { withoutSecrets } from '@passover/bus'
import { oneLine, visibleLines } from '@passover/core'
import type { PassError, PassKey, WorkOutput } from '@passover/schemas'
import { stackOf } from '../errors/describe-thrown.js'
import type { Deps } from '../runtime/dependencies.js'

/** What a worker tells whoever runs it. `text` is for people, and names the worker. */
export type WorkerEvent =
  /** It begins to take work; the server is lost; it is found again; nobody can be told that it is up; how it is has changed. */
  | { kind: 'waits' | 'lost' | 'found' | 'unseen' | 'health'; text: string }
  /** Its work cannot be read by this version, and was given back. */
  | { kind: 'unread'; text: string; pass: PassKey; sequence: number }
  /** A pass ended with what its handler returned. Not said on stderr. */
  | { kind: 'returned'; text: string; pass: PassKey; attempt: number; status: WorkOutput['status'] }
  /** A pass ended with this error; `thrown` is what its handler threw, if that is why. */
  | { kind: 'failed'; text: string; pass: PassKey; attempt: number; error: PassError; thrown?: unknown }
  /** What an attempt made does not count; `error` is what the pass ended with, where that is known. */
  | { kind: 'discarded'; text: string; pass: PassKey; attempt: number; why: Discarded; error?: PassError }

/** Somebody else ended the pass; another attempt answers; the server did not take the return; the worker shut down and handed the work back. */
export type Discarded = 'ended' | 'lost' | 'gave_up' | 'handed_back'

export type WorkerLogger = (event: WorkerEvent) => void

const MAX_STACK_LINES = 20

/** Where a worker's events go: to whom it was given, else as lines to where the process says things. It never throws. */
export function createWorkerLogger({ say }: Pick<Deps, 'say'>, given: WorkerLogger | undefined): WorkerLogger {
  const told: WorkerLogger | undefined = given ?? (say && ((event) => (event.kind === 'returned' ? undefined : say(event.text))))
  return (event) => {
    try {
      told?.(event)
    } catch {
      // Whoever listens has a bug: the work goes on.
    }
  }
}

/** What became of an attempt in words: one line, and below it the stack of what was thrown. */
export function attemptText(attempt: { pass: PassKey; attempt: number; what: string; thrown?: unknown }): string {
  const { pass, thrown, what } = attempt
  const stack = stackOf(thrown)
  const first = oneLine(`${pass.subagent}: ${pass.id} from ${pass.originator}, attempt ${attempt.attempt}: ${what}`)
  return stack === undefined ? first : `${first}\n${visibleLines(stack.split('\n').slice(0, MAX_STACK_LINES).join('\n'))}`
}

/** Addresses of servers without what signs in there. */
export function serversText(servers: readonly string[]): string {
  return oneLine(servers.map(withoutSecrets).join(', '))
}
