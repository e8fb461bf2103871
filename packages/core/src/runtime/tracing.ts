import type { PassKey } from '@passover/schemas'

/** What is worth a span of a pass's life. */
export type SpanName = 'request' | 'decision' | 'queue_wait' | 'work' | 'return' | 'delivery' | 'apply'

export type SpanFacts = Record<string, string | number | boolean | undefined>

export interface SpanStart {
  name: SpanName
  key: PassKey
  /** Server ms. */
  at: number
  /** traceparent of what it happens within; undefined: it begins a trace. */
  parent?: string | undefined
  /** traceparent of what it follows from. */
  link?: string | undefined
  /** Attributes beside the pass's names. Never what is passed. */
  facts?: SpanFacts
}

/** A span that was begun, and is told when it ends. */
export interface Span {
  /** What its children name as their parent, whether it is recorded or not. */
  readonly traceparent: string
  /** Runs something within it, as far as the process's own tracing is told. */
  within<T>(work: () => T): T
  note(facts: SpanFacts): void
  /** Another span that it follows from, found out later. */
  link(traceparent: string): void
  /** Server ms. `code`: it failed, with that. A second end says nothing. */
  end(at: number, code?: string): void
}

/**
 * Where spans go, handed in like bus, clock and randomness: only mains make one, so that rules, simulation and whoever wants no traces
 * know nothing of OpenTelemetry (decision 80).
 */
export interface Tracing extends AsyncDisposable {
  /** False: nobody records anything in this process now. Asked where even making a SpanStart would cost. */
  readonly on: boolean
  /** Undefined: it is not on. */
  begin(start: SpanStart): Span | undefined
  /** traceparent of what this process does now by its own tracing. */
  active(): string | undefined
}
