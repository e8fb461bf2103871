import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { HealthReport } from '@passover/schemas'
import type { Registry } from 'prom-client'
import { metricsText, processMetrics } from './metrics.js'

/** HTTP endpoint that reports a process's health. */
export interface HealthEndpoint extends AsyncDisposable {
  /** `http://127.0.0.1:<port>`, with the paths `/livez`, `/readyz` and `/metrics`. */
  readonly url: string
}

const HOST = '127.0.0.1'
const OK = 200
const NOT_NOW = 503
/** Limits on connections: any program on this machine can connect, and must not slow the service down. */
const MAX_CONNECTIONS = 64
const REQUEST_MS = 10_000
const METRICS_KEPT_MS = 1_000

/** Returns PASSOVER_HEALTH_PORT; 0 selects any free port. `undefined` if the endpoint is off. Throws RangeError for an invalid port. */
export function healthPort(env: Record<string, string | undefined>): number | undefined {
  const told = env.PASSOVER_HEALTH_PORT
  if (told === undefined || told === '') return undefined
  const port = Number(told)
  if (!/^\d+$/.test(told) || port > 65_535) throw new RangeError(`PASSOVER_HEALTH_PORT is not a port: ${told.slice(0, 20)}`)
  return port
}

/**
 * Serves `/livez` and `/readyz` on loopback: 200 or 503, with the report as JSON either way; and `/metrics` for Prometheus. Requires no credentials
 * and reveals no content of passes. Does not keep the process alive. A process with a blocked event loop does not answer, which its supervisor can
 * detect.
 */
export async function serveHealth(
  report: () => HealthReport,
  port: number,
  metrics: () => readonly Registry[] = () => [processMetrics()],
): Promise<HealthEndpoint> {
  const told = { report, metrics: keptFor(METRICS_KEPT_MS, () => metricsText(metrics())) }
  const timeouts = { headersTimeout: REQUEST_MS, requestTimeout: REQUEST_MS }
  const server = createServer(timeouts, (request, response) => void answer(told, request, response))
  // Further requests on the same connection are refused before they cost anything.
  server.maxRequestsPerSocket = 1
  server.on('connection', endingOldest(MAX_CONNECTIONS))
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
  metrics: () => ReturnType<typeof metricsText>
}

/** Returns a function that calls `make` at most once per `ms`, and returns its last result in between. */
function keptFor<T>(ms: number, make: () => T): () => T {
  let kept: { made: T; at: number } | undefined
  return () => {
    const now = performance.now()
    if (!kept || now - kept.at >= ms) kept = { made: make(), at: now }
    return kept.made
  }
}

/** Closes the oldest connection for each one beyond `most`, so that a client with many silent connections does not block health probes. */
function endingOldest(most: number): (socket: Socket) => void {
  const open = new Set<Socket>()
  return (socket) => {
    open.add(socket)
    socket.once('close', () => open.delete(socket))
    if (open.size <= most) return
    for (const oldest of open) return void oldest.destroy()
  }
}

async function answer({ report, metrics }: Told, { method, url }: IncomingMessage, response: ServerResponse): Promise<void> {
  response.shouldKeepAlive = false
  const path = url?.split('?')[0]
  const reads = method === 'GET' || method === 'HEAD'
  if (reads && path === '/metrics') {
    const { type, text } = await metrics()
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
