import type { PassOverAuditEntry, PassOverPreferences, PassRow, ReturnToContext } from '@passover/schemas'
import type {
  AgentsPage,
  ApplyPlan,
  AuditPage,
  AuditParameters,
  CancelledPass,
  CreatedPass,
  CreatePass,
  DeadLettersPage,
  DecidedPass,
  DecidePass,
  ExplainedPolicy,
  FeedEvent,
  InboxPage,
  PassesPage,
  PlanParameters,
  PolicyInForce,
  PublishedPolicy,
  ReturnsPage,
  ReturnsParameters,
  SettledLetter,
  ShownLetter,
  ShownPass,
} from '@passover/schemas/http'
import { z } from 'zod'
import { checkOptions } from '../errors/option-errors.js'
import { type EventsOptions, events } from './events.js'
import { call, checkHttp, type HttpOptions } from './request.js'

interface Parties {
  from?: string
  to?: string
}
/** Options of `passes.create`. */
export interface CreatePassOptions {
  /**
   * Seconds to wait for the return, rounded down.
   * @defaultValue Does not wait.
   */
  waitSeconds?: number
  /**
   * Idempotency key. If you repeat a request with the same key, you get the same pass.
   * @defaultValue None: each request creates a pass.
   */
  key?: string
  /**
   * W3C traceparent that the pass continues.
   * @defaultValue None.
   */
  traceparent?: string
}
/** Options of `passes.get`. */
export interface GetPassOptions extends Parties {
  /**
   * Seconds to wait for the return, rounded down.
   * @defaultValue Does not wait.
   */
  waitSeconds?: number
  /** True to also get the steps of the pass. */
  history?: true
}
type Filter<P> = Omit<P, 'cursor'>

const waitSeconds = z.number().min(0).optional()
const createOptions = z.strictObject({ waitSeconds, key: z.string().optional(), traceparent: z.string().optional() } satisfies Record<
  keyof CreatePassOptions,
  z.ZodType
>)
const getOptions = z.strictObject({
  waitSeconds,
  from: z.string().optional(),
  to: z.string().optional(),
  history: z.literal(true).optional(),
} satisfies Record<keyof GetPassOptions, z.ZodType>)

/** Client for the HTTP API of a gateway. The gateway acts as the owner of the token. Failed calls reject with a PassOverError. */
export interface HttpClient {
  passes: {
    /**
     * Requests a pass. Without `waitSeconds`, it resolves when the stream has stored the request.
     *
     * @throws PassOverError with code E005: an option is unknown or has a wrong value. Nothing was sent.
     */
    create(pass: CreatePass, options?: CreatePassOptions): Promise<CreatedPass>
    /**
     * Reads a pass.
     *
     * @throws PassOverError with code E005: an option is unknown or has a wrong value. E041: there is no such pass.
     */
    get(id: string, options?: GetPassOptions): Promise<ShownPass>
    /** Yields passes, including open ones, newest first. Fetches one page at a time. */
    list(filter?: Filter<AuditParameters>): AsyncIterable<PassRow>
    /** Cancels a pass and its descendants. */
    cancel(id: string, options?: Parties & { reason?: string }): Promise<CancelledPass>
    /** Approves the item that the pass waits for. */
    approve(id: string, decision?: DecidePass): Promise<DecidedPass>
    /** Denies the item that the pass waits for. */
    deny(id: string, decision?: DecidePass): Promise<DecidedPass>
    /** Returns the file changes of a pass and shows which of them can be applied. Writes nothing. */
    plan(id: string, options?: PlanParameters): Promise<ApplyPlan>
  }
  /** Yields the audit entries of ended passes, newest first. Fetches one page at a time. */
  audit(filter?: Filter<AuditParameters>): AsyncIterable<PassOverAuditEntry>
  /** Yields the return contexts of passes that were admitted or held, newest first. Fetches one page at a time. */
  returns(filter?: Filter<ReturnsParameters>): AsyncIterable<ReturnToContext>
  /** Yields events that are stored from now on (or after `after`), each once, until the signal is aborted. */
  events(options?: EventsOptions): AsyncIterable<FeedEvent>
  /** Returns the registered agents. */
  agents(): Promise<AgentsPage['agents']>
  /** Returns one page of the items that wait for a decision. Pass its `cursor` to get the next page. */
  inbox(options?: { from?: string; mine?: 'true'; limit?: number; cursor?: string }): Promise<InboxPage>
  policy: {
    /** Returns the policy in force and its version. */
    get(): Promise<PolicyInForce>
    /** Returns each setting of a pair, and the level of the policy that sets it. */
    explain(from: string, to: string): Promise<ExplainedPolicy>
    /** Publishes a policy. `base` is the version that the document is based on. Fails with E031 if another version is in force. */
    put(document: PassOverPreferences, options: { base: number; reason?: string; allow_missing?: 'true' }): Promise<PublishedPolicy>
  }
  dlq: {
    /** Returns one page of the dead letters, newest first. */
    list(options?: Parties & { state?: string; limit?: number; before?: number }): Promise<DeadLettersPage>
    /** Returns one dead letter. */
    show(id: string, options?: Parties): Promise<ShownLetter>
    /** Requests the work of a dead letter again, as a new pass. */
    requeue(id: string, options?: Parties & { reason?: string }): Promise<SettledLetter>
    /** Closes a dead letter. Deletes nothing. */
    drop(id: string, options?: Parties & { reason?: string }): Promise<SettledLetter>
  }
}

/**
 * Creates a client for a gateway. Does not connect to it.
 *
 * @param options - Address and token.
 * @returns The client.
 * @throws PassOverError with code E005: an option is unknown or has a wrong value.
 * @example
 * ```ts
 * const passover = connectHttp({ url: 'http://127.0.0.1:7420', token: process.env.TOKEN })
 * const { output } = await passover.passes.create({ subagent: 'greeter', reason: 'politeness', work_context: { objective: 'HTTP' } }, { waitSeconds: 30 })
 * ```
 */
export function connectHttp(options: HttpOptions): HttpClient {
  checkHttp(options)
  const read = <T>(path: string, query: object = {}) => call<T>(options, path, { query: { ...query } })
  const act = <T>(path: string, body: object = {}) => call<T>(options, path, { body })
  return {
    passes: passesOf(options),
    audit: (filter = {}) =>
      pages<AuditPage, PassOverAuditEntry>(
        (cursor) => read('/audit', { ...filter, cursor }),
        ({ entries }) => entries,
      ),
    returns: (filter = {}) =>
      pages<ReturnsPage, ReturnToContext>(
        (cursor) => read('/returns', { ...filter, cursor }),
        ({ returns }) => returns,
      ),
    events: (wanted = {}) => events(options, wanted),
    agents: async () => (await read<AgentsPage>('/agents')).agents,
    inbox: (query) => read('/inbox', query),
    policy: {
      get: () => read('/policy'),
      explain: (from, to) => read('/policy/explain', { from, to }),
      put: (body, { base, ...query }) => call(options, '/policy', { method: 'PUT', body, query, headers: { 'if-match': `"${base}"` } }),
    },
    dlq: {
      list: (query) => read('/dlq', query),
      show: (id, query) => read(`/dlq/${encodeURIComponent(id)}`, query),
      requeue: (id, body) => act(`/dlq/${encodeURIComponent(id)}/requeue`, body),
      drop: (id, body) => act(`/dlq/${encodeURIComponent(id)}/drop`, body),
    },
  }
}

function passesOf(options: HttpOptions): HttpClient['passes'] {
  const at = (id: string, what = '') => `/passes/${encodeURIComponent(id)}${what}`
  const prefer = (seconds: number | undefined) => (seconds === undefined ? undefined : `wait=${Math.floor(seconds)}`)
  const act = <T>(path: string, body: object = {}) => call<T>(options, path, { body })
  return {
    create: async (body, given = {}) => {
      const { waitSeconds, key, traceparent } = checkOptions(createOptions, given)
      return call(options, '/passes', { body, headers: { prefer: prefer(waitSeconds), 'idempotency-key': key, traceparent } })
    },
    get: async (id, given = {}) => {
      const { waitSeconds, history, ...query } = checkOptions(getOptions, given)
      return call(options, at(id), {
        query: { ...query, ...(history ? { history: 'true' } : {}) },
        headers: { prefer: prefer(waitSeconds) },
      })
    },
    list: (filter = {}) =>
      pages<PassesPage, PassRow>(
        (cursor) => call(options, '/passes', { query: { ...filter, cursor } }),
        ({ passes }) => passes,
      ),
    cancel: (id, body) => act(at(id, '/cancel'), body),
    approve: (id, body) => act(at(id, '/approve'), body),
    deny: (id, body) => act(at(id, '/deny'), body),
    plan: (id, query = {}) => call(options, at(id, '/plan'), { query: { ...query } }),
  }
}

async function* pages<P extends { cursor?: string | undefined }, T>(
  page: (cursor: string | undefined) => Promise<P>,
  of: (page: P) => T[],
): AsyncGenerator<T> {
  let cursor: string | undefined
  do {
    const one = await page(cursor)
    yield* of(one)
    cursor = one.cursor
  } while (cursor !== undefined)
}
