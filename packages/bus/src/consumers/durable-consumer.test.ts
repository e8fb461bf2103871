import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Connection } from '../connection/connection.js'
import type { AckDecision } from '../types/deliveries.js'
import { type ConsumeOptions, DurableConsumer } from './durable-consumer.js'

/** A server that delivers what it is told to, and keeps what it was answered. */
function fakeServer() {
  const sent: string[] = []
  let deliver: (message: unknown) => void = () => undefined
  let pull = ''
  let pulls = 0
  const listener = { add: () => () => undefined }
  const refusals: ((subject: string) => void)[] = []
  const link = {
    connected: true,
    onReconnect: listener,
    onDisconnect: listener,
    onRefused: {
      add: (refused: (subject: string) => void) => {
        refusals.push(refused)
        return () => undefined
      },
    },
    inbox: () => '_INBOX.x',
    report: () => undefined,
    send: (subject: string, data: Uint8Array, options?: { reply: string }) => {
      if (options?.reply) {
        pull = options.reply
        pulls += 1
      } else sent.push(`${subject.split('.')[5]} ${new TextDecoder().decode(data)}`)
      return true
    },
    subscribe: (_: string, callback: (message: unknown) => void) => {
      deliver = callback
      return { isClosed: () => false, unsubscribe: () => undefined }
    },
  }
  return {
    sent,
    pulls: () => pulls,
    link: link as unknown as Connection,
    give: (sequence: number, delivered = 1) =>
      deliver({ subject: 's', reply: `$JS.ACK.S.c.${delivered}.${sequence}.1.1000000000.0`, data: new Uint8Array(0) }),
    refuses: (subject: string) => {
      for (const refused of refusals) refused(subject)
    },
    gone: () => deliver({ subject: pull, data: new Uint8Array(0), headers: Object.assign(new Map(), { status: '503' }) }),
  }
}

const consume = (link: Connection, options: Partial<ConsumeOptions>) =>
  new DurableConsumer(link, { stream: 'S', durable: 'd', concurrency: 4, handler: async () => ({ ok: true }), ...options })
const settled = () => new Promise((done) => setImmediate(done))

describe('consuming a durable', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] }))
  afterEach(() => void vi.useRealTimers())

  it('renews what is running every third of the ack wait, until it ends, and not for ever', async () => {
    const server = fakeServer()
    let finish: (verdict: AckDecision) => void = () => undefined
    const handler = () => new Promise<AckDecision>((resolve) => (finish = resolve))
    const consumption = consume(server.link, { ack_wait_ms: 3_000, handler })
    server.give(7)
    vi.advanceTimersByTime(2_100)
    expect(server.sent).toEqual(['7 +WPI', '7 +WPI'])
    finish({ ok: true })
    await settled()
    vi.advanceTimersByTime(5_000)
    expect(server.sent).toEqual(['7 +WPI', '7 +WPI', '7 +ACK'])
    server.give(8)
    vi.advanceTimersByTime(600_000)
    expect(server.sent.filter((sent) => sent === '8 +WPI').length).toBeLessThan(60)
    finish({ ok: true })
    await consumption.drain()
    expect(vi.getTimerCount()).toBe(0)
  })

  it('gives back what comes again and again after ever longer waits, up to a bound', async () => {
    const server = fakeServer()
    const consumption = consume(server.link, { handler: async () => ({ retry: true, delay_ms: 1_000 }) })
    for (const delivered of [1, 2, 3, 12]) {
      server.give(delivered, delivered)
      await settled()
    }
    const delays = server.sent.map((sent) => JSON.parse(sent.slice(sent.indexOf('{'))).delay / 1e6)
    expect(delays).toEqual([1_000, 2_000, 4_000, 15_000])
    await consumption.drain()
  })

  it('makes a durable that is gone anew after a second, and goes on pulling also when that failed', async () => {
    const server = fakeServer()
    let restored = 0
    const restore = async () => {
      restored += 1
      if (restored === 1) throw new Error('not now')
    }
    const consumption = consume(server.link, { restore })
    for (const round of [1, 2]) {
      expect(server.pulls()).toBe(round)
      server.gone()
      await settled()
      vi.advanceTimersByTime(900)
      expect(restored).toBe(round - 1)
      vi.advanceTimersByTime(200)
      await settled()
      expect(restored).toBe(round)
    }
    expect(server.pulls()).toBe(3)
    await consumption.drain()
  })

  // Fails where nobody listens: each delivery would come again every thirty seconds, and nobody would say why.
  it('whose acknowledgments are refused says so and takes no more, but for a try a minute', async () => {
    const server = fakeServer()
    const consumption = consume(server.link, { concurrency: 2 })
    server.refuses('$JS.ACK.S.other.1.1.1.1.0')
    server.refuses('$JS.API.CONSUMER.INFO.S.d')
    expect(consumption.trouble).toBeUndefined()
    server.give(1)
    await settled()
    server.refuses('$JS.ACK.S.d.1.1.1.1.0')
    expect(consumption.trouble).toContain('missing permission to acknowledge messages')
    const pulls = server.pulls()
    server.give(2)
    await settled()
    expect(server.pulls()).toBe(pulls)
    vi.advanceTimersByTime(61_000)
    expect([server.pulls(), consumption.trouble]).toEqual([pulls + 1, undefined])
    await consumption.drain()
    expect(vi.getTimerCount()).toBe(0)
  })
})
