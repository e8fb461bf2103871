import { type Tracer, trace } from '@opentelemetry/api'
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'
import { parseTraceparent } from '@passover/schemas'
import { afterEach, describe, expect, it } from 'vitest'
import { reportChanges } from './export.js'
import { openTracing } from './open.js'
import { Spans } from './spans.js'
import { StderrExporter } from './stderr-exporter.js'

const key = { originator: 'alice', subagent: 'audit', id: 'id-of-pass' }
const PARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'

function recording() {
  const exporter = new InMemorySpanExporter()
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] })
  return { spans: new Spans(() => provider.getTracer('t')), provider, finished: () => exporter.getFinishedSpans() }
}

describe('spans', () => {
  it('have the names, times and facts that they are told, and go below the traceparent that they are given', () => {
    const { spans, finished } = recording()
    // Long before this process began: such numbers are easily taken for something else.
    const span = spans.begin({
      name: 'queue_wait',
      key,
      at: 1_000_000_000_123,
      parent: PARENT,
      link: PARENT,
      facts: { attempt: 1, code: undefined },
    })
    span?.note({ late: true })
    span?.end(1_000_000_000_223.5)
    span?.end(1_000_000_009_999, 'E010')
    const [found] = finished()
    expect(found).toMatchObject({
      name: 'queue_wait audit',
      startTime: [1_000_000_000, 123_000_000],
      endTime: [1_000_000_000, 223_500_000],
      parentSpanContext: { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331', isRemote: true },
      links: [{ context: { spanId: 'b7ad6b7169203331' } }],
      attributes: {
        'passover.id': 'id-of-pass',
        'passover.originator': 'alice',
        'passover.subagent': 'audit',
        'passover.attempt': 1,
        'passover.late': true,
      },
      status: { code: 0 },
    })
    expect(found?.attributes).not.toHaveProperty('passover.code')
    expect(parseTraceparent(span?.traceparent)?.trace_id).toBe('0af7651916cd43dd8448eb211c80319c')
  })

  it('begin a trace where they are given none, or one that is none; failures are told', () => {
    const { spans, finished } = recording()
    const span = spans.begin({ name: 'request', key, at: 1, parent: 'nonsense' })
    span?.link(PARENT)
    span?.link('nonsense')
    span?.end(2, 'E011')
    expect(finished()[0]).toMatchObject({ parentSpanContext: undefined, status: { code: 2 }, attributes: { 'error.type': 'E011' } })
    expect(finished()[0]?.links).toHaveLength(1)
    expect(span?.within(() => 7)).toBe(7)
  })

  it('are not recorded below what is not, and say so on', () => {
    const { spans, finished } = recording()
    const span = spans.begin({ name: 'work', key, at: 1, parent: PARENT.replace(/01$/, '00') })
    span?.end(2)
    expect(finished()).toEqual([])
    expect(parseTraceparent(span?.traceparent)).toMatchObject({ trace_id: '0af7651916cd43dd8448eb211c80319c', flags: 0 })
  })
})

describe("a process's own tracing", () => {
  it('that throws, or records nothing, keeps nothing from going on', () => {
    const broken = { startSpan: () => undefined, startActiveSpan: () => undefined } as unknown as Tracer
    expect(new Spans(() => broken).begin({ name: 'work', key, at: 1 })).toBeUndefined()
    const throws = () => {
      throw new Error('no')
    }
    expect(new Spans(() => ({ ...broken, startSpan: throws })).begin({ name: 'work', key, at: 1 })).toBeUndefined()
    const context = { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331', traceFlags: 1 }
    const odd = { spanContext: () => context, setAttributes: throws, addLinks: throws, isRecording: throws }
    const span = new Spans(() => ({ ...broken, startSpan: () => odd as never })).begin({ name: 'work', key, at: 1 })
    span?.note({ a: 1 })
    span?.link(PARENT)
    span?.end(2, 'E011')
    expect(span?.traceparent).toBe(PARENT)
    expect(new Spans(() => trace.getTracer('nobody')).begin({ name: 'work', key, at: 1 })).toBeUndefined()
  })
})

describe('openTracing', () => {
  afterEach(() => trace.disable())

  it('is off where nobody asked for it, until the process registers an OpenTelemetry of its own', async () => {
    const tracing = await openTracing({ env: {}, service: 's', say: () => undefined })
    expect(tracing.on).toBe(false)
    expect(tracing.begin({ name: 'work', key, at: 1 })).toBeUndefined()
    expect(tracing.active()).toBeUndefined()
    trace.setGlobalTracerProvider(recording().provider)
    expect(tracing.on).toBe(true)
    expect(tracing.begin({ name: 'work', key, at: 1 })?.traceparent).toMatch(/^00-/)
    await tracing[Symbol.asyncDispose]()
  })

  it('sends where the environment says, without registering anything, and ends once', async () => {
    const lines: string[] = []
    const env = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1' }
    const tracing = await openTracing({ env, service: 's', say: (line) => lines.push(line) })
    expect(tracing.on).toBe(true)
    expect(trace.getTracerProvider().getTracer('x').startSpan('y').isRecording()).toBe(false)
    await Promise.all([tracing[Symbol.asyncDispose](), tracing[Symbol.asyncDispose]()])
    expect(lines).toEqual([])
  })
})

describe('exporters', () => {
  it('tell that spans cannot be sent once, and that they can again', () => {
    const results = [1, 1, 0, 0]
    const lines: string[] = []
    const exporter = reportChanges(
      { export: (_, done) => done({ code: results.shift() ?? 0, error: new Error('nobody there') }), shutdown: async () => undefined },
      (line) => lines.push(line),
    )
    for (let n = 0; n < 4; n++) exporter.export([], () => undefined)
    expect(lines).toEqual(['spans cannot be sent: nobody there', 'spans can be sent again'])
  })

  it('on stderr are a line of JSON a span', () => {
    const lines: string[] = []
    const exporter = new StderrExporter((line) => lines.push(line))
    const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] })
    new Spans(() => provider.getTracer('t')).begin({ name: 'apply', key, at: 1_000, parent: PARENT })?.end(1_500)
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({
      span: 'apply audit',
      trace_id: '0af7651916cd43dd8448eb211c80319c',
      parent_span_id: 'b7ad6b7169203331',
      started_at: 1_000,
      duration_ms: 500,
      'passover.id': 'id-of-pass',
    })
  })
})
