/** `otlp`: OTLP over HTTP, configured by OpenTelemetry's own variables. `console`: lines of JSON on stderr. */
export type Destination = 'otlp' | 'console'

/** Reads the destination of spans from OpenTelemetry's own variables. Returns `undefined` if there is none. */
export function whereTo(env: Record<string, string | undefined>): Destination | undefined {
  if (env.OTEL_SDK_DISABLED?.trim().toLowerCase() === 'true') return undefined
  const named = (env.OTEL_TRACES_EXPORTER ?? '').split(',').map((one) => one.trim())
  if (named.includes('none')) return undefined
  if (named.includes('console')) return 'console'
  if (named.includes('otlp') || env.OTEL_EXPORTER_OTLP_ENDPOINT || env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT) return 'otlp'
  return undefined
}
