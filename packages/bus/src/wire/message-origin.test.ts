import { describe, expect, it } from 'vitest'
import { encodeHeaders, RawHeaders } from './headers.js'
import { distrust, isServerAnswer, serverHeader } from './message-origin.js'

const EMPTY = new Uint8Array(0)
const text = (body: string) => new TextEncoder().encode(body)
const block = (...lines: string[]) => new RawHeaders(`NATS/1.0\r\n${lines.map((line) => `${line}\r\n`).join('')}\r\n`)

/** Header blocks as server 2.15.1 stored them when it was made to answer to a subject of a stream. */
const DIRECT = ['Nats-Stream: A', 'Nats-Subject: a.one', 'Nats-Sequence: 1', 'Nats-Time-Stamp: 2026-11-29T23:54:44.641905878Z']
const BOUNCES: Record<string, string[]> = {
  'direct get': ['Passover-Id: x', ...DIRECT],
  'direct get of a message without headers': DIRECT,
  'direct get of a message that forges one': ['Nats-Stream: forged', ...DIRECT],
  'batched direct get': [...DIRECT, 'Nats-Num-Pending: 2', 'Nats-Last-Sequence: 0'],
  'end of a batch': ['Nats-Num-Pending: 0', 'Nats-Last-Sequence: 3', 'Nats-UpTo-Sequence: 3'],
  'heartbeat of a pull': ['Nats-Last-Consumer: 4', 'Nats-Last-Stream: 4'],
  'status of a pull': ['Nats-Pending-Messages: 100', 'Nats-Pending-Bytes: 0'],
  'trace of a message': ['Nats-Trace-Dest: policy.maria'],
}

describe('a stored message', () => {
  it.each(Object.entries(BOUNCES))('is not believed where it is the %s', (_, lines) => {
    for (const kind of ['step', 'request', 'decision', 'event', 'policy', 'agent', 'custody', 'acknowledged', 'advisory'])
      expect(distrust(kind, { headers: block(...lines), data: text('{"v":1}') }), kind).toMatch(/Nats-/)
  })

  it.each([
    ['publish acknowledgment', '{"stream":"PASSOVER","seq":4}'],
    ['refusal', '{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 4"},"stream":"A","seq":0}'],
    ['API response', '{"type":"io.nats.jetstream.api.v1.stream_msg_get_response","message":{"subject":"a","seq":1}}'],
    ['status without a body', ''],
  ])('is not believed where it is a %s, which has no headers', (_, body) => {
    const data = text(body)
    for (const kind of ['step', 'decision', 'policy', 'agent', 'custody', 'event', 'acknowledged'])
      for (const lines of [[], [`Nats-Msg-Size: ${data.length}`]])
        expect(distrust(kind, { headers: block(...lines), data }), kind).toBeDefined()
    expect(isServerAnswer(data)).toBe(true)
  })

  it('is believed as clients publish it: with their own headers, a guard, what an import or the read adds', () => {
    const guard = { 'Nats-Expected-Last-Subject-Sequence': '3', 'Nats-Expected-Last-Subject-Sequence-Subject': '*.a.b.c.*' }
    const imported = { 'Nats-Request-Info': '{"acc":"A"}' }
    const headers = new RawHeaders(
      encodeHeaders({ 'Passover-Id': 'x', 'X-Nats-Stream': 'y', Note: 'Nats-Stream: z', ...guard, ...imported }),
    )
    expect(serverHeader(headers)).toBeUndefined()
    expect(distrust('step', { headers, data: EMPTY })).toBeUndefined()
    expect(distrust('step', { headers: block('Passover-Status: completed', 'Nats-Msg-Size: 4'), data: EMPTY })).toBeUndefined()
    // `nats pub` sends neither headers nor msgpack; older clients sent some events without headers.
    expect(distrust('request', { headers: block(), data: text('{"reason":"x"}') })).toBeUndefined()
    expect(distrust('event', { headers: block(), data: text('{"v":1}') })).toBeUndefined()
    expect(distrust('acknowledged', { headers: block(), data: Uint8Array.of(0x81, 0xa1, 0x76, 1) })).toBeUndefined()
    // A read of the headers alone does not show what an older client acknowledged.
    expect(distrust('acknowledged', { headers: block('Nats-Msg-Size: 40'), data: EMPTY })).toBeUndefined()
    // An advisory is the server's own.
    expect(distrust('advisory', { headers: block(), data: text('{"stream_seq":1}') })).toBeUndefined()
  })

  it('keeps what a bounce stored, and loses only what the read of it added', () => {
    const read = block(
      'Passover-Id: x',
      ...DIRECT,
      'Nats-Stream: PASSOVER',
      'Nats-Subject: return.a',
      'Nats-Sequence: 9',
      'Nats-Last-Sequence: 2',
    )
    expect(read.asStored().pairs()).toEqual([
      ['Passover-Id', 'x'],
      ['Nats-Stream', 'A'],
      ['Nats-Subject', 'a.one'],
      ['Nats-Sequence', '1'],
      ['Nats-Time-Stamp', '2026-11-29T23:54:44.641905878Z'],
    ])
    expect(serverHeader(block('Passover-Id: x', ...DIRECT).asStored())).toBeUndefined()
    expect(
      block(...DIRECT)
        .asStored()
        .text(),
    ).toBe('NATS/1.0\r\n\r\n')
  })
})
