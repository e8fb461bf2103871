import type { ReadableSpan, SpanExporter } from '@opentelemetry/sdk-trace-base'
import { printableJson } from '@passover/core'

type Write = (line: string) => void

const MS = 1e6

/** Writes each span as one line of JSON to stderr, because stdout contains the result of a command. */
export class StderrExporter implements SpanExporter {
  readonly #write: Write

  constructor(write: Write = (line) => void process.stderr.write(line)) {
    this.#write = write
  }

  export(spans: ReadableSpan[], done: Parameters<SpanExporter['export']>[1]): void {
    for (const span of spans) this.#write(`${printableJson(told(span))}\n`)
    done({ code: 0 })
  }

  async shutdown(): Promise<void> {}
}

function told(span: ReadableSpan): Record<string, unknown> {
  const { traceId, spanId } = span.spanContext()
  const [seconds, nanoseconds] = span.startTime
  return {
    span: span.name,
    trace_id: traceId,
    span_id: spanId,
    parent_span_id: span.parentSpanContext?.spanId,
    started_at: seconds * 1_000 + nanoseconds / MS,
    duration_ms: span.duration[0] * 1_000 + span.duration[1] / MS,
    service: span.resource.attributes['service.name'],
    ...span.attributes,
  }
}
