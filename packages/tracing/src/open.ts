import { type ProxyTracerProvider, type Tracer, trace } from '@opentelemetry/api'
import type { Tracing } from '@passover/core'
import { Spans } from './spans.js'
import { whereTo } from './where.js'

const NAME = '@passover/tracing'

export interface OpenTracing {
  env: Record<string, string | undefined>
  /** Name of the process's service, where OTEL_SERVICE_NAME says none. */
  service: string
  /** Told, once, that spans cannot be sent. */
  say: (line: string) => void
}

/**
 * Where spans of this process go: to its own OpenTelemetry, where it has registered one, now or later; else to where the environment says
 * (OTEL_EXPORTER_OTLP_ENDPOINT, or OTEL_TRACES_EXPORTER=console); else nowhere. Disposing sends what is left.
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

/** The tracer of a provider that the process itself registered with OpenTelemetry's API. */
function registered(): Tracer | undefined {
  const provider = trace.getTracerProvider() as Partial<ProxyTracerProvider> & Pick<ProxyTracerProvider, 'getTracer'>
  return provider.getDelegateTracer ? provider.getDelegateTracer(NAME) : provider.getTracer(NAME)
}
