import { describe, expect, it } from 'vitest'
import { compileSchema } from './compile.js'

const faults = (schema: unknown, value: unknown) => {
  const compiled = compileSchema(schema)
  return compiled.ok ? compiled.faultsOf(value) : [compiled.fault]
}

const SCORE = { type: 'object', required: ['score'], properties: { score: { type: 'number', maximum: 10 } } }

describe('compileSchema', () => {
  it('finds nothing in what fits, and names the place of what does not', () => {
    expect(faults(SCORE, { score: 3 })).toEqual([])
    expect(faults(SCORE, { score: 11 })).toEqual(['/score: must be <= 10'])
    expect(faults(SCORE, {})).toEqual(["/: must have required property 'score'"])
    expect(faults({ additionalProperties: false }, { odd: 1 })).toEqual(['/: must NOT have additional properties (odd)'])
  })

  it('knows drafts 2020-12 and 07, and formats', () => {
    expect(faults({ prefixItems: [{ type: 'string' }], items: false }, ['a', 1])).toHaveLength(1)
    const seven = { $schema: 'http://json-schema.org/draft-07/schema#', items: [{ type: 'string' }], additionalItems: false }
    expect(faults(seven, ['a', 1])).toHaveLength(1)
    expect(faults({ format: 'uuid' }, 'none')).toEqual(['/: must match format "uuid"'])
  })

  it('says of a schema that does not compile why', () => {
    expect(faults({ type: 'nonsense' }, 1)[0]).toMatch(/^the schema does not compile: schema is invalid: data\/type/)
    expect(faults({ pattern: '(' }, 'a')[0]).toMatch(/^the schema does not compile: .*regular expression/i)
    expect(faults(42, 1)[0]).toMatch(/^the schema does not compile/)
  })

  it('fetches nothing: a $ref out of the schema is a fault that names it', () => {
    expect(faults({ $ref: 'https://example.com/schema.json' }, 1)[0]).toContain('https://example.com/schema.json')
    expect(faults({ $schema: 'https://example.com/meta' }, 1)[0]).toContain('https://example.com/meta')
  })

  it('keeps schemas with one $id apart', () => {
    expect(faults({ $id: 'x', type: 'string' }, 'a')).toEqual([])
    expect(faults({ $id: 'x', type: 'number' }, 'a')).toEqual(['/: must be number'])
  })

  it('tells at most ten faults, none of them long', () => {
    const many = faults(
      { items: { enum: ['x'.repeat(10_000)] } },
      Array.from({ length: 50 }, () => 'y'.repeat(10_000)),
    )
    expect(many).toHaveLength(10)
    expect(Math.max(...many.map((fault) => fault.length))).toBeLessThan(600)
  })
})
