import type { Tracer } from '@opentelemetry/api'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources'
import { BasicTracerProvider, BatchSpanProcessor, type SpanExporter } from '@opentelemetry/sdk-trace-base'
import type { OpenTracing } from './open.js'
import { StderrExporter } from './stderr-exporter.js'
import type { Destination } from './where.js'

/** Maximum time in ms for which an exit waits for the receiver of spans. */
const CLOSE_MS = 3_000
/** OpenTelemetry's `ExportResultCode.SUCCESS`. */
const SUCCESS = 0

/**
 * Creates a tracer with a private provider (T1). Sampler, batches, address, headers and resource are configured by OpenTelemetry's own variables:
 * OTEL_TRACES_SAMPLER (parentbased_always_on), OTEL_BSP_…, OTEL_EXPORTER_OTLP_…, OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES.
 */
export function exporting({ to, name, service, say }: OpenTracing & { to: Destination; name: string }): {
  tracer: Tracer
  close: () => Promise<void>
} {
  const exporter: SpanExporter = to === 'console' ? new StderrExporter() : reportChanges(new OTLPTraceExporter(), say)
  const provider = new BasicTracerProvider({
    resource: defaultResource()
      .merge(resourceFromAttributes({ 'service.name': service }))
      .merge(detectResources({ detectors: [envDetector] })),
    spanProcessors: [new BatchSpanProcessor(exporter)],
  })
  return { tracer: provider.getTracer(name), close: () => inTime(provider.shutdown()) }
}

/** Wraps an exporter: reports with one line when spans can no longer be sent, and with another when they can again (T4). */
export function reportChanges(exporter: SpanExporter, say: (line: string) => void): SpanExporter {
  let lost = false
  return {
    export(spans, done) {
      exporter.export(spans, (result) => {
        const failed = result.code !== SUCCESS
        if (failed && !lost) say(`spans cannot be sent: ${result.error?.message ?? 'no reason given'}`)
        if (!failed && lost) say('spans can be sent again')
        lost = failed
        done(result)
      })
    },
    shutdown: () => exporter.shutdown(),
    forceFlush: async () => exporter.forceFlush?.(),
  }
}

async function inTime(closing: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<void>((done) => {
    timer = setTimeout(done, CLOSE_MS)
  })
  await Promise.race([closing.catch(() => undefined), late])
  clearTimeout(timer)
}
