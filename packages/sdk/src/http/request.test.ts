import { describe, expect, it } from 'vitest'
import { connectHttp } from './client.js'
import { type Ask, call } from './request.js'

/** Answers in turn; the last one again and again. */
function answering(...answers: { status: number; body?: unknown; headers?: Record<string, string> }[]) {
  let asked = 0
  const fetch = (() => {
    const { status, body = {}, headers = {} } = answers[Math.min(asked, answers.length - 1)] ?? { status: 500 }
    asked += 1
    return Promise.resolve(new Response(JSON.stringify(body), { status, headers }))
  }) as typeof globalThis.fetch
  return {
    times: () => asked,
    ask: (how: Ask = {}, maxWaitMs?: number) => call({ url: 'http://gateway', fetch, maxWaitMs }, '/passes', how),
  }
}

function told(status: number, more: object = {}) {
  const said = { type: 't', title: 't', status, code: status === 429 ? 'E014' : 'E040', detail: 'd', ...more }
  return { status, body: said }
}

const DONE = { status: 200, body: { done: true } }

describe('connectHttp', () => {
  it.each([
    ['http://proxy/passover/', 'http://proxy/passover/api/pass-over/agents'],
    ['http://proxy/a/b', 'http://proxy/a/b/api/pass-over/agents'],
    ['http://gateway', 'http://gateway/api/pass-over/agents'],
  ])('keeps the path at which a proxy has the gateway: %s', async (url, address) => {
    const asked: string[] = []
    const fetch = ((to: URL) => {
      asked.push(String(to))
      return Promise.resolve(new Response('{"agents":[]}'))
    }) as typeof globalThis.fetch
    await connectHttp({ url, fetch }).agents()
    expect(asked).toEqual([address])
  })

  it.each<[object, string]>([
    [{ url: 'localhost:7731' }, 'url: must be an address such as http://127.0.0.1:7420'],
    [{ url: 'http://x:6000' }, 'url: has a port that fetch does not connect to: 6000'],
    [{ url: 'nats://x' }, 'url: must be an address such as http://127.0.0.1:7420'],
    [{ url: 'http://me:s3cret@x' }, 'url: must not include a user or password; use a token'],
    [{ url: 'http://x', token: 's3cret\n' }, 'token: must be printable ASCII without spaces'],
    [{ uri: 'http://x', url: 'http://x' }, 'uri: unknown option; did you mean url?'],
    [{}, 'url: is missing: text is needed'],
  ])('refuses wrong options at once, without showing a secret (%#)', (options, message) => {
    expect(() => connectHttp(options as never)).toThrow(expect.objectContaining({ code: 'E005', message }))
  })

  it('names the field of a body that cannot be sent, and why nobody answers', async () => {
    const client = connectHttp({ url: 'http://127.0.0.1:2' })
    const wrong = { subagent: 'audit', reason: 'x', work_context: { objective: 'o', n: 1n } }
    await expect(client.passes.create(wrong as never)).rejects.toMatchObject({
      code: 'E005',
      message: expect.stringMatching(/^work_context\.n: is a bigint/),
    })
    await expect(client.agents()).rejects.toMatchObject({
      code: 'E040',
      message: expect.stringContaining('caused by: connect ECONNREFUSED'),
    })
  })
})

describe('events', () => {
  it.each([
    ['{"sequence":"seven"}', /^an event of the gateway cannot be read: \w+: (is missing|must be)/],
    ['<html>', /^an event of the gateway cannot be read: .*JSON/],
  ])('says in plain words what it cannot read, and connects again: %s', async (data, message) => {
    const stop = new AbortController()
    const fetch = (() => Promise.resolve(new Response(`event: passover\ndata: ${data}\n\n`))) as unknown as typeof globalThis.fetch
    const why: unknown[] = []
    const onReconnect = (one: unknown) => {
      why.push(one)
      stop.abort()
    }
    for await (const _ of connectHttp({ url: 'http://gateway', fetch }).events({ signal: stop.signal, onReconnect }))
      throw new Error('read')
    expect(why).toEqual([expect.objectContaining({ code: 'E040', message: expect.stringMatching(message) })])
  })
})

describe('what the gateway puts off', () => {
  it('is asked again after Retry-After, whoever wrote that header', async () => {
    const limited = answering(told(429, { retry_after_ms: 1 }), { status: 503, headers: { 'retry-after': '0' } }, DONE)
    expect(await limited.ask()).toEqual({ done: true })
    expect(limited.times()).toBe(3)
    const soon = answering({ status: 503, headers: { 'retry-after': new Date(Date.now() - 1_000).toUTCString() } }, DONE)
    expect(await soon.ask()).toEqual({ done: true })
  })

  it('is not asked again for longer than the caller waits, and says how long it would be', async () => {
    const long = answering({ ...told(429), headers: { 'retry-after': '7' } })
    await expect(long.ask({}, 5_000)).rejects.toMatchObject({ code: 'E014', context: { status: 429, retry_after_ms: 7_000 } })
    expect(long.times()).toBe(1)
    const never = answering(told(503, { retry_after_ms: 10 }))
    await expect(never.ask({}, 220)).rejects.toMatchObject({ code: 'E040' })
    expect(never.times()).toBe(5)
    const silent = answering({ status: 503, headers: { 'retry-after': 'soon' } })
    await expect(silent.ask()).rejects.toMatchObject({ code: 'E040', context: { status: 503 } })
  })

  it('is not asked again where it may have been done, or where that was a pass’s own end', async () => {
    const write = answering(told(503, { retry_after_ms: 1 }), DONE)
    await expect(write.ask({ body: {} })).rejects.toMatchObject({ code: 'E040' })
    const door = answering(told(429, { retry_after_ms: 1 }), DONE)
    expect(await door.ask({ body: {} })).toEqual({ done: true })
    const ended = answering(told(429, { retry_after_ms: 1, pass_id: 'a-pass-that-ended' }), DONE)
    await expect(ended.ask({ body: {} })).rejects.toMatchObject({ code: 'E014', context: { pass_id: 'a-pass-that-ended' } })
  })

  it('ends with the caller’s signal', async () => {
    const stop = new AbortController()
    const asked = answering(told(429, { retry_after_ms: 20_000 }), DONE).ask({ signal: stop.signal })
    setTimeout(() => stop.abort(), 10)
    await expect(asked).rejects.toMatchObject({ name: 'AbortError' })
  })
})
