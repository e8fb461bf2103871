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

/** What handlers stand on. */
export interface HandlerContext {
  /** The gateway's own connection: it reads the stream, and acts for nobody. */
  bus: Bus
  clock: Clock
  log: Logger
  options: GatewayOptions
  acting: ConnectionPool
  feeds: Feeds
  metrics: Metrics
  health(): HealthReport
  document(): string
}

/** What a handler is given: everything is parsed by the route's own schemas. */
export interface HandlerInput<P, Q, H, B> {
  params: P
  query: Q
  headers: H
  body: B
  caller: Caller
  /** Acts under the caller's name. */
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
  /** Absent: no body that a schema describes. */
  schema?: z.ZodType
  media?: string
}

export interface RouteSpec<P, Q, H, B> {
  method: 'get' | 'post' | 'put'
  /** As OpenAPI writes it: `/passes/{id}`. */
  path: string
  /** operationId. */
  name: string
  summary: string
  /** Absent: nobody has to say who they are. */
  scope?: Scope
  access: Access
  params?: z.ZodType<P>
  query?: z.ZodType<Q>
  headers?: z.ZodType<H>
  body?: z.ZodType<B>
  answers: Record<number, Answer>
  /** Statuses of problems beyond those that every route has. */
  problems?: readonly number[]
  handle(asked: HandlerInput<P, Q, H, B>): Promise<Reply | Response>
}

/** A route whose types only its own handler knows. */
export type Route = RouteSpec<unknown, unknown, unknown, unknown>

/** One description of an operation: what is parsed, what the document says, and who handles it. */
export function route<P = undefined, Q = undefined, H = undefined, B = undefined>(spec: RouteSpec<P, Q, H, B>): Route {
  return spec as unknown as Route
}
