import { expect, it } from 'vitest'
import { whereTo } from './where.js'

it.each([
  [{}, undefined],
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' }, 'otlp'],
  [{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://collector:4318/v1/traces' }, 'otlp'],
  [{ OTEL_TRACES_EXPORTER: 'otlp' }, 'otlp'],
  [{ OTEL_TRACES_EXPORTER: 'console' }, 'console'],
  [{ OTEL_TRACES_EXPORTER: 'none', OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' }, undefined],
  [{ OTEL_SDK_DISABLED: 'true', OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' }, undefined],
  [{ OTEL_SDK_DISABLED: 'false', OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' }, 'otlp'],
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: '' }, undefined],
] as const)('%j sends spans to %s', (env, to) => {
  expect(whereTo(env)).toBe(to)
})
