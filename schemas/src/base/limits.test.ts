import { describe, expect, it } from 'vitest'
import * as e from '../../../test/support/builders/examples.js'
import * as s from '../index.js'
import * as b from './bounded-types.js'

const HUGE = Buffer.alloc(s.LIMITS.content + 1, 'x').toString('latin1')

/** A list of a million that tells when an element is looked at. */
function untouchable(): unknown[] {
  const list = new Array(1_000_000).fill(0)
  return new Proxy(list, {
    get(target, key) {
      if (typeof key === 'string' && /^\d+$/.test(key)) throw new Error('an element was looked at')
      return Reflect.get(target, key)
    },
  })
}

type Path = (string | number)[]

function leaves(value: unknown, path: Path = []): { path: Path; value: unknown }[] {
  if (typeof value !== 'object' || value === null) return [{ path, value }]
  const members: [string | number, unknown][] = Array.isArray(value) ? [...value.entries()] : Object.entries(value)
  return [...(Array.isArray(value) ? [{ path, value }] : []), ...members.flatMap(([key, member]) => leaves(member, [...path, key]))]
}

function replaced(value: unknown, [key, ...rest]: Path, by: unknown): unknown {
  if (key === undefined) return by
  const copy = (Array.isArray(value) ? [...value] : { ...(value as object) }) as Record<string | number, unknown>
  copy[key] = replaced(copy[key], rest, by)
  return copy
}

const STRUCTURES = [
  ['request', s.passOverRequest, e.request],
  ['output', s.workOutput, e.output],
  ['return context', s.returnToContext, e.returnContext],
  ['marker', s.passOverMarker, e.marker],
  ['audit entry', s.passOverAuditEntry, e.auditEntry],
  ['record', s.passRecord, e.record],
  ['agent', s.agentRecord, e.agent],
  ['policy', s.effectivePolicy, e.policy],
] as const

describe.each(STRUCTURES)('limits of a %s', (_, schema, full) => {
  it.each(
    leaves(full)
      .filter(({ value }) => typeof value === 'string')
      .map(({ path }) => [path.join('.'), path] as const),
  )('%s is refused when it is 64 MB long', (_, path) => {
    const result = schema.safeParse(replaced(full, [...path], HUGE))
    expect(result.success).toBe(false)
  })

  it.each(
    leaves(full)
      .filter(({ value, path }) => Array.isArray(value) && !path.includes('input'))
      .map(({ path }) => [path.join('.'), path] as const),
  )('%s is refused when it has a million, before any of them is looked at', (_, path) => {
    const issues = schema.safeParse(replaced(full, [...path], untouchable())).error?.issues
    expect(issues).toEqual([expect.objectContaining({ code: 'too_big' })])
  })
})

describe('values of unknown shape', () => {
  const keyed = (n: number) => Object.fromEntries(Array.from({ length: n }, (_, i) => [`k${i}`, null]))
  const nested = (n: number) => {
    let value: unknown = null
    for (let i = 0; i < n; i++) value = { a: value }
    return value
  }

  it('are bounded in depth', () => {
    expect(s.jsonFault(nested(s.LIMITS.depth))).toBeUndefined()
    expect(s.jsonFault(nested(s.LIMITS.depth + 1))?.why).toMatch(/nested more than 32/)
  })

  it('are bounded in number', () => {
    expect(s.jsonFault(new Array(s.LIMITS.nodes - 1).fill(1))).toBeUndefined()
    expect(s.jsonFault(new Array(s.LIMITS.nodes).fill(1))?.why).toMatch(/more than 100000 values/)
  })

  it('are bounded in characters, keys included', () => {
    expect(s.jsonFault({ [HUGE.slice(1)]: '' })).toBeUndefined()
    expect(s.jsonFault({ [HUGE.slice(1)]: 'x' })?.why).toMatch(/characters/)
    expect(s.jsonFault([HUGE])?.why).toMatch(/characters/)
  })

  it.each([
    ['a function', () => 0, /function/],
    ['a symbol', Symbol.iterator, /symbol/],
    ['a bigint', 1n, /bigint/],
    ['NaN', Number.NaN, /is NaN, a number/],
    ['bytes', new Uint8Array(1), /Uint8Array/],
    ['a date', new Date(0), /Date/],
    ['a lone surrogate', '\ud800', /surrogate/],
    ['a key with one', { '\udfff': 1 }, /surrogate/],
    ['an object of no class', Object.create(Object.create(null)), /object/],
  ])('refuse %s, also deep inside, and name the field', (_, value, why) => {
    expect(s.jsonFault(value)).toEqual({ path: [], why: expect.stringMatching(why) })
    expect(s.jsonFault({ list: [1, { value }] })).toEqual({ path: ['list', 1, 'value'], why: expect.stringMatching(why) })
    expect(b.jsonRecord.safeParse({ a: { value } }).error?.issues).toMatchObject([{ path: ['a', 'value'] }])
  })

  const circular: Record<string, unknown> = { a: {} }
  circular.a = { b: circular }
  const wide = { list: Array.from({ length: 400 }, () => ({})) as unknown[] }
  for (const one of wide.list) Object.assign(one as object, { wide })
  const throws = () => {
    throw new Error('boom')
  }
  const hidden = { deep: Object.defineProperty({}, 'secret', { enumerable: true, get: throws }) }
  const revoked = Proxy.revocable({}, {})
  revoked.revoke()

  it.each<[string, unknown, PropertyKey[], RegExp]>([
    ['a name that becomes a prototype', JSON.parse('{"meta":{"__proto__":{"a":1}}}'), ['meta', '__proto__'], /not allowed/],
    ['a hole in a list', { list: Object.assign([1], { 2: 3 }) }, ['list', 1], /hole/],
    ['a circle', circular, ['a', 'b'], /circular/],
    ['a wide circle', wide, ['list', '0', 'wide'], /circular/],
    ['a getter that throws', hidden, ['deep', 'secret'], /getter or Proxy throws: boom/],
    ['a Proxy that throws', { proxy: new Proxy({ a: 1 }, { get: throws }) }, ['proxy', 'a'], /boom/],
    ['a Proxy without keys', { proxy: new Proxy({}, { ownKeys: throws }) }, ['proxy'], /boom/],
    ['a revoked Proxy', { proxy: revoked.proxy }, ['proxy'], /cannot be read/],
  ])('refuse %s', (_, value, path, why) => {
    expect(s.jsonFault(value)).toEqual({ path, why: expect.stringMatching(why) })
  })

  it('name what is circular or cannot be read in a value of any shape', () => {
    expect(s.oddField(hidden)).toEqual({ path: ['deep', 'secret'], why: expect.stringContaining('boom') })
    expect(s.oddField([new Date(0), { circular }])).toEqual({ path: ['1', 'circular', 'a', 'b'], why: expect.stringContaining('circular') })
    const twice = { at: 1 }
    expect(s.oddField({ a: twice, b: [twice, () => 1, 1n] })).toBeUndefined()
  })

  it('take what JSON can say', () => {
    const value = { a: [1, 'two', true, null, undefined, { b: -0.5 }], c: Object.create(null) }
    expect(s.jsonFault(value)).toBeUndefined()
    expect(b.jsonRecord.parse({ a: 1 })).toEqual({ a: 1 })
  })

  it('refuse a record with too many keys before they are looked at', () => {
    const schema = b.record(b.text(10), b.count, 2)
    expect(schema.parse({ a: 1, b: 2 })).toEqual({ a: 1, b: 2 })
    const issues = schema.safeParse({ a: 'x', b: 'y', c: 'z' }).error?.issues
    expect(issues).toEqual([expect.objectContaining({ message: 'has more than 2 keys' })])
    expect(b.jsonRecord.safeParse(keyed(s.LIMITS.keys)).success).toBe(true)
    expect(b.jsonRecord.safeParse(keyed(s.LIMITS.keys + 1)).success).toBe(false)
  })
})

describe('strings', () => {
  it('end at their limit and say so', () => {
    expect(b.text(3).safeParse('abc').success).toBe(true)
    expect(b.text(3).safeParse('abcd').error?.issues[0]).toMatchObject({ code: 'too_big', maximum: 3 })
    expect(b.filled(3).safeParse('').error?.issues[0]).toMatchObject({ code: 'too_small', minimum: 1 })
    expect(b.text(3).safeParse('').success).toBe(true)
  })

  it('are well formed', () => {
    expect(b.text(3).safeParse('\ud83d\ude00').success).toBe(true)
    expect(b.text(3).safeParse('\ud83d').error?.issues[0]?.message).toMatch(/lone surrogate/)
  })
})
