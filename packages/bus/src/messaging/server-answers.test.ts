import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ServerClock } from '../clock/server-clock.js'
import { machineTiming } from '../clock/timing.js'
import { parseAck } from '../consumers/delivery.js'
import { endOf } from '../consumers/pull-requests.js'
import { Subjects } from '../subjects/subjects.js'
import { outcomeOf } from './publisher.js'
import { verifyRepublished } from './return-subscription.js'

const ack = (value: unknown) => outcomeOf(new TextEncoder().encode(JSON.stringify(value)))
const refused = (err_code: number, description: string, code = 400) =>
  ack({ error: { err_code, code, description }, stream: 'PASSOVER', seq: 0 })

describe('a publish acknowledgment', () => {
  it('means stored, lost, refused or unknown', () => {
    expect(ack({ stream: 'PASSOVER', seq: 7 })).toEqual({ kind: 'stored', sequence: 7 })
    expect(refused(10071, 'wrong last sequence: 12')).toEqual({ kind: 'lost', last: 12 })
    expect(refused(10071, 'wrong last sequence')).toEqual({ kind: 'lost' })
    expect(refused(10164, 'wrong last sequence')).toEqual({ kind: 'lost' })
    expect(refused(10077, 'maximum bytes exceeded', 503)).toMatchObject({ kind: 'refused', reason: 'full' })
    expect(refused(10077, 'maximum messages per subject exceeded', 503)).toMatchObject({ kind: 'refused', reason: 'exists' })
    expect(refused(10047, 'insufficient storage resources available', 500)).toMatchObject({ kind: 'refused', reason: 'full' })
    expect(refused(10054, 'message size exceeds maximum allowed')).toMatchObject({ kind: 'refused', reason: 'too_large' })
    expect(refused(10008, 'JetStream system temporarily unavailable', 503)).toMatchObject({ kind: 'unknown' })
    expect(refused(10060, 'expected stream does not match')).toMatchObject({ kind: 'refused', reason: 'other' })
  })

  it('means stored under its sequence, in whatever order it says what', () => {
    const more = fc.record({ domain: fc.string(), duplicate: fc.boolean(), val: fc.string() }, { requiredKeys: [] })
    fc.assert(
      fc.property(fc.string(), fc.maxSafeInteger().map(Math.abs), more, fc.boolean(), (stream, seq, rest, last) => {
        const said = last ? { stream, ...rest, seq } : { stream, seq, ...rest }
        expect(ack(said)).toEqual({ kind: 'stored', sequence: seq })
        expect(ack({ stream, error: { err_code: 10071 }, seq })).toEqual({ kind: 'lost' })
      }),
    )
  })

  it('that cannot be read proves nothing', () => {
    expect(outcomeOf(new Uint8Array([1, 2]))).toMatchObject({ kind: 'unknown' })
    expect(ack(null)).toMatchObject({ kind: 'unknown' })
    expect(ack({})).toMatchObject({ kind: 'unknown' })
  })
})

describe("a delivery's acknowledgment subject", () => {
  it('is read in both of its forms, to the millisecond', () => {
    const expected = { delivered: 2, sequence: 30, consumer_sequence: 4, time: 1795864071341, pending: 6 }
    expect(parseAck('$JS.ACK.PASSOVER.work_a_high.2.30.4.1795864071341999999.6')).toEqual(expected)
    expect(parseAck('$JS.ACK.hub.ACCHASH.PASSOVER.work_a_high.2.30.4.1795864071341999999.6')).toEqual(expected)
    expect(parseAck('$JS.ACK.hub.ACCHASH.PASSOVER.work_a_high.2.30.4.1795864071341999999.6.rnd')).toEqual(expected)
    expect(parseAck('_INBOX.x.1')).toBeUndefined()
    expect(parseAck('$JS.ACK.x')).toBeUndefined()
  })
})

describe('the end of a pull', () => {
  it("follows the server's status", () => {
    expect(endOf(404, 'No Messages')).toBe('empty')
    expect(endOf(408, 'Request Timeout')).toBe('empty')
    expect(endOf(409, 'Consumer Deleted')).toBe('gone')
    expect(endOf(409, 'Leadership Change')).toBe('failed')
    expect(endOf(409, 'Server Shutdown')).toBe('failed')
    expect(endOf(409, 'Message Size Exceeds MaxBytes')).toBe('empty')
    expect(endOf(503, '')).toBe('gone')
    expect(endOf(400, 'Bad Request')).toBe('failed')
  })
})

describe('a heard return', () => {
  const s = new Subjects()
  const key = { originator: 'bob', subagent: 'audit', id: '0abcdefg1' }
  const heard = (subject: string, lines: string[]) => {
    const text = Buffer.from(`NATS/1.0\r\n${lines.join('\r\n')}\r\n\r\n`)
    const message = { subject, data: new Uint8Array(0), _rdata: text, _msg: { hdr: text.length } }
    return verifyRepublished(message, s)
  }
  const server = [
    'Nats-Stream: PASSOVER',
    `Nats-Subject: ${s.return(key, 'audit')}`,
    'Nats-Sequence: 5',
    'Nats-Time-Stamp: 2026-11-28T11:07:51.347062824Z',
  ]

  it("is believed by the server's own headers", () => {
    const belief = heard(s.returned(key, 'audit'), ['Passover-Status: completed', ...server])
    expect(belief).toMatchObject({
      kind: 'heard',
      heard: { key, by: 'audit', stored: { sequence: 5, time: Date.parse('2026-11-28T11:07:51.347Z') } },
    })
  })

  it('is suspect where the stream stored what the server published', () => {
    for (const stored of [['Nats-Stream: OBJ_parts_mallory', 'Nats-Subject: $O.parts_mallory.C.x.0'], ['Nats-Last-Consumer: 4'], []]) {
      const lines = stored.length > 0 ? ['Passover-Status: completed', ...stored] : []
      expect(heard(s.returned(key, 'audit'), [...lines, ...server]), lines.join()).toEqual({ kind: 'suspect', key })
    }
  })

  it('is suspect when they name another stream, another return or none', () => {
    const subject = s.returned(key, 'audit')
    const other = s.return({ ...key, originator: 'mallory' }, 'audit')
    for (const lines of [
      ['Nats-Stream: OTHER', ...server.slice(1)],
      [server[0] ?? '', `Nats-Subject: ${other}`, ...server.slice(2)],
      [...server, `Nats-Subject: ${other}`],
      [...server, 'Nats-Sequence: x'],
      server.slice(0, 3),
      [],
    ]) {
      expect(heard(subject, lines), lines.join()).toEqual({ kind: 'suspect', key })
    }
    expect(heard(s.returned(key, 'passover'), server)).toEqual({ kind: 'suspect', key })
    expect(heard('returned.bob', server)).toEqual({ kind: 'noise' })
  })
})

describe('the server clock', () => {
  it('is the local one until measured, then runs on from half-way of the measure', () => {
    const clock = new ServerClock({ ...machineTiming, wall: () => 70_000, monotonic: () => 7 })
    expect(clock.measured).toBe(false)
    expect(clock.now()).toBe(70_000)
    clock.take({ time: 5_000_000, asked: 100, answered: 300 })
    expect(clock.measured).toBe(true)
    expect(clock.at(200)).toBe(5_000_000)
    expect(clock.at(1_200)).toBe(5_001_000)
    clock.take({ time: Number.NaN, asked: 0, answered: 0 })
    expect(clock.at(200)).toBe(5_000_000)
  })
})
