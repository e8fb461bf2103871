import { describe, expect, it } from 'vitest'
import { describeThrown, stackOf } from './describe-thrown.js'
import { toSendableError, toSendableValue } from './sendable-error.js'

const throwing = (field: string) => Object.defineProperty(new Error('a'), field, { get: () => raise() })
const raise = (): never => {
  throw new Error('getter')
}
const circular = new Error('loop')
circular.cause = circular
const refused = ['::1', '127.0.0.1'].map((host) => Object.assign(new Error(`connect ECONNREFUSED ${host}:9`), { code: 'ECONNREFUSED' }))

describe('describeThrown', () => {
  it.each<[string, unknown, string]>([
    ['an error', new Error('plain'), 'plain'],
    ['text', 'quota used up', 'quota used up'],
    ['an empty text', ' ', 'the handler threw an empty text, which is not an error'],
    ['undefined', undefined, 'the handler threw undefined, which is not an error'],
    ['null', null, 'the handler threw null, which is not an error'],
    ['a symbol', Symbol('s'), 'the handler threw Symbol(s), which is not an error'],
    ['an object with a message', Object.freeze({ code: 429, message: 'rate limited' }), 'rate limited'],
    [
      'an object without one',
      { error: { type: 'overloaded' } },
      "the handler threw { error: { type: 'overloaded' } }, which is not an error",
    ],
    ['an object without a prototype', Object.assign(Object.create(null), { message: 'from querystring' }), 'from querystring'],
    ['an object of a class', new Response('bad', { status: 500 }), 'the handler threw a Response with status 500, which is not an error'],
    ['an empty error', new TypeError(''), 'the handler threw a TypeError without a message'],
    ['an error with an object as message', Object.assign(new Error('x'), { message: { detail: 'nested' } }), "{ detail: 'nested' }"],
    ['an error with a symbol as name', Object.assign(new Error('named'), { name: Symbol('x') }), 'named'],
    ['an error whose message throws', throwing('message'), 'the handler threw an Error without a message'],
    ['an error whose stack throws', throwing('stack'), 'a'],
    [
      'a Proxy that throws',
      new Proxy({}, { get: raise, getPrototypeOf: raise, ownKeys: raise }),
      'the handler threw {}, which is not an error',
    ],
    ['an error that causes itself', circular, 'loop'],
    ['a lone surrogate', new Error('cut \ud83d'), 'cut \ufffd'],
    ['a cause', new TypeError('fetch failed', { cause: refused[0] }), 'fetch failed (caused by: connect ECONNREFUSED ::1:9)'],
    ['several', new AggregateError(refused), 'AggregateError: connect ECONNREFUSED ::1:9; connect ECONNREFUSED 127.0.0.1:9'],
    [
      'several in a cause',
      new TypeError('fetch failed', { cause: new AggregateError(refused) }),
      'fetch failed (caused by: connect ECONNREFUSED ::1:9; connect ECONNREFUSED 127.0.0.1:9)',
    ],
  ])('tells of %s', (_, thrown, message) => {
    expect(describeThrown(thrown).message).toBe(message)
  })

  it('keeps name, code and stack, and those of the causes but no other field, which may hold credentials', () => {
    const http = Object.assign(new Error('401'), { config: { headers: { authorization: 'Bearer s3cret' } }, cause: refused[0] })
    const described = describeThrown(http)
    expect(described).toEqual({
      message: '401 (caused by: connect ECONNREFUSED ::1:9)',
      name: 'Error',
      stack: expect.stringContaining('thrown.test'),
      causes: [{ name: 'Error', message: 'connect ECONNREFUSED ::1:9', error_code: 'ECONNREFUSED' }],
    })
    expect(JSON.stringify(described)).not.toContain('s3cret')
  })

  it('names files without the folders of the machine', () => {
    const frames = [
      'Error: /etc/x is missing',
      '    at work (file:///home/bob/agents/greeter.mjs:3:4)',
      '    at async /home/bob smith/a.js:5:6',
      '    at C:\\Users\\bob\\a.js:7:8',
      '    at eval (eval at run (/srv/b.js:1:2), <anonymous>:1:1)',
      '    at node:internal/process/task_queues:95:5',
    ]
    expect(describeThrown(Object.assign(new Error('x'), { stack: frames.join('\n') })).stack?.split('\n')).toEqual([
      frames[0],
      '    at work (greeter.mjs:3:4)',
      '    at async a.js:5:6',
      '    at a.js:7:8',
      '    at eval (eval at run (b.js:1:2), <anonymous>:1:1)',
      frames[5],
    ])
  })

  it('is bounded, however much was thrown', () => {
    const many = new AggregateError(Array.from({ length: 1_000 }, () => new Error('m'.repeat(100_000))))
    const described = describeThrown(Object.assign(many, { stack: 's'.repeat(100_000), name: 'n'.repeat(10_000) }))
    expect(JSON.stringify(described).length).toBeLessThan(20_000)
    expect(stackOf(Object.assign(new Error('x'), { stack: ['a'] }))).toBeUndefined()
  })
})

describe('what a handler gives that cannot be sent', () => {
  it('is left out of the details of an error, by name', () => {
    const details = Object.assign(JSON.parse('{"__proto__":1,"kept":2}'), { n: 1n, self: circular })
    Object.defineProperty(details, 'odd', { enumerable: true, get: raise })
    const { details: sound } = toSendableError({ code: 'E011', message: 'm', details })
    expect(sound).toEqual({ kept: 2, left_out: expect.stringMatching(/__proto__.*n is a bigint.*self is a Error.*odd cannot be read/s) })
  })

  it('is kept as text', () => {
    expect(toSendableValue({ a: 1 })).toEqual({ a: 1 })
    expect(toSendableValue({ n: 1n })).toBe('{ n: 1n }')
    expect(toSendableValue(JSON.parse('{"__proto__":1}'))).toBe("{ ['__proto__']: 1 }")
    expect(toSendableValue(Object.create(null, { toString: { get: raise } }))).toEqual({})
  })
})
