import { describe, expect, it, vi } from 'vitest'
import type { Connection } from '../connection/connection.js'
import type { JetStreamApi } from '../messaging/jetstream-api.js'
import { LeaderCopy } from './leader-copy.js'
import { OrderedConsumer, type ReaderOptions } from './ordered-consumer.js'

/** A server as far as a reader sees it: consumers that it made, and a way to deliver on the newest. */
function fakeServer(lastSequence = 100) {
  const created: Record<string, unknown>[] = []
  const pulls: { batch: number; expires?: number; no_wait?: boolean }[] = []
  /** What the consumer says of itself when it is asked. */
  const left = { num_pending: 9, delivered: { consumer_seq: 0 } }
  let pull = ''
  let deliver: (message: unknown) => void = () => undefined
  const listener = { add: () => () => undefined }
  const link = {
    connected: true,
    maxPayload: 1024,
    onReconnect: listener,
    onDisconnect: listener,
    onRefused: listener,
    inbox: () => '_INBOX.x',
    report: () => undefined,
    send: (_: string, body: Uint8Array, { reply }: { reply: string }) => {
      pull = reply
      pulls.push(JSON.parse(Buffer.from(body).toString()))
      return true
    },
    subscribe: (_: string, callback: (message: unknown) => void) => {
      deliver = callback
      return { isClosed: () => false, unsubscribe: () => undefined }
    },
  }
  const api = {
    must: async (call: string, body?: { config: Record<string, unknown> }) => {
      if (call.startsWith('STREAM.INFO')) return { state: { last_seq: lastSequence } }
      if (call.startsWith('CONSUMER.INFO')) return left
      created.push(body?.config ?? {})
      return { num_pending: 9 }
    },
    raw: async () => ({ message: {} }),
  }
  return {
    created,
    pulls,
    left,
    /** Ends the newest pull as the server does when its time is over. */
    endPull: () =>
      deliver({ subject: pull, data: new Uint8Array(0), headers: Object.assign(new Map(), { status: '408 Request Timeout' }) }),
    context: { link: link as unknown as Connection, api: api as unknown as JetStreamApi },
    give: (sequence: number, consumerSequence: number, pending = 5) =>
      deliver({ subject: 's', reply: `$JS.ACK.S.c.1.${sequence}.${consumerSequence}.1000000000.${pending}`, data: new Uint8Array(0) }),
  }
}

const settled = () => new Promise((done) => setImmediate(done))

async function reader(server: ReturnType<typeof fakeServer>, options: Partial<ReaderOptions>) {
  return new OrderedConsumer(server.context, { stream: 'S', start: 1, onMessage: () => undefined, ...options }).open()
}

describe('an ordered reader', () => {
  it('that misses a delivery begins anew after the last message handed on', async () => {
    const server = fakeServer()
    const seen: number[] = []
    await using _reader = await reader(server, { onMessage: (one) => void seen.push(one.sequence) })
    server.give(4, 1)
    server.give(9, 3)
    await settled()
    expect(seen).toEqual([4])
    expect(server.created.map((config) => config.opt_start_seq)).toEqual([1, 5])
    server.give(7, 1)
    expect(seen).toEqual([4, 7])
  })

  it('does not hand on again what is being handled while it begins anew', async () => {
    const server = fakeServer()
    let finish: () => void = () => undefined
    const seen: number[] = []
    await using following = await reader(server, {
      onMessage: (one) => {
        seen.push(one.sequence)
        return new Promise<void>((resolve) => {
          finish = resolve
        })
      },
    })
    server.give(4, 1)
    server.give(5, 2)
    server.give(8, 4)
    await settled()
    expect(server.created.at(-1)?.opt_start_seq).toBe(5)
    expect(following.position).toBe(0)
    server.give(5, 1)
    finish()
    await settled()
    expect(seen).toEqual([4, 5])
    expect(following.position).toBe(4)
  })

  it('reports that the stream rolled back, and continues at its new end', async () => {
    const server = fakeServer(2)
    const back: number[] = []
    await using following = await reader(server, { onRollback: (last) => void back.push(last) })
    server.give(7, 1)
    server.give(9, 3)
    await settled()
    expect(back).toEqual([2])
    expect(following.position).toBe(2)
    expect(server.created.at(-1)?.opt_start_seq).toBe(3)
  })

  it('of newest values begins with them, and after an interruption goes on behind them', async () => {
    const server = fakeServer()
    await using _reader = await reader(server, { start: 'last_per_subject' })
    expect(server.created[0]).toMatchObject({ deliver_policy: 'last_per_subject' })
    server.give(6, 1)
    server.give(8, 5)
    await settled()
    expect(server.created.at(-1)).toMatchObject({ deliver_policy: 'by_start_sequence', opt_start_seq: 7 })
  })

  describe('of one copy of several', () => {
    const copy = (has: number[], asked: string[] = []) =>
      new LeaderCopy(
        {
          async first(filter, from) {
            asked.push(`${filter} ${from}`)
            const sequence = has.find((one) => one >= from)
            return sequence === undefined ? undefined : { sequence }
          },
          newest: async () => undefined,
        },
        undefined,
      )

    it('asks the leader about a jump, and nothing else', async () => {
      const server = fakeServer(9)
      const seen: number[] = []
      const asked: string[] = []
      const leader = copy([1, 2, 6, 7, 8, 9], asked)
      await using following = await reader(server, { leader, onMessage: (one) => void seen.push(one.sequence) })
      server.give(1, 1)
      server.give(2, 2)
      server.give(6, 3)
      server.give(7, 4)
      expect(seen).toEqual([1, 2])
      await settled()
      expect(seen).toEqual([1, 2, 6, 7])
      server.give(8, 5)
      server.give(9, 6, 0)
      await following.caughtUp
      expect(seen).toEqual([1, 2, 6, 7, 8, 9])
      expect(asked).toEqual(['> 3'])
      expect(server.created).toHaveLength(1)
    })

    it('begins again where the leader has a message in a jump, and hands on nothing behind it before that', async () => {
      const server = fakeServer(9)
      const seen: number[] = []
      await using _reader = await reader(server, { leader: copy([1, 2, 4, 6]), onMessage: (one) => void seen.push(one.sequence) })
      server.give(1, 1)
      server.give(2, 2)
      server.give(6, 3)
      server.give(7, 4)
      await settled()
      expect(seen).toEqual([1, 2])
      expect(server.created.map((config) => config.opt_start_seq)).toEqual([1, 3])
      server.give(4, 1)
      server.give(6, 2)
      await settled()
      expect(seen).toEqual([1, 2, 4, 6])
    })

    it('is not caught up while the leader has messages behind what it delivered', async () => {
      vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] })
      try {
        const server = fakeServer(3)
        let caught = false
        await using following = await reader(server, { leader: copy([1, 2, 3]) })
        void following.caughtUp.then(() => {
          caught = true
        })
        server.give(1, 1)
        server.give(2, 2, 0)
        await settled()
        expect(caught).toBe(false)
        await vi.advanceTimersByTimeAsync(250)
        await settled()
        expect(server.created.map((config) => config.opt_start_seq)).toEqual([1, 3])
        server.give(3, 1, 0)
        await settled()
        expect(caught).toBe(true)
      } finally {
        vi.useRealTimers()
      }
    })
  })

  it('is caught up when nothing is pending behind what it handed on', async () => {
    const server = fakeServer()
    let caught = false
    await using following = await reader(server, {})
    void following.caughtUp.then(() => {
      caught = true
    })
    server.give(1, 1, 1)
    await settled()
    expect(caught).toBe(false)
    server.give(2, 2, 0)
    await settled()
    expect(caught).toBe(true)
  })

  it('is caught up when what was pending was deleted before it came, and not while something is', async () => {
    vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] })
    try {
      const server = fakeServer()
      let caught = false
      await using following = await reader(server, {})
      void following.caughtUp.then(() => {
        caught = true
      })
      server.give(1, 1, 3)
      const over = async () => {
        vi.advanceTimersByTime(1_000)
        server.endPull()
        await settled()
      }
      await over()
      expect(caught).toBe(false)
      Object.assign(server.left, { num_pending: 2, delivered: { consumer_seq: 1 } })
      await over()
      expect(caught).toBe(false)
      Object.assign(server.left, { num_pending: 0, delivered: { consumer_seq: 2 } })
      await over()
      expect(caught).toBe(false)
      Object.assign(server.left, { num_pending: 0, delivered: { consumer_seq: 1 } })
      await over()
      expect(caught).toBe(true)
      expect(server.created).toHaveLength(1)
    } finally {
      vi.useRealTimers()
    }
  })

  it('asks for what is there, after a rest, while much is stored; and waits for each again when little is', async () => {
    vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] })
    try {
      const server = fakeServer()
      const seen: number[] = []
      await using _reader = await reader(server, { in_gulps: true, onMessage: (one) => void seen.push(one.sequence) })
      const give = async (count: number) => {
        for (let n = 0; n < count; n += 1) server.give(seen.length + 1, seen.length + 1, 0)
        await settled()
      }
      vi.advanceTimersByTime(10)
      await give(512)
      const before = server.pulls.length
      await vi.advanceTimersByTimeAsync(20)
      // What it had asked for already comes first.
      await give(256)
      await give(256)
      expect(server.pulls).toHaveLength(before)
      await vi.advanceTimersByTimeAsync(20)
      expect(server.pulls.at(-1)).toMatchObject({ batch: 512, no_wait: true })
      await give(300)
      server.endPull()
      await settled()
      expect(server.pulls).toHaveLength(before + 1)
      for (let little = 0; little < 3; little += 1) {
        await vi.advanceTimersByTimeAsync(20)
        expect(server.pulls.at(-1)).toMatchObject({ batch: 512, no_wait: true })
        await give(4)
        server.endPull()
        await settled()
      }
      expect(server.pulls).toHaveLength(before + 5)
      expect(server.pulls.at(-1)).toMatchObject({ batch: 512, expires: 5_000_000_000 })
      expect(seen).toHaveLength(1_336)
      expect(server.created).toHaveLength(1)
    } finally {
      vi.useRealTimers()
    }
  })
})
