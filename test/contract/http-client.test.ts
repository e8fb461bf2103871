import { openApiDocument } from '@passover/gateway'
import { connectHttp, type HttpClient } from '@passover/sdk/http'
import { describe, expect, it } from 'vitest'

interface Operation {
  operationId: string
  parameters: { name: string; in: string }[]
  requestBody?: unknown
}
interface Asked {
  method: string
  path: string
  query: URLSearchParams
  headers: Headers
  body: unknown
}

const { paths } = openApiDocument() as { paths: Record<string, Record<string, Operation>> }
/** What every request may say. */
const COMMON = new Set(['authorization', 'content-type', 'prefer'])
/** Not of the API: for who watches it. */
const OF_THE_SYSTEM = ['livez', 'readyz', 'metrics', 'openapi']
const ID = 'an-id/of a pass'

/** A client, and what it asked. Pages come two at a time, and then no more. */
function asking() {
  const asked: Asked[] = []
  const fetch = ((address: URL, init: RequestInit) => {
    const { searchParams: query, pathname: path } = address
    const body: unknown = init.body === undefined ? undefined : JSON.parse(String(init.body))
    asked.push({ method: String(init.method), path, query, headers: new Headers(init.headers), body })
    if (path.endsWith('/events'))
      return Promise.resolve(new Response('event: passover\nid: 7\ndata: {"sequence":7,"time":1,"kind":"work"}\n\n'))
    const at = query.get('cursor') ?? 'first'
    const page = { entries: [`${at} entry`], returns: [`${at} return`], passes: [`${at} pass`], agents: [`${at} agent`] }
    return Promise.resolve(Response.json({ ...page, ...(at === 'first' ? { cursor: 'next' } : {}) }))
  }) as unknown as typeof globalThis.fetch
  return { asked, client: connectHttp({ url: 'http://gateway:8080', token: 'secret', fetch }) }
}

async function all<T>(found: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = []
  for await (const item of found) items.push(item)
  return items
}

const FILTER = {
  session_id: 's',
  originating_agent: 'alice',
  subagent: 'audit',
  start_time: 1,
  end_time: 2,
  status: 'completed',
  limit: 5,
} as const
const ALL = { ...FILTER, code: 'E011', text: 't', decision: 'deny', decided_by: 'ann', item: 'apply' } as const
const PARTIES = { from: 'alice', to: 'audit' }
const EVENT = { after: 3, id: 'x', originating_agent: 'alice', subagent: 'audit' }
const PASS = { subagent: 'audit', reason: 'r', work_context: { objective: 'o' } }

/** Each operation, with everything that its method can say. */
const CALLS: Record<string, (client: HttpClient) => Promise<unknown>> = {
  listAudit: (client) => all(client.audit(ALL)),
  listReturns: (client) => all(client.returns(FILTER)),
  listPasses: (client) => all(client.passes.list(ALL)),
  createPass: (client) => client.passes.create(PASS, { waitSeconds: 5, key: 'k', traceparent: '00-x' }),
  showPass: (client) => client.passes.get(ID, { ...PARTIES, history: true, waitSeconds: 2.5 }),
  cancelPass: (client) => client.passes.cancel(ID, { ...PARTIES, reason: 'r' }),
  approvePass: (client) => client.passes.approve(ID, { ...PARTIES, item: 'apply', only: [1], digest: 'd', reason: 'r' }),
  denyPass: (client) => client.passes.deny(ID),
  showPlan: (client) => client.passes.plan(ID, { ...PARTIES, only: '1', whole: 'true' }),
  listInbox: (client) => client.inbox({ from: 'alice', mine: 'true', limit: 5, cursor: 'c' }),
  listAgents: (client) => client.agents(),
  getPolicy: (client) => client.policy.get(),
  explainPolicy: (client) => client.policy.explain('alice', 'audit'),
  putPolicy: (client) => client.policy.put({}, { base: 7, reason: 'r', allow_missing: 'true' }),
  listDeadLetters: (client) => client.dlq.list({ ...PARTIES, state: 'open', limit: 5, before: 9 }),
  showDeadLetter: (client) => client.dlq.show(ID, PARTIES),
  requeueDeadLetter: (client) => client.dlq.requeue(ID, { ...PARTIES, reason: 'r' }),
  dropDeadLetter: (client) => client.dlq.drop(ID, { ...PARTIES, reason: 'r' }),
  followEvents: async (client) => {
    for await (const event of client.events(EVENT)) return event
    return undefined
  },
}

/** The operation that is asked, by the document. */
function operationOf({ method, path }: Asked): Operation | undefined {
  const found = Object.entries(paths).find(([template]) => new RegExp(`^${template.replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(path))
  return found?.[1][method.toLowerCase()]
}

// Fails where a path, a parameter, a header or the cursor of a method is another than the document's.
describe('the client of the HTTP API', () => {
  it('has a method for every operation of the document', () => {
    const documented = Object.values(paths).flatMap((methods) => Object.values(methods).map(({ operationId }) => operationId))
    expect(Object.keys(CALLS).sort()).toEqual(documented.filter((name) => !OF_THE_SYSTEM.includes(name)).sort())
  })

  it.each(Object.entries(CALLS))('%s: asks what the document says, and all that it can be told', async (name, call) => {
    const { asked, client } = asking()
    await call(client)
    const [first] = asked
    if (!first) throw new Error('nothing was asked')
    const operation = operationOf(first)
    expect(operation?.operationId).toBe(name)
    const documented = (place: string) => (operation?.parameters ?? []).filter((one) => one.in === place).map((one) => one.name)
    for (const one of asked) {
      expect([...new Set([...documented('query'), 'cursor', 'after'])]).toEqual(expect.arrayContaining([...one.query.keys()]))
      const headers = [...one.headers.keys()].filter((header) => !COMMON.has(header))
      expect(documented('header')).toEqual(expect.arrayContaining(headers))
      expect(one.headers.get('authorization')).toBe('Bearer secret')
    }
    // What it may be told, but `after` of a feed (which its header says) and the cursor of a first page.
    const told = [...first.query.keys()]
    expect(told.sort()).toEqual(
      documented('query')
        .filter((one) => one !== 'after' && (one !== 'cursor' || name === 'listInbox'))
        .sort(),
    )
    expect([...first.headers.keys()].filter((header) => !COMMON.has(header)).sort()).toEqual(documented('header').sort())
    expect(first.body !== undefined).toBe(operation?.requestBody !== undefined)
    if (documented('path').length > 0) expect(first.path).toContain(`/${encodeURIComponent(ID)}`)
  })

  it('refuses options with the names that they had before, and sends nothing', async () => {
    const { asked, client } = asking()
    await expect(client.passes.create(PASS, { wait_s: 5 } as never)).rejects.toMatchObject({
      code: 'E005',
      message: 'wait_s is waitSeconds now',
    })
    await expect(client.passes.get(ID, { wait_s: 5 } as never)).rejects.toMatchObject({ message: 'wait_s is waitSeconds now' })
    expect(() => connectHttp({ url: 'http://gateway:8080', most_wait_ms: 0 } as never)).toThrow('most_wait_ms is maxWaitMs now')
    expect(asked).toEqual([])
  })

  it('goes from page to page, waits in whole seconds, and goes on after the event that it is told', async () => {
    const { asked, client } = asking()
    expect(await all(client.audit())).toEqual(['first entry', 'next entry'])
    expect(await all(client.returns())).toEqual(['first return', 'next return'])
    expect(await all(client.passes.list({ limit: 5 }))).toEqual(['first pass', 'next pass'])
    expect(asked.map(({ query }) => query.get('cursor'))).toEqual([null, 'next', null, 'next', null, 'next'])
    await CALLS.showPass?.(client)
    await CALLS.putPolicy?.(client)
    expect(await CALLS.followEvents?.(client)).toMatchObject({ sequence: 7 })
    const [show, put, feed] = asked.slice(-3)
    expect([show?.headers.get('prefer'), put?.headers.get('if-match'), feed?.headers.get('last-event-id')]).toEqual(['wait=2', '"7"', '3'])
  })
})
