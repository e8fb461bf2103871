import { createServer, type RequestListener, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import { oneLine } from '@passover/core'
import type { Hono } from 'hono'
import { createProblem, problemResponse } from '../http/problem.js'

export interface Listening extends AsyncDisposable {
  readonly url: string
}

/** The port is in use by another program. */
export class PortTakenError extends Error {
  constructor(
    readonly host: string,
    readonly port: number,
  ) {
    super(`port ${port} on ${host} is in use by another program`)
  }
}

/** The process cannot listen on this address. */
export class ListenError extends Error {
  constructor(
    readonly host: string,
    readonly port: number,
    readonly reason: string,
  ) {
    super(`cannot listen at ${host}, port ${port} (${reason})`)
  }
}

const HEADER_BYTES = 16 * 1024
const HEADERS_TIMEOUT_MS = 10_000
const REQUEST_TIMEOUT_MS = 60_000
const DRAIN_TIMEOUT_MS = 3_000

/** Serves the app on a socket. Throws PortTakenError or ListenError. */
export async function listen(app: Hono, { host, port }: { host: string; port: number }): Promise<Listening> {
  const serverOptions = { maxHeaderSize: HEADER_BYTES, headersTimeout: HEADERS_TIMEOUT_MS, requestTimeout: REQUEST_TIMEOUT_MS }
  const server = createServer(serverOptions, oneAtATime(getRequestListener(app.fetch, { errorHandler: unreadable })))
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => refuse(error, socket))
  await new Promise<void>((listening, failed) => {
    server.once('error', ({ code, message }: NodeJS.ErrnoException) =>
      failed(code === 'EADDRINUSE' ? new PortTakenError(host, port) : new ListenError(host, port, code ?? message)),
    )
    server.listen(port, host, listening)
  })
  const at = (server.address() as AddressInfo).port
  return { url: `http://${host.includes(':') ? `[${host}]` : host}:${at}`, [Symbol.asyncDispose]: () => close(server) }
}

/**
 * Handles one request of a connection at a time. A request that is sent before the previous one was answered is refused (503), and the connection
 * is closed. Otherwise one client could queue thousands of requests ahead of all others, and they would be handled even after it disconnects.
 */
function oneAtATime(listener: RequestListener): RequestListener {
  const latest = new WeakMap<Socket, ServerResponse>()
  return (request, response) => {
    const { socket } = request
    if (socket.destroyed) return
    if (latest.get(socket)?.writableEnded === false) {
      response.writeHead(503, { connection: 'close', 'content-length': 0 }).end()
      return
    }
    latest.set(socket, response)
    listener(request, response)
  }
}

/** Stops listening, and closes connections whose requests do not finish within the drain timeout. */
async function close(server: Server): Promise<void> {
  const closed = new Promise((resolve) => server.close(resolve))
  server.closeIdleConnections()
  const late = setTimeout(() => server.closeAllConnections(), DRAIN_TIMEOUT_MS)
  await closed
  clearTimeout(late)
}

/** Answers a request whose host or target cannot be parsed, before it reaches a route. */
function unreadable(error: unknown): Response {
  const detail = `the request cannot be read: ${oneLine(error instanceof Error ? error.message : String(error), 200)}`
  const response = problemResponse(createProblem(400, { code: 'E005', detail }))
  response.headers.set('x-content-type-options', 'nosniff')
  return response
}

/** Answers input that is not HTTP or has too many headers, before it reaches a route. */
function refuse(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy()
  const [status, text, detail] =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? [431, 'Request Header Fields Too Large', `the headers have more than ${HEADER_BYTES} bytes`]
      : [400, 'Bad Request', 'this is not an HTTP request']
  const body = `${JSON.stringify(createProblem(Number(status), { code: 'E005', detail: String(detail) }))}\n`
  const head = `HTTP/1.1 ${status} ${text}\r\ncontent-type: application/problem+json; charset=utf-8\r\nx-content-type-options: nosniff\r\ncontent-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n`
  socket.end(head + body)
}

const LOOPBACK = /^(127(?:\.\d{1,3}){3}|localhost|\[?::1\]?)$/i

/** True if a host name or address is a loopback one, which other machines cannot reach. */
export function isLoopbackName(host: string): boolean {
  return LOOPBACK.test(host)
}
