import type { Span } from '@passover/core'
import { type PassKey, soundTraceparent, type WorkOutput } from '@passover/schemas'
import type { Deps } from '../runtime/dependencies.js'
import type { EnclosingPass } from './originator.js'

/** Of so many passes a process remembers where their traces are, for what follows them. */
const MAX_REMEMBERED = 1_000

/** Where the passes that were asked for last stand in their traces. */
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
  /** What the request carries: the span's own, or what comes in, passed on where nobody records. */
  traceparent: string
}

interface RequestSpanOptions {
  key: PassKey
  traces: TraceHistory
  /** Said by the caller; else what the process does now, else the pass within which it is asked. */
  given: string | undefined
  scope: EnclosingPass | undefined
  retry_of: string | undefined
}

/** Undefined: there is no trace, and none is begun here. */
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

/** The request's span lasts until its caller has what it waits for, or else until it is stored. */
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
