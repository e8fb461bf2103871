/**
 * @passover/sdk/http: a client for the HTTP API, for programs without a connection to NATS: `connectHttp({ url, token })`.
 *
 * I1 All requests and responses are typed by the schemas that the gateway parses with.
 * I2 A problem response becomes a PassOverError with its code; a server that cannot be reached is E040.
 * I3 `events()` yields every event once, across reconnections: it resumes after the last id it received.
 */

export { type CreatePassOptions, connectHttp, type GetPassOptions, type HttpClient } from './client.js'
export type { EventsOptions } from './events.js'
export type { HttpOptions } from './request.js'
