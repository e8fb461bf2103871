import { headers as clientHeaders } from '@nats-io/transport-node'
import { HEADER } from '@passover/schemas'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { encodeHeaders, firstHeaders, headersFromBase64, headersOf, RawHeaders } from './headers.js'

const block = (...lines: string[]) => new RawHeaders(`NATS/1.0\r\n${lines.join('\r\n')}\r\n\r\n`)

describe('headers', () => {
  it("give the first value of a repeated one, and the last, which is the server's", () => {
    const headers = block('Nats-Sequence: 1', 'X: y', 'Nats-Sequence: 2')
    expect(headers.get('Nats-Sequence')).toBe('1')
    expect(headers.last('Nats-Sequence')).toBe('2')
    expect(headers.get('X')).toBe('y')
    expect(headers.get('Y')).toBeUndefined()
    expect(headers.pairs()).toEqual([
      ['Nats-Sequence', '1'],
      ['X', 'y'],
      ['Nats-Sequence', '2'],
    ])
  })

  it('are found by their whole name only', () => {
    const headers = block('X-Nats-Subject: a', 'Nats-Subject-Of: b', 'Note: \\r\\nNats-Subject: c')
    expect(headers.get('Nats-Subject')).toBeUndefined()
  })

  it('tell the status of a status message', () => {
    expect(new RawHeaders('NATS/1.0 408 Request Timeout\r\nNats-Pending-Messages: 3\r\n\r\n').status).toEqual({
      code: 408,
      description: 'Request Timeout',
    })
    expect(new RawHeaders('NATS/1.0 503\r\n\r\n').status).toEqual({ code: 503, description: '' })
    expect(block('A: b').status.code).toBe(0)
  })

  it('come back as they were encoded', () => {
    const name = fc.stringMatching(/^[A-Za-z][A-Za-z-]{0,20}$/)
    const value = fc.stringMatching(/^[!-~]([ -~]{0,20}[!-~])?$/)
    fc.assert(
      fc.property(fc.dictionary(name, value, { noNullPrototype: true }), (given) => {
        const read = new RawHeaders(encodeHeaders(given))
        for (const [key, expected] of Object.entries(given)) expect(read.get(key)).toBe(expected)
        expect(read.pairs().length).toBe(Object.keys(given).length)
      }),
    )
  })

  it('cannot smuggle a header of their own', () => {
    const text = encodeHeaders({ 'Passover-Code': 'E001\r\nNats-Rollup: all', traceparent: undefined })
    expect(new RawHeaders(text).pairs()).toEqual([['Passover-Code', 'E001 Nats-Rollup: all']])
  })

  it('asked for together are the first value of each, as one by one', () => {
    const names = Object.values(HEADER)
    // Names that differ from ours in one place only must not be taken for them.
    const near = fc
      .constantFrom(...names)
      .chain((name) => fc.nat(name.length - 1).map((at) => `${name.slice(0, at)}z${name.slice(at + 1)}`))
    const line = fc.record({ name: fc.oneof(fc.constantFrom(...names), near), value: fc.stringMatching(/^[ -~\r\n]{0,12}$/) })
    fc.assert(
      fc.property(fc.array(line, { maxLength: 12 }), (lines) => {
        const given = lines.map(({ name, value }) => `${name}: ${value}`)
        // In a long block, they are searched one by one.
        for (const headers of [block(...given), block(...given, ...Array(1_000).fill('other: x'))])
          for (const name of names) expect(firstHeaders(headers).get(name)).toBe(headers.get(name))
      }),
    )
  })

  it("are read from the client's own map where its message hides the bytes", () => {
    const map = clientHeaders()
    map.append('Nats-Subject', 'a')
    map.append('Nats-Subject', 'b')
    expect(headersOf({ headers: map }).last('Nats-Subject')).toBe('b')
    expect(headersOf({}).pairs()).toEqual([])
    expect(headersFromBase64(Buffer.from('NATS/1.0\r\nA: b\r\n\r\n').toString('base64')).get('A')).toBe('b')
    expect(headersFromBase64(undefined).get('A')).toBeUndefined()
  })
})
