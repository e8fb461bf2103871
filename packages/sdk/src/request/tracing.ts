import type { Span } from '@passover/core'
import { type PassKey, soundTraceparent, type WorkOutput } from '@passover/schemas'
import type { Deps } from '../runtime/dependencies.js'
import type { EnclosingPass } from './originator.js'

/** Number of passes whose traceparent a process remembers, so that later spans can refer to it. */
const MAX_REMEMBERED = 1_000

/** Traceparents of the passes that were requested most recently. */
export class TraceHistory {
  readonly #known = new Map<string, string>()

  of(id: string): string | undefined {
    return this.#known.get(id)
  }

  add(id: string, traceparent: string): void {
    if (this.#known.size >= MAX_REMEMBERED)
      for (const oldest of this.#known.keys()) {
        this.#known.delete(oldest)
        break
      }
    this.#known.set(id, traceparent)
  }
}

export interface RequestTrace {
  span: Span | undefined
  /** Traceparent that the request carries: that of the span, or the incoming one if nothing is recorded here. */
  traceparent: string
}

interface RequestSpanOptions {
  key: PassKey
  traces: TraceHistory
  /** Parent that the caller gave. Falls back to the active span of the process, then to the enclosing pass. */
  given: string | undefined
  scope: EnclosingPass | undefined
  retry_of: string | undefined
}

/** Begins the span of a request. Returns `undefined` if there is no trace to continue and none is recorded here. */
export function beginRequestSpan(
  { tracing, clock }: Deps,
  { key, traces, given, scope, retry_of }: RequestSpanOptions,
): RequestTrace | undefined {
  const parent = soundTraceparent(given) ?? tracing?.active() ?? scope?.traceparent()
  const link = retry_of === undefined ? undefined : traces.of(retry_of)
  const span = tracing?.on ? tracing.begin({ name: 'request', key, at: clock.now(), parent, link, facts: { retry_of } }) : undefined
  const traceparent = span?.traceparent ?? parent
  if (traceparent === undefined) return undefined
  traces.add(key.id, traceparent)
  return { span, traceparent }
}

/** Ends the span of the request when its caller has the return or, if no caller awaits it, when the request is stored. */
export function endRequestSpan({ clock }: Pick<Deps, 'clock'>, span: Span, over: Promise<WorkOutput | undefined>): void {
  over.then(
    (output) => {
      if (output) span.note({ status: output.status, attempt: output.metadata.attempt })
      span.end(clock.now(), output?.status === 'failed' ? 'failed' : undefined)
    },
    (error: unknown) => span.end(clock.now(), codeOf(error)),
  )
}

function codeOf(error: unknown): string {
  const code = typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined
  return typeof code === 'string' ? code : 'error'
}
