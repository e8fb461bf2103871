/** `otlp`: OTLP over HTTP, where OpenTelemetry's own variables say. `console`: lines of JSON on stderr. */
export type Destination = 'otlp' | 'console'

/** Where the environment wants spans, in OpenTelemetry's own words; undefined: nowhere. */
export function whereTo(env: Record<string, string | undefined>): Destination | undefined {
  if (env.OTEL_SDK_DISABLED?.trim().toLowerCase() === 'true') return undefined
  const named = (env.OTEL_TRACES_EXPORTER ?? '').split(',').map((one) => one.trim())
  if (named.includes('none')) return undefined
  if (named.includes('console')) return 'console'
  if (named.includes('otlp') || env.OTEL_EXPORTER_OTLP_ENDPOINT || env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT) return 'otlp'
  return undefined
}
