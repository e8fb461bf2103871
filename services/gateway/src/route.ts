import type { Bus } from '@passover/bus'
import type { Clock } from '@passover/core'
import type { HealthReport } from '@passover/schemas'
import type { Logger } from 'pino'
import type { z } from 'zod'
import type { Access, Actor } from './auth/access.js'
import type { Caller, Scope } from './auth/caller.js'
import type { ConnectionPool } from './auth/connection-pool.js'
import type { Feeds } from './feeds/feeds.js'
import type { Metrics } from './metrics.js'
import type { GatewayOptions } from './options.js'

/** Dependencies that handlers share. */
export interface HandlerContext {
  /** The gateway's own connection. It reads the stream and acts on behalf of no caller. */
  bus: Bus
  clock: Clock
  log: Logger
  options: GatewayOptions
  pool: ConnectionPool
  feeds: Feeds
  metrics: Metrics
  health(): HealthReport
  document(): string
}

/** Input of a handler. The schemas of the route have parsed all of it. */
export interface HandlerInput<P, Q, H, B> {
  params: P
  query: Q
  headers: H
  body: B
  caller: Caller
  /** Runs operations under the caller's name. */
  actor: Actor
  inside: Omit<HandlerContext, 'acting'>
  request: Request
}

export interface Reply {
  status: number
  body?: unknown
  headers?: Record<string, string>
}

interface Answer {
  what: string
  /** Schema of the response body; absent if the body has no schema. */
  schema?: z.ZodType
  media?: string
}

export interface RouteSpec<P, Q, H, B> {
  method: 'get' | 'post' | 'put'
  /** Path template as in OpenAPI: `/passes/{id}`. */
  path: string
  /** OpenAPI `operationId`. */
  name: string
  summary: string
  /** Scope that the token needs; absent if the route needs no authentication. */
  scope?: Scope
  access: Access
  params?: z.ZodType<P>
  query?: z.ZodType<Q>
  headers?: z.ZodType<H>
  body?: z.ZodType<B>
  answers: Record<number, Answer>
  /** Problem statuses in addition to those that every route has. */
  problems?: readonly number[]
  handle(asked: HandlerInput<P, Q, H, B>): Promise<Reply | Response>
}

/** A route whose parameter and body types are known only to its own handler. */
export type Route = RouteSpec<unknown, unknown, unknown, unknown>

/** Declares an operation in one place: its schemas, its documentation and its handler. */
export function route<P = undefined, Q = undefined, H = undefined, B = undefined>(spec: RouteSpec<P, Q, H, B>): Route {
  return spec as unknown as Route
}
