import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { until } from '../processes/until.js'

/** A span as OTLP/HTTP told it. */
export interface ReceivedSpan {
  name: string
  service: string
  trace: string
  id: string
  parent: string | undefined
  links: { trace: string; span: string }[]
  attributes: Record<string, string | number | boolean>
  started: bigint
  ended: bigint
}

interface Value {
  stringValue?: string
  intValue?: number | string
  doubleValue?: number
  boolValue?: boolean
}
interface Attribute {
  key: string
  value: Value
}
interface Otlp {
  resourceSpans?: {
    resource?: { attributes?: Attribute[] }
    scopeSpans?: {
      spans?: {
        name: string
        traceId: string
        spanId: string
        parentSpanId?: string
        startTimeUnixNano: string
        endTimeUnixNano: string
        attributes?: Attribute[]
        links?: { traceId: string; spanId: string }[]
      }[]
    }[]
  }[]
}

/** A receiver of OTLP over HTTP: keeps every span that processes send it. */
export class SpanReceiver implements AsyncDisposable {
  readonly spans: ReceivedSpan[] = []

  private constructor(private readonly server: ReturnType<typeof createServer>) {}

  static async start(): Promise<SpanReceiver> {
    const server = createServer((request, response) => {
      const chunks: Buffer[] = []
      request.on('data', (chunk: Buffer) => chunks.push(chunk))
      request.on('end', () => {
        if (request.url === '/v1/traces') made.spans.push(...read(JSON.parse(Buffer.concat(chunks).toString('utf8')) as Otlp))
        response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
      })
    })
    const made = new SpanReceiver(server)
    await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready))
    return made
  }

  /** What tells a process to send its spans here, at once. */
  get env(): Record<string, string> {
    const { port } = this.server.address() as AddressInfo
    return { OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`, OTEL_BSP_SCHEDULE_DELAY: '20' }
  }

  of(id: string): ReceivedSpan[] {
    return this.spans.filter(({ attributes }) => attributes['passover.id'] === id)
  }

  /** The spans of a pass, once these have come. */
  async got(id: string, names: readonly string[]): Promise<ReceivedSpan[]> {
    const missing = () => names.filter((name) => !this.of(id).some((span) => span.name === name))
    await until(() => missing().length === 0, { what: `spans ${names.join(', ')} of ${id}`, deadline_ms: 30_000 }).catch((error: Error) => {
      throw new Error(`${error.message}; missing ${missing().join(', ')}`)
    })
    return this.of(id)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.server.closeAllConnections()
    await new Promise<void>((done) => this.server.close(() => done()))
  }
}

function read({ resourceSpans = [] }: Otlp): ReceivedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans = [] }) =>
    scopeSpans.flatMap(({ spans = [] }) =>
      spans.map((span) => ({
        name: span.name,
        service: String(attributesOf(resource?.attributes)['service.name']),
        trace: span.traceId,
        id: span.spanId,
        parent: span.parentSpanId || undefined,
        links: (span.links ?? []).map(({ traceId, spanId }) => ({ trace: traceId, span: spanId })),
        attributes: attributesOf(span.attributes),
        started: BigInt(span.startTimeUnixNano),
        ended: BigInt(span.endTimeUnixNano),
      })),
    ),
  )
}

function attributesOf(attributes: readonly Attribute[] = []): ReceivedSpan['attributes'] {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, plainOf(value)]))
}

function plainOf({ stringValue, intValue, doubleValue, boolValue }: Value): string | number | boolean {
  return stringValue ?? (intValue === undefined ? undefined : Number(intValue)) ?? doubleValue ?? boolValue ?? ''
}
