import type { PassKey } from '@passover/schemas'

/** Phase of a pass that is recorded as a span. */
export type SpanName = 'request' | 'decision' | 'queue_wait' | 'work' | 'return' | 'delivery' | 'apply'

export type SpanFacts = Record<string, string | number | boolean | undefined>

export interface SpanStart {
  name: SpanName
  key: PassKey
  /** Start time, server ms. */
  at: number
  /** traceparent of the enclosing span. `undefined` if this span begins a trace. */
  parent?: string | undefined
  /** traceparent of a span that this one follows from. */
  link?: string | undefined
  /** Attributes in addition to the pass's names. Never contents of the pass. */
  facts?: SpanFacts
}

/** A span that was begun and must be ended. */
export interface Span {
  /** traceparent for the parent field of its children, whether the span is recorded or not. */
  readonly traceparent: string
  /** Runs `work` with this span as the active one of the process's own tracing, if that is configured. */
  within<T>(work: () => T): T
  note(facts: SpanFacts): void
  /** Adds a link to another span that this one follows from, if it becomes known later. */
  link(traceparent: string): void
  /** Ends the span at a time in server ms. `code` marks it as failed. A second call has no effect. */
  end(at: number, code?: string): void
}

/**
 * Receiver of spans, passed in like bus, clock and randomness. Only the entry points of processes create one, so that the rules, the simulation and
 * users without traces do not depend on OpenTelemetry (decision 80).
 */
export interface Tracing extends AsyncDisposable {
  /** False if nothing in this process records spans now. Checked where even creating a SpanStart would be too expensive. */
  readonly on: boolean
  /** Begins a span. Returns `undefined` if tracing is off. */
  begin(start: SpanStart): Span | undefined
  /** Returns the traceparent of the active span of the process's own tracing. */
  active(): string | undefined
}
