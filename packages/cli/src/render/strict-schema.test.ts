import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { shapeFault } from './json-schemas.js'
import { strictSchema } from './strict-schema.js'

describe('strictly', () => {
  const leaf = z.object({ a: z.string() })
  const shape = z.object({
    list: z.array(leaf.optional()),
    either: z.union([z.strictObject({ b: z.number() }), z.looseObject({ c: z.number() })]),
    named: z.record(z.string(), leaf.nullable()),
    open: z.looseObject({}),
    known: z.unknown().optional(),
    piped: z.preprocess((value) => value, leaf).optional(),
  })
  const sound = { list: [{ a: '' }], either: { c: 1 }, named: { x: { a: '' } }, open: { anything: 1 }, known: { anything: 1 } }

  it('takes what the schema names', () => {
    expect(strictSchema(shape).safeParse({ ...sound, piped: { a: '' } })).toMatchObject({ success: true })
  })

  it.each([
    { ...sound, extra: 1 },
    { ...sound, list: [{ a: '', extra: 1 }] },
    { ...sound, either: { c: 1, extra: 1 } },
    { ...sound, named: { x: { a: '', extra: 1 } } },
    { ...sound, piped: { a: '', extra: 1 } },
  ])('refuses a field that the schema does not name: %j', (document) => {
    expect(shape.safeParse(document).success || 'b' in document.either).toBe(true)
    expect(strictSchema(shape).safeParse(document).success).toBe(false)
  })

  it('keeps what a schema demands besides', () => {
    const paired = z.object({ a: z.number(), b: z.number() }).refine(({ a, b }) => a < b)
    expect(strictSchema(z.array(paired)).safeParse([{ a: 2, b: 1 }]).success).toBe(false)
  })
})

it('a field of a shared shape that the reference does not name is a fault', () => {
  const hold = { hold: 1, scope: { session: 's' }, reason: 'r', by: 'ann', time: 1 }
  expect(shapeFault(['audit', 'hold', 'list'], [hold])).toBeUndefined()
  expect(shapeFault(['audit', 'hold', 'list'], [{ ...hold, unnamed: 1 }])).toContain('unnamed')
})
