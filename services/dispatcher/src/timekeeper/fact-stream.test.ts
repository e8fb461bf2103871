import { type Bus, type StoredMessage, Subjects } from '@passover/bus'
import type { Fact } from '@passover/schemas'
import { pino } from 'pino'
import { describe, expect, test } from 'vitest'
import { FactStream } from './fact-stream.js'

const headers = { get: () => undefined, last: () => undefined, pairs: () => [], text: () => '' }
type Hear = (stored: StoredMessage, fact: Fact) => void | Promise<void>

/** A stream that can be asked for what it has, and whose readers can be made to fail. */
function streamOf() {
  const state = { failures: 0, followed: [] as number[], hear: [] as Hear[], messages: new Map<number, StoredMessage>(), last: 0 }
  const calls: string[] = []
  const waits: (() => void)[] = []
  let reconnected: () => void = () => undefined
  const bus = {
    subjects: new Subjects(),
    onReconnect: (listener: () => void) => {
      reconnected = listener
      return () => undefined
    },
    bounds: async () => ({ first: 1, last: state.last }),
    journal: { message: async (sequence: number) => state.messages.get(sequence) },
    follow: async ({ from = 1 }: { from?: number }, hear: Hear) => {
      if (state.failures > 0) {
        state.failures--
        throw new Error('no leader')
      }
      state.followed.push(from)
      state.hear.push(hear)
      return { caughtUp: new Promise<void>(() => undefined), [Symbol.asyncDispose]: async () => undefined }
    },
  } as unknown as Bus
  const after = (_: number, fn: () => void) => {
    waits.push(fn)
    return { [Symbol.dispose]: () => undefined }
  }
  const clock = { now: () => 0, monotonic: () => 0, after }
  const handler = {
    apply: (fact: Fact) => void calls.push(`apply ${fact.sequence}`),
    caughtUp: () => undefined,
    onRollback: () => void calls.push('rolled back'),
  }
  const deps = { bus, clock, random: { bytes: (n: number) => new Uint8Array(n) }, log: pino({ level: 'silent' }) }
  const store = (sequence: number, time = sequence) => {
    const stored = { subject: '', sequence, time, headers, data: new Uint8Array(0) }
    state.messages.set(sequence, stored)
    state.last = Math.max(state.last, sequence)
    return stored
  }
  const hand = (reader: number, stored: StoredMessage) =>
    state.hear[reader]?.(stored, { type: 'other', sequence: stored.sequence } as unknown as Fact)
  const settled = async () => {
    for (let n = 0; n < 20; n++) await Promise.resolve()
    for (const wait of waits.splice(0)) wait()
    for (let n = 0; n < 20; n++) await Promise.resolve()
  }
  return { state, calls, deps, handler, store, hand, settled, reconnect: () => reconnected() }
}

describe('a reading', () => {
  test('that starts over tries until the stream can be read, and hears the old reader no more', async () => {
    const { state, calls, deps, handler, store, hand, settled } = streamOf()
    await using reading = await new FactStream(deps, handler, { position: 0, time: 0 }).begin()
    await hand(0, store(7))
    state.failures = 3
    const over = hand(0, store(2))
    for (let n = 0; n < 4; n++) await settled()
    await over
    await hand(0, store(8))
    await hand(1, store(1))
    expect(calls).toEqual(['apply 7', 'rolled back', 'apply 1'])
    expect(state.followed).toEqual([1, 1])
    expect(reading.position).toBe(1)
  })

  test('at its beginning throws what it cannot read', async () => {
    const { state, deps, handler } = streamOf()
    state.failures = 1
    await expect(new FactStream(deps, handler, { position: 0, time: 0 }).begin()).rejects.toThrow('no leader')
  })

  type Stream = ReturnType<typeof streamOf>

  function deleted(stream: Stream): void {
    stream.store(9)
    stream.state.messages.delete(7)
  }

  function shorter(stream: Stream): void {
    stream.state.messages.clear()
    stream.state.last = 3
  }

  test.each([
    ['says the same at its position goes on', (stream: Stream) => void stream.store(7), []],
    ['no longer has its position goes on', deleted, []],
    ['says something else there is another one', (stream: Stream) => void stream.store(7, 99), ['rolled back']],
    ['ends before the position', shorter, ['rolled back']],
  ])('reconnected to a stream that %s', async (_, change, expected) => {
    const stream = streamOf()
    await using reading = await new FactStream(stream.deps, stream.handler, { position: 0, time: 0 }).begin()
    await stream.hand(0, stream.store(7))
    change(stream)
    stream.reconnect()
    await stream.settled()
    expect(stream.calls.slice(1)).toEqual(expected)
    expect(reading.position).toBe(expected.length ? 0 : 7)
  })
})
