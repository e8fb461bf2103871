/**
 * @passover/sdk/http: the same passes over HTTP, for programs that have no NATS: `connectHttp({ url, token })`.
 *
 * I1  Everything is typed by the schemas that the gateway parses with.
 * I2  A problem becomes a PassOverError with its code; no server is E040.
 * I3  `events()` gives every event once, across connections that end: it goes on after the last id that it heard.
 */

export { connectHttp, type HttpClient } from './client.js'
export type { EventsOptions } from './events.js'
export type { HttpOptions } from './request.js'
