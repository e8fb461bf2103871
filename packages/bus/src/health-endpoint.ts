import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { HealthReport } from '@passover/schemas'
import type { Registry } from 'prom-client'
import { metricsText, processMetrics } from './metrics.js'

/** Where a process answers how it is. */
export interface HealthEndpoint extends AsyncDisposable {
  /** `http://127.0.0.1:<port>`: below it are `/livez`, `/readyz` and `/metrics`. */
  readonly url: string
}

const HOST = '127.0.0.1'
const OK = 200
const NOT_NOW = 503

/** PASSOVER_HEALTH_PORT; 0: any free one. Undefined: nobody is to be answered. Throws RangeError for what is no port. */
export function healthPort(env: Record<string, string | undefined>): number | undefined {
  const told = env.PASSOVER_HEALTH_PORT
  if (told === undefined || told === '') return undefined
  const port = Number(told)
  if (!/^\d+$/.test(told) || port > 65_535) throw new RangeError(`PASSOVER_HEALTH_PORT is no port: ${told.slice(0, 20)}`)
  return port
}

/**
 * Answers `/livez` and `/readyz` on loopback: 200 or 503, with the report as JSON either way; and `/metrics`, for Prometheus. It asks for no credentials and tells no
 * content of passes. It keeps no process alive; a process whose event loop stands still answers nothing, which is for its watcher to see.
 */
export async function serveHealth(
  report: () => HealthReport,
  port: number,
  metrics: () => readonly Registry[] = () => [processMetrics()],
): Promise<HealthEndpoint> {
  const server = createServer((request, response) => void answer({ report, metrics }, request, response))
  await new Promise<void>((listening, failed) => {
    server.once('error', failed)
    server.listen(port, HOST, listening)
  })
  server.unref()
  return {
    url: `http://${HOST}:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((closed) => server.close(closed))
    },
  }
}

interface Told {
  report: () => HealthReport
  metrics: () => readonly Registry[]
}

async function answer({ report, metrics }: Told, { method, url }: IncomingMessage, response: ServerResponse): Promise<void> {
  const path = url?.split('?')[0]
  const reads = method === 'GET' || method === 'HEAD'
  if (reads && path === '/metrics') {
    const { type, text } = await metricsText(metrics())
    response.writeHead(OK, { 'content-type': type, 'cache-control': 'no-store' })
    response.end(method === 'HEAD' ? undefined : text)
    return
  }
  if (!reads || (path !== '/livez' && path !== '/readyz')) {
    response.writeHead(404).end()
    return
  }
  const found = report()
  const well = path === '/livez' ? found.live : found.ready
  response.writeHead(well ? OK : NOT_NOW, { 'content-type': 'application/json', 'cache-control': 'no-store' })
  response.end(method === 'HEAD' ? undefined : `${JSON.stringify(found)}\n`)
}
