import type { NatsConnection } from '@nats-io/transport-node'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Connection } from '../connection/connection.js'
import { encodeHeaders } from './headers.js'
import { type SendOptions, WriteBuffer } from './write-buffer.js'

interface Message {
  subject: string
  data: Uint8Array
  options: SendOptions
}

/** What a server would read, straight from the protocol's description. */
function written({ subject, data, options }: Message): Buffer {
  const { reply, headers } = options
  const to = [subject, ...(reply === undefined ? [] : [reply])]
  const block = Buffer.from(headers ?? '')
  const sizes = headers === undefined ? [data.length] : [block.length, block.length + data.length]
  const line = [headers === undefined ? 'PUB' : 'HPUB', ...to, ...sizes].join(' ')
  return Buffer.concat([Buffer.from(`${line}\r\n`), block, data, Buffer.from('\r\n')])
}

const subject = fc.stringMatching(/^[a-z$]{1,12}(\.[A-Za-z0-9_-]{1,40}){0,4}$/)
const headers = fc.dictionary(fc.stringMatching(/^[A-Za-z-]{1,20}$/), fc.string({ unit: 'grapheme', maxLength: 60 }), { maxKeys: 4 })
const message: fc.Arbitrary<Message> = fc.record({
  subject,
  data: fc.oneof(
    fc.uint8Array({ maxLength: 300 }),
    fc.integer({ min: 0, max: 150_000 }).map((length) => new Uint8Array(length).fill(7)),
  ),
  options: fc.record({
    reply: fc.option(subject, { nil: undefined }),
    headers: fc.option(
      headers.map((one) => encodeHeaders(one)),
      { nil: undefined },
    ),
  }),
})

describe('messages on their way out', () => {
  it('are the bytes that the protocol wants, in order, whatever their size and whenever they are taken', () => {
    fc.assert(
      fc.property(fc.array(fc.array(message, { maxLength: 6 }), { maxLength: 5 }), (turns) => {
        const buffer = new WriteBuffer()
        const taken = turns.map((turn) => {
          for (const { subject, data, options } of turn) buffer.add(subject, data, options)
          expect(buffer.messages).toBe(turn.length)
          expect(buffer.bytes).toBe(Buffer.concat(turn.map(written)).length)
          return buffer.take()
        })
        expect([buffer.messages, buffer.bytes]).toEqual([0, 0])
        // Compared at the end: what was taken earlier must not be written over.
        const all = taken.map((pieces) => Buffer.concat(pieces))
        for (const [at, turn] of turns.entries()) expect(all[at]?.equals(Buffer.concat(turn.map(written)))).toBe(true)
      }),
      { numRuns: 60 },
    )
  })
})

describe('a connection', () => {
  const silent = { status: () => ({ [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => undefined) }) }), isClosed: () => false }

  it('hands what was sent in one turn to the client in one piece, and refuses what is no subject', async () => {
    const sent: string[] = []
    const nc = { ...silent, protocol: { sendCommand: (bytes: Uint8Array) => sent.push(Buffer.from(bytes).toString()) } }
    const link = new Connection(nc as unknown as NatsConnection, '_INBOX', () => undefined)
    expect(link.send('a.b', new Uint8Array(0), { reply: 'r' })).toBe(true)
    await Promise.resolve()
    expect(link.send('c', Buffer.from('x'))).toBe(true)
    expect(() => link.send('a b', new Uint8Array(0))).toThrow(TypeError)
    expect(() => link.send('', new Uint8Array(0))).toThrow(TypeError)
    expect(sent).toEqual([])
    await new Promise((done) => setImmediate(done))
    expect(sent).toEqual(['PUB a.b r 0\r\n\r\nPUB c 1\r\nx\r\n'])
  })

  it('hands over a large amount before the turn ends', async () => {
    const sent: number[] = []
    const nc = { ...silent, protocol: { sendCommand: (bytes: Uint8Array) => sent.push(bytes.length) } }
    const link = new Connection(nc as unknown as NatsConnection, '_INBOX', () => undefined)
    for (let i = 0; i < 100; i += 1) link.send('s', new Uint8Array(0))
    expect(sent.length).toBe(0)
    link.send('s', new Uint8Array(70_000))
    expect(sent.reduce((sum, bytes) => sum + bytes)).toBeGreaterThan(70_000)
    await new Promise((done) => setImmediate(done))
  })

  it("publishes by the client's own means where it hides how commands are sent", () => {
    const sent: unknown[] = []
    const publish = (subject: string, data: Uint8Array, options: { reply?: string; headers?: { encode(): Uint8Array } }) =>
      sent.push([subject, Buffer.from(data).toString(), options.reply, options.headers && Buffer.from(options.headers.encode()).toString()])
    const link = new Connection({ ...silent, publish } as unknown as NatsConnection, '_INBOX', () => undefined)
    link.send('a', Buffer.from('x'), { reply: 'r', headers: encodeHeaders({ A: 'b' }) })
    link.send('b', Buffer.from('y'))
    expect(sent).toEqual([
      ['a', 'x', 'r', 'NATS/1.0\r\nA: b\r\n\r\n'],
      ['b', 'y', undefined, undefined],
    ])
  })
})
