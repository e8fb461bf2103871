import { type ProxyTracerProvider, type Tracer, trace } from '@opentelemetry/api'
import type { Tracing } from '@passover/core'
import { Spans } from './spans.js'
import { whereTo } from './where.js'

const NAME = '@passover/tracing'

export interface OpenTracing {
  env: Record<string, string | undefined>
  /** Name of the service, unless OTEL_SERVICE_NAME sets one. */
  service: string
  /** Reports, once, that spans cannot be sent. */
  say: (line: string) => void
}

/**
 * Opens tracing. Spans go to OpenTelemetry as registered by the process itself, now or later; otherwise to the destination in the environment
 * (OTEL_EXPORTER_OTLP_ENDPOINT, or OTEL_TRACES_EXPORTER=console); otherwise nowhere. Disposing sends pending spans.
 */
export async function openTracing(options: OpenTracing): Promise<Tracing> {
  const to = whereTo(options.env)
  if (to === undefined) return new Spans(registered)
  try {
    const { exporting } = await import('./export.js')
    const { tracer, close } = exporting({ ...options, to, name: NAME })
    return new Spans(() => registered() ?? tracer, close)
  } catch (error) {
    options.say(`no spans are sent: OpenTelemetry's SDK cannot be loaded (${error instanceof Error ? error.message : String(error)})`)
    return new Spans(registered)
  }
}

/** Returns a tracer of the provider that the process itself registered with OpenTelemetry's API, if any. */
function registered(): Tracer | undefined {
  const provider = trace.getTracerProvider() as Partial<ProxyTracerProvider> & Pick<ProxyTracerProvider, 'getTracer'>
  return provider.getDelegateTracer ? provider.getDelegateTracer(NAME) : provider.getTracer(NAME)
}
