import { encode, encodeHeaders, readHeaders, splitContext } from '@passover/bus'
import { requestDigest } from '@passover/core'
import { HEADER, type Part, type RequestControl, sha256, type WorkContext } from '@passover/schemas'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseRequest } from './parse-request.js'

const PARTIES = { originator: 'alice', subagent: 'audit' }
const CONTEXT: WorkContext = {
  session_id: 'session-1',
  directory: '/project',
  files: [{ path: 'a.ts', content: 'const a = 1' }],
  messages: [],
  objective: 'look',
}
const REQUEST: RequestControl = {
  id: 'pass-00000001',
  originating_agent_id: 'alice',
  subagent_id: 'audit',
  reason: 'review',
  return_required: true,
}

function headers(values: Record<string, string> = {}) {
  return readHeaders(encodeHeaders(values))
}
function envelope(change: Record<string, unknown> = {}): Uint8Array {
  return encode({ v: 1, request: REQUEST, parts: splitContext(CONTEXT).parts, session_id: 'session-1', ...change }, 'msgpack')
}
function json(change: Record<string, unknown> = {}): Uint8Array {
  return encode({ ...REQUEST, work_context: CONTEXT, ...change }, 'json')
}
function errorOf(data: Uint8Array, values: Record<string, string> = {}) {
  const reading = parseRequest({ headers: headers(values), data }, PARTIES)
  return reading.ok ? undefined : reading.error
}

describe('readRequest', () => {
  test('reads an envelope, and the same request as plain JSON gives the same digest', () => {
    const packed = parseRequest({ headers: headers(), data: envelope() }, PARTIES)
    const plain = parseRequest({ headers: headers(), data: json() }, PARTIES)
    if (!packed.ok || !plain.ok) throw new Error('not read')
    expect(packed.value).toMatchObject({ reply_type: 'msgpack', session_id: 'session-1', request: REQUEST })
    expect(plain.value).toMatchObject({ reply_type: 'json', session_id: 'session-1', request: REQUEST })
    expect(plain.value.digest).toBe(packed.value.digest)
    expect(packed.value.digest).toBe(requestDigest(REQUEST, splitContext(CONTEXT).parts))
  })

  test('finds the session in the context part when the envelope does not say it', () => {
    const data = encode({ v: 1, request: REQUEST, parts: splitContext(CONTEXT).parts }, 'msgpack')
    const reading = parseRequest({ headers: headers(), data }, PARTIES)
    expect(reading).toMatchObject({ ok: true, value: { session_id: 'session-1' } })
  })

  test('a part by reference is not opened', () => {
    const parts = [{ name: 'context', hash: sha256('x'), size: 1, owner: 'alice' }]
    expect(parseRequest({ headers: headers(), data: envelope({ parts }) }, PARTIES)).toMatchObject({ ok: true })
  })

  test.each([
    ['originator', { originating_agent_id: 'bob' }, 'originating_agent_id'],
    ['subagent', { subagent_id: 'mallory' }, 'subagent_id'],
  ])('E005 when body and subject name another %s', (_, change, field) => {
    expect(errorOf(json(change))).toMatchObject({ code: 'E005', details: { field } })
  })

  test('E005 when the header names another id, and when it claims another digest', () => {
    expect(errorOf(envelope(), { [HEADER.id]: 'pass-00000002' })).toMatchObject({ code: 'E005', details: { field: HEADER.id } })
    expect(errorOf(envelope(), { [HEADER.digest]: '0'.repeat(64) })).toMatchObject({ code: 'E005', details: { field: HEADER.digest } })
  })

  test.each([
    ['bytes that are not what the hash names', (part: Part) => ({ ...part, hash: '0'.repeat(64) })],
    ['a wrong size', (part: Part) => ({ ...part, size: 3 })],
    ['neither bytes nor owner', ({ data: _, ...part }: Part) => part],
    ["another agent's bucket", ({ data: _, ...part }: Part) => ({ ...part, owner: 'mallory' })],
  ])('E005 for a part with %s', (_, spoil) => {
    const parts = splitContext(CONTEXT).parts.map((part) => spoil(part))
    expect(errorOf(envelope({ parts }))).toMatchObject({ code: 'E005' })
  })

  test('E005 for two parts of one name', () => {
    const [part] = splitContext(CONTEXT).parts
    expect(errorOf(envelope({ parts: [part, part] }))).toMatchObject({ code: 'E005' })
  })

  test.each(['bad-00000001', 'short', 'with space 1', 'x'.repeat(65), '../../../etc', 'passover.id', '*', '>'])(
    'E005 for the id %j',
    (id) => {
      expect(errorOf(json({ id }))).toMatchObject({ code: 'E005' })
    },
  )

  test('E005 and no throw for nesting, prototypes, lone surrogates', () => {
    const deep = Buffer.from(`${'{"a":'.repeat(20_000)}1${'}'.repeat(20_000)}`)
    expect(errorOf(deep)).toMatchObject({ code: 'E005' })
    expect(errorOf(Buffer.from('{"__proto__":{"id":"x"}}'))).toMatchObject({ code: 'E005' })
    expect(
      errorOf(Buffer.from(JSON.stringify({ ...REQUEST, reason: 'x', work_context: { ...CONTEXT, objective: '\ud800' } }))),
    ).toMatchObject({ code: 'E005' })
  })

  test('refuses a request that the server published on a client’s behalf, with any content', () => {
    expect(errorOf(envelope(), { 'Nats-Stream': 'OBJ_parts_mallory' })).toMatchObject({
      code: 'E005',
      message: expect.stringMatching(/Nats-Stream/),
    })
  })

  test('any bytes are read or E005', () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 400 }),
        fc.option(fc.constantFrom('application/json', 'application/msgpack', 'text/plain'), { nil: undefined }),
        (data, type) => {
          const reading = parseRequest({ headers: headers(type === undefined ? {} : { [HEADER.contentType]: type }), data }, PARTIES)
          return reading.ok || reading.error.code === 'E005'
        },
      ),
    )
  })

  test('any JSON, and a valid request with anything in one field, is read or E005', () => {
    const field = fc.constantFrom(
      'id',
      'originating_agent_id',
      'subagent_id',
      'reason',
      'priority',
      'timeout_ms',
      'return_required',
      'constraints',
      'override',
      'parent',
      'budget',
      'work_context',
    )
    fc.assert(
      fc.property(field, fc.jsonValue(), (name, value) => {
        const reading = parseRequest({ headers: headers(), data: json({ [name]: value }) }, PARTIES)
        return reading.ok || reading.error.code === 'E005'
      }),
    )
    fc.assert(fc.property(fc.jsonValue(), (value) => errorOf(encode(value, 'json'))?.code === 'E005'))
  })

  test('a hostile message does not grow the answer', () => {
    const error = errorOf(json({ originating_agent_id: 'x'.repeat(60), reason: 'y'.repeat(500_000) }))
    expect(JSON.stringify(error).length).toBeLessThan(4_096)
  })
})
