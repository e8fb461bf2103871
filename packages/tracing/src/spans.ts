import {
  type Attributes,
  type Context,
  context,
  type HrTime,
  type Link,
  type Span as OtelSpan,
  ROOT_CONTEXT,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api'
import type { Span, SpanFacts, SpanName, SpanStart, Tracing } from '@passover/core'
import { formatTraceparent, parseTraceparent } from '@passover/schemas'

const KIND: Record<SpanName, SpanKind> = {
  request: SpanKind.CLIENT,
  decision: SpanKind.INTERNAL,
  queue_wait: SpanKind.INTERNAL,
  work: SpanKind.SERVER,
  return: SpanKind.PRODUCER,
  delivery: SpanKind.CONSUMER,
  apply: SpanKind.INTERNAL,
}

/**
 * Creates spans with a tracer. `find` is called for each span, because a process may set its tracing up later; it returns `undefined` if nothing is
 * recorded.
 */
export class Spans implements Tracing {
  readonly #find: () => Tracer | undefined
  readonly #close: () => Promise<void>
  #closing: Promise<void> | undefined

  constructor(find: () => Tracer | undefined, close: () => Promise<void> = async () => undefined) {
    this.#find = find
    this.#close = close
  }

  get on(): boolean {
    return this.#find() !== undefined
  }

  begin(start: SpanStart): Span | undefined {
    const tracer = this.#find()
    if (!tracer) return undefined
    const { name, key, at, parent, link, facts } = start
    const links = linked(link)
    const options = { kind: KIND[name], startTime: timeOf(at), attributes: attributesOf(key, facts), ...(links && { links }) }
    const span = unharmed(() => tracer.startSpan(`${name} ${key.subagent}`, options, below(parent)))
    const traceparent = span && unharmed(() => toText(span.spanContext()))
    // A span without a valid context comes from a tracer that records nothing.
    return span && traceparent !== undefined ? new Began(span, traceparent) : undefined
  }

  active(): string | undefined {
    return toText(trace.getSpanContext(context.active()))
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }
}

class Began implements Span {
  readonly #span: OtelSpan
  readonly traceparent: string

  constructor(span: OtelSpan, traceparent: string) {
    this.#span = span
    this.traceparent = traceparent
  }

  within<T>(work: () => T): T {
    return context.with(trace.setSpan(context.active(), this.#span), work)
  }

  note(facts: SpanFacts): void {
    unharmed(() => this.#span.setAttributes(prefixed(facts)))
  }

  link(traceparent: string): void {
    const links = linked(traceparent)
    if (links) unharmed(() => this.#span.addLinks(links))
  }

  end(at: number, code?: string): void {
    const span = this.#span
    unharmed(() => {
      if (!span.isRecording()) return
      if (code !== undefined) span.setAttribute('error.type', code).setStatus({ code: SpanStatusCode.ERROR, message: code })
      span.end(timeOf(at))
    })
  }
}

/** Ignores exceptions of the process's own tracing, which must not affect passes (T4). */
function unharmed<T>(work: () => T): T | undefined {
  try {
    return work()
  } catch {
    return undefined
  }
}

/** Converts ms to OpenTelemetry's format. It would take a plain number before the process's start for ms since that start. */
function timeOf(ms: number): HrTime {
  const seconds = Math.floor(ms / 1_000)
  return [seconds, Math.floor((ms - seconds * 1_000) * 1e6)]
}

function attributesOf({ originator, subagent, id }: SpanStart['key'], facts: SpanFacts = {}): Attributes {
  return { 'passover.id': id, 'passover.originator': originator, 'passover.subagent': subagent, ...prefixed(facts) }
}

function prefixed(facts: SpanFacts): Attributes {
  const attributes: Attributes = {}
  for (const [name, value] of Object.entries(facts)) if (value !== undefined) attributes[`passover.${name}`] = value
  return attributes
}

function below(parent: string | undefined): Context {
  const found = toContext(parent)
  return found ? trace.setSpanContext(ROOT_CONTEXT, found) : ROOT_CONTEXT
}

function linked(traceparent: string | undefined): Link[] | undefined {
  const found = toContext(traceparent)
  return found && [{ context: found }]
}

function toContext(traceparent: string | undefined): SpanContext | undefined {
  const parsed = parseTraceparent(traceparent)
  return parsed && { traceId: parsed.trace_id, spanId: parsed.span_id, traceFlags: parsed.flags & 1, isRemote: true }
}

function toText(found: SpanContext | undefined): string | undefined {
  if (!found || !trace.isSpanContextValid(found)) return undefined
  return formatTraceparent({ trace_id: found.traceId, span_id: found.spanId, flags: found.traceFlags })
}
