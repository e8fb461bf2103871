import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Notice } from '@passover/schemas'
import { until } from '../processes/until.js'

/** One request that came. */
export interface Received {
  notice: Notice
  body: string
  headers: IncomingHttpHeaders
  path: string
}

/** Answers a request, or leaves it hanging. */
export type Answering = (response: ServerResponse, received: Received) => void

/** A webhook's receiver: a real HTTP server that keeps what it got and answers as the test says. */
export class Receiver implements AsyncDisposable {
  readonly received: Received[] = []
  answering: Answering = answers(204)

  private constructor(private readonly server: ReturnType<typeof createServer>) {}

  static async start(): Promise<Receiver> {
    const server = createServer((request, response) => {
      const chunks: Buffer[] = []
      request.on('data', (chunk: Buffer) => chunks.push(chunk))
      request.on('end', () => {
        const body = Buffer.concat(chunks).toString('utf8')
        const notice = (body ? JSON.parse(body) : {}) as Notice
        const received = { notice, body, headers: request.headers, path: request.url ?? '' }
        made.received.push(received)
        made.answering(response, received)
      })
    })
    const made = new Receiver(server)
    await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready))
    return made
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}/hook`
  }

  of(id: string): Received[] {
    return this.received.filter(({ notice }) => notice.pass?.id === id)
  }

  /** Waits until so many notices of a pass came. */
  async got(id: string, count = 1): Promise<Received[]> {
    await until(() => this.of(id).length >= count, { what: `${count} notices of ${id}`, deadline_ms: 60_000 })
    return this.of(id)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.server.closeAllConnections()
    await new Promise<void>((done) => this.server.close(() => done()))
  }
}

export function answers(status: number, headers: Record<string, string> = {}): Answering {
  return (response) => {
    response.writeHead(status, headers).end('thanks')
  }
}

/** The first ones so, then as usual. */
export function firstAnswers(count: number, first: Answering): Answering {
  let left = count
  return (response, received) => (left-- > 0 ? first(response, received) : answers(204)(response, received))
}
