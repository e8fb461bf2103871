import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import * as e from '../../../test/support/builders/examples.js'
import * as b from '../base/bounded-types.js'
import * as s from '../index.js'
import { message } from './message.js'

const HASH = 'a'.repeat(64)
const many = (n: number, value: unknown) => Array.from({ length: n }, () => structuredClone(value))
const PART = { id: 'p', type: 'text' }
const sent = (parts: unknown[]) => ({ ...e.minimalRequest.work_context.messages[0], id: 'm', role: 'user', timestamp: 1, parts })
const request = (messages: unknown[]) => ({ ...e.minimalRequest, work_context: { ...e.minimalContext, messages } })
const envelope = (parts: unknown[]) => ({ v: 1, request: e.control, parts })
const output = (artifacts: unknown[]) => ({ ...e.minimalOutput, artifacts })

/** Each of at most 1 MB in msgpack. */
const HOSTILE: [string, z.ZodType, unknown][] = [
  ['messages with parts that are empty', s.passOverRequest, request(many(9_999, { parts: many(90, {}) }))],
  ['messages with parts that are empty, fewer', s.passOverRequest, request(many(499, { parts: many(90, {}) }))],
  ['as many parts as are small', s.passOverRequest, request(many(62, sent(many(1_000, PART))))],
  ['one bad message behind as many parts as may be', s.passOverRequest, request([...many(19, sent(many(990, PART))), 0])],
  [
    'unknown keys',
    s.passOverRequest,
    request([...many(58, { ...sent([]), ...Object.fromEntries(many(990, 0).map((x, i) => [`k${i}`, x])) }), 0]),
  ],
  ['wire parts that are empty', s.requestEnvelope, envelope(many(10_000, {}))],
  ['artifacts that are empty', s.workOutput, output(many(10_000, {}))],
  ['artifacts of no kind', s.workOutput, output(many(10_000, { type: 'x' }))],
  ['findings that are none', s.workOutput, { ...e.minimalOutput, summary: { ...e.minimalOutput.summary, findings: many(10_000, 0) } }],
  ['the parts of a return', s.returnEnvelope, { v: 1, output: {}, parts: many(10_000, {}) }],
]

describe('a hostile message', () => {
  it.each(HOSTILE)('is refused soon, and in few words: %s', (_, schema, value) => {
    const { user } = process.cpuUsage()
    const issues = schema.safeParse(value).error?.issues ?? []
    // Processor time of this process, of which its collector may take most; without the bounds it is many seconds.
    expect(process.cpuUsage().user - user).toBeLessThan(2_000_000)
    expect(issues.length).toBeGreaterThan(0)
    expect(issues.length).toBeLessThan(100)
  })

  it('is refused for its size before anything in it is looked at', () => {
    let looked = 0
    const schema = message(
      z.object({
        list: b.list(
          z.unknown().refine(() => ++looked),
          1_000_000,
        ),
      }),
    )
    const issues = schema.safeParse({ list: new Array(s.LIMITS.values).fill(0) }).error?.issues
    expect(issues).toEqual([expect.objectContaining({ code: 'too_big', message: `has more than ${s.LIMITS.values} values`, path: [] })])
    expect(looked).toBe(0)
    expect(schema.safeParse({ list: new Array(s.LIMITS.values - 3).fill(0) }).success).toBe(true)
  })

  it('has its values counted through and through, bytes as one', () => {
    const schema = message(z.unknown())
    const nested = (n: number) => ({ a: [{ b: new Array(n - 5).fill(null), c: new Uint8Array(1_000_000) }] })
    expect(schema.safeParse(nested(s.LIMITS.values)).success).toBe(true)
    expect(schema.safeParse(nested(s.LIMITS.values + 1)).success).toBe(false)
    expect(schema.safeParse(Object.fromEntries(new Array(s.LIMITS.values).fill(0).map((x, i) => [i, x]))).success).toBe(false)
  })
})

describe('an honest message', () => {
  it.each<[string, z.ZodType, unknown]>([
    ['ten thousand parts', s.passOverRequest, request(many(10, sent(many(1_000, { ...PART, text: 'hello', timestamp: 1 }))))],
    [
      'ten thousand files',
      s.requestEnvelope,
      envelope(many(10_000, 0).map((_, i) => ({ name: `file:${i}`, hash: HASH, size: 1, owner: 'alice' }))),
    ],
    [
      'ten thousand artifacts',
      s.workOutput,
      output(many(10_000, { type: 'message', role: 'internal', content: '', visibility: 'user_visible' })),
    ],
  ])('of %s is read soon', (_, schema, value) => {
    schema.safeParse(value)
    const { user } = process.cpuUsage()
    expect(schema.safeParse(value).success).toBe(true)
    expect(process.cpuUsage().user - user).toBeLessThan(300_000)
  })
})

describe('the compiled code', () => {
  const CASES: [string, z.ZodType, object][] = [
    ['request', s.passOverRequest, e.request],
    ['context', s.workContext, e.request.work_context],
    ['control frame', s.requestControl, { ...e.request, work_context: undefined }],
    ['output', s.workOutput, e.output],
    ['envelope', s.requestEnvelope, envelope([{ name: 'context', hash: HASH, size: 1, data: new Uint8Array(1) }])],
    ['return', s.returnEnvelope, { v: 1, output: e.output }],
    ['refusal', s.returnEnvelope, { v: 1, error: { code: 'E011', message: 'm' } }],
  ]

  /** The same schema made anew is not compiled. */
  const interpreted = (schema: z.ZodType) => schema.meta({})

  it.each(CASES)('says the same of a %s as zod itself, whatever stands in one place of it', (_, schema, full) => {
    const plain = interpreted(schema)
    expect(plain._zod.run).not.toBe(schema._zod.run)
    const places = paths(full)
    // What is rare is not compiled.
    for (let i = 0; i <= 100; i++) schema.safeParse(full)
    fc.assert(
      fc.property(
        fc.constantFrom(...places),
        fc.oneof(fc.jsonValue(), fc.constantFrom(undefined, 'DELETE', '\ud800', -1, 'x'.repeat(5_000))),
        (path, by) => {
          const value = replaced(full, path, by)
          const ours = schema.safeParse(value)
          const theirs = plain.safeParse(value)
          expect(ours.success).toBe(theirs.success)
          expect(ours.data).toEqual(theirs.data)
          expect(ours.error?.issues).toEqual(theirs.error?.issues)
        },
      ),
      { numRuns: 300 },
    )
  })

  it('still counts the keys of an object', () => {
    const keys = (n: number) => Object.fromEntries(new Array(n).fill(0).map((x, i) => [`k${i}`, x]))
    const { length } = Object.keys(e.minimalOutput)
    expect(s.workOutput.safeParse({ ...e.minimalOutput, ...keys(s.LIMITS.keys - length) }).success).toBe(true)
    expect(s.workOutput.safeParse({ ...e.minimalOutput, ...keys(s.LIMITS.keys - length + 1) }).success).toBe(false)
  })
})

describe('a list', () => {
  it('says where its first faults are, and no more than twenty', () => {
    const issues = b.list(z.number(), 100).safeParse(['a', 1, ...new Array(50).fill('b')]).error?.issues ?? []
    expect(issues).toHaveLength(20)
    expect(issues.slice(0, 2).map(({ path }) => path)).toEqual([[0], [2]])
  })

  it('keeps its rule, its transforms and its limit', () => {
    const list = b.list(z.string().trim(), 2, { holds: (all) => all[0] !== 'x', message: 'no x' })
    expect(list.parse([' a '])).toEqual(['a'])
    expect(list.safeParse([' x ']).error?.issues[0]?.message).toBe('no x')
    expect(list.safeParse(['a', 'b', 'c']).error?.issues[0]?.code).toBe('too_big')
    expect(list.safeParse('x').success).toBe(false)
  })
})

type Path = (string | number)[]

function paths(value: unknown, path: Path = []): Path[] {
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return [path]
  const members: [string | number, unknown][] = Array.isArray(value) ? [...value.entries()] : Object.entries(value)
  return [...(path.length > 0 ? [path] : []), [...path, 'unknown'], ...members.flatMap(([key, member]) => paths(member, [...path, key]))]
}

function replaced(value: unknown, [key, ...rest]: Path, by: unknown): unknown {
  if (key === undefined) return by
  const copy = (Array.isArray(value) ? [...value] : { ...(value as object) }) as Record<string | number, unknown>
  const now = replaced(copy[key], rest, by)
  if (now === 'DELETE') delete copy[key]
  else copy[key] = now
  return copy
}
