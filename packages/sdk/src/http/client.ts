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
import { type EventsOptions, events } from './events.js'
import { call, checkHttp, type HttpOptions } from './request.js'

interface Parties {
  from?: string
  to?: string
}
interface Waits {
  /** Seconds to wait for the return. */
  wait_s?: number
}
type Filter<P> = Omit<P, 'cursor'>

/** API of a gateway. Every request is made on behalf of the owner of the token. */
export interface HttpClient {
  passes: {
    /**
     * Without `wait_s` it resolves when the stream has stored the request. `key`: idempotency key; repeating a request with the same key returns the
     * same pass. `traceparent`: W3C traceparent that the pass continues.
     */
    create(pass: CreatePass, options?: Waits & { key?: string; traceparent?: string }): Promise<CreatedPass>
    get(id: string, options?: Parties & Waits & { history?: true }): Promise<ShownPass>
    /** Yields passes, newest first. Fetches page by page. */
    list(filter?: Filter<AuditParameters>): AsyncIterable<PassRow>
    cancel(id: string, options?: Parties & { reason?: string }): Promise<CancelledPass>
    approve(id: string, decision?: DecidePass): Promise<DecidedPass>
    deny(id: string, decision?: DecidePass): Promise<DecidedPass>
    plan(id: string, options?: PlanParameters): Promise<ApplyPlan>
  }
  audit(filter?: Filter<AuditParameters>): AsyncIterable<PassOverAuditEntry>
  returns(filter?: Filter<ReturnsParameters>): AsyncIterable<ReturnToContext>
  /** Yields events that are stored from now on (or after `after`), each once, until the signal is aborted. */
  events(options?: EventsOptions): AsyncIterable<FeedEvent>
  agents(): Promise<AgentsPage['agents']>
  inbox(options?: { from?: string; mine?: 'true'; limit?: number; cursor?: string }): Promise<InboxPage>
  policy: {
    get(): Promise<PolicyInForce>
    explain(from: string, to: string): Promise<ExplainedPolicy>
    /** `base`: the version that the document is based on. Fails with E031 if another version is in force. */
    put(document: PassOverPreferences, options: { base: number; reason?: string; allow_missing?: 'true' }): Promise<PublishedPolicy>
  }
  dlq: {
    list(options?: Parties & { state?: string; limit?: number; before?: number }): Promise<DeadLettersPage>
    show(id: string, options?: Parties): Promise<ShownLetter>
    requeue(id: string, options?: Parties & { reason?: string }): Promise<SettledLetter>
    drop(id: string, options?: Parties & { reason?: string }): Promise<SettledLetter>
  }
}

/**
 * Creates a client for a gateway. Sends nothing.
 *
 * @throws PassOverError E005 if an option is wrong.
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
  const prefer = (wait_s: number | undefined) => (wait_s === undefined ? undefined : `wait=${Math.floor(wait_s)}`)
  const act = <T>(path: string, body: object = {}) => call<T>(options, path, { body })
  return {
    create: (body, { wait_s, key, traceparent } = {}) =>
      call(options, '/passes', { body, headers: { prefer: prefer(wait_s), 'idempotency-key': key, traceparent } }),
    get: (id, { wait_s, history, ...query } = {}) =>
      call(options, at(id), { query: { ...query, ...(history ? { history: 'true' } : {}) }, headers: { prefer: prefer(wait_s) } }),
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
