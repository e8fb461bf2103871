import type { SpanExporter } from '@opentelemetry/sdk-trace-base'

/** OpenTelemetry's `ExportResultCode.SUCCESS`. */
const SUCCESS = 0

/** Wraps an exporter: reports with one line when spans can no longer be sent, and with another when they can again (T4). */
export function toldOnce(exporter: SpanExporter, say: (line: string) => void): SpanExporter {
  let lost = false
  return {
    export(spans, done) {
      exporter.export(spans, (result) => {
        const failed = result.code !== SUCCESS
        if (failed && !lost) say(`spans cannot be sent: ${result.error?.message ?? 'no reason given'}`)
        if (!failed && lost) say('spans are sent again')
        lost = failed
        done(result)
      })
    },
    shutdown: () => exporter.shutdown(),
    forceFlush: async () => exporter.forceFlush?.(),
  }
}
