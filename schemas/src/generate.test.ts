import { describe, expect, it } from 'vitest'
import { drift, type Folder, generate } from './generate.js'
import { jsonSchemas } from './json-schemas.js'

function inMemory(files: Map<string, string>): Folder {
  return {
    names: () => [...files.keys()],
    read: (name) => files.get(name) ?? '',
    write: (name, text) => files.set(name, text),
    remove: (name) => files.delete(name),
  }
}

describe('generate', () => {
  it('writes what is missing, mends what differs, removes what belongs to no schema', () => {
    const files = new Map([
      ['work-output.json', '{}\n'],
      ['stale.json', '{}\n'],
    ])
    const { code, lines } = generate([], inMemory(files))
    expect(code).toBe(0)
    expect(lines).toContain('schemas/json/work-output.json differs from its zod schema')
    expect(lines).toContain('schemas/json/stale.json belongs to no schema')
    expect(lines).toContain('schemas/json/work-context.json is missing')
    expect([...files].sort()).toEqual([...jsonSchemas()].sort())
  })

  it('--check fails, names the file, and touches nothing', () => {
    const files = jsonSchemas()
    files.set('budget.json', '{}\n')
    const { code, lines } = generate(['--check'], inMemory(files))
    expect(code).toBe(1)
    expect(lines[0]).toBe('schemas/json/budget.json differs from its zod schema')
    expect(lines.at(-1)).toMatch(/npm run generate/)
    expect(files.get('budget.json')).toBe('{}\n')
  })

  it('is quiet when nothing differs', () => {
    expect(generate(['--check'], inMemory(jsonSchemas()))).toEqual({ code: 0, lines: [expect.stringMatching(/up to date/)] })
    expect(drift(inMemory(jsonSchemas()), jsonSchemas())).toEqual([])
  })
})

describe('the JSON Schemas', () => {
  it('are the same each time, sorted, and refer only to each other', () => {
    const files = jsonSchemas()
    expect([...jsonSchemas()]).toEqual([...files])
    expect([...files.keys()]).toEqual([...files.keys()].sort())
    for (const text of files.values()) {
      for (const [, target] of text.matchAll(/"\$ref": "([^"#]+)/g)) expect(files.has(target ?? '')).toBe(true)
    }
  })

  it('carry the limits', () => {
    const { properties } = JSON.parse(jsonSchemas().get('request-control.json') ?? '')
    expect(properties.reason).toEqual({ type: 'string', minLength: 1, maxLength: 4_096 })
    expect(properties.constraints.maxItems).toBe(100)
    expect(properties.timeout_ms.maximum).toBe(86_400_000)
  })

  it('refuse unknown keys on configuration, and keep them elsewhere', () => {
    expect(JSON.parse(jsonSchemas().get('agent-pair-preference.json') ?? '').additionalProperties).toBe(false)
    expect(JSON.parse(jsonSchemas().get('work-output.json') ?? '').additionalProperties).toEqual({})
  })
})
