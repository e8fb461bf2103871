import { Ajv2020 } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { z } from 'zod'
import * as e from '../../test/support/builders/examples.js'
import { canonicalJson } from './base/canonical-json.js'
import * as s from './index.js'
import { jsonSchemas } from './json-schemas.js'

interface Case {
  /** File in schemas/json. */
  name: string
  schema: z.ZodType
  full: object
  minimal?: object
}

const CASES: Case[] = [
  { name: 'pass-over-request', schema: s.passOverRequest, full: e.request, minimal: e.minimalRequest },
  { name: 'request-control', schema: s.requestControl, full: e.control, minimal: e.minimalControl },
  { name: 'work-context', schema: s.workContext, full: e.context, minimal: e.minimalContext },
  { name: 'session-message', schema: s.sessionMessage, full: e.context.messages[0] as object },
  { name: 'work-output', schema: s.workOutput, full: e.output, minimal: e.minimalOutput },
  { name: 'handler-result', schema: s.handlerResult, full: e.handlerResult },
  ...e.artifacts.map((full) => ({ name: `${full.type.replace('_', '-')}-artifact`, schema: s.workArtifact, full })),
  { name: 'pass-over-metadata', schema: s.passOverMetadata, full: e.metadata, minimal: e.minimalOutput.metadata },
  { name: 'pass-over-marker', schema: s.passOverMarker, full: e.marker },
  { name: 'pass-over-return-marker', schema: s.passOverReturnMarker, full: e.returnMarker },
  { name: 'return-to-context', schema: s.returnToContext, full: e.returnContext },
  { name: 'pass-over-audit-entry', schema: s.passOverAuditEntry, full: e.auditEntry },
  { name: 'agent-pair-override', schema: s.agentPairOverride, full: e.override, minimal: {} },
  { name: 'effective-policy', schema: s.effectivePolicy, full: e.policy },
  { name: 'agent-record', schema: s.agentRecord, full: e.agent },
  { name: 'pass-record', schema: s.passRecord, full: e.record, minimal: e.minimalRecord },
]

type Path = (string | number)[]
interface Leaf {
  path: Path
  value: unknown
}

/** Members of values of unknown shape, where anything goes. */
const FREE = new Set(['input', 'tool_input', 'permissions', 'policy_overrides', 'output_schema', 'details'])

/** Every field of a value, however deep, with the path to it. */
function fields(value: unknown, path: Path = []): Leaf[] {
  const here = path.length > 0 ? [{ path, value }] : []
  const key = path.at(-1)
  const free = typeof key === 'string' && (FREE.has(key) || (key === 'metadata' && path.at(-3) === 'parts'))
  if (typeof value !== 'object' || value === null || free) return here
  const members: [string | number, unknown][] = Array.isArray(value) ? [...value.entries()] : Object.entries(value)
  return [...here, ...members.flatMap(([key, member]) => fields(member, [...path, key]))]
}

function replaced(value: unknown, [key, ...rest]: Path, by: unknown): unknown {
  if (key === undefined) return by
  const copy = (Array.isArray(value) ? [...value] : { ...(value as object) }) as Record<string | number, unknown>
  copy[key] = replaced(copy[key], rest, by)
  return copy
}

/** A value of another kind than the one that belongs there. No field accepts two kinds that are paired here. */
function wrongFor({ value }: Leaf): unknown {
  if (typeof value === 'string') return 7
  if (typeof value === 'number') return '7'
  if (typeof value === 'boolean') return 'yes'
  if (value === null) return 7
  return Array.isArray(value) ? {} : []
}

const ajv = new Ajv2020({ strict: false })
for (const text of jsonSchemas().values()) ajv.addSchema(JSON.parse(text))
const byJsonSchema = (name: string, value: unknown) => ajv.validate(`${name}.json`, value)

describe.each(CASES)('$name', ({ name, schema, full }) => {
  it('keeps a full example as it is, also by its JSON Schema', () => {
    expect(schema.parse(structuredClone(full))).toEqual(full)
    expect(byJsonSchema(name, full), ajv.errorsText()).toBe(true)
  })

  it.each(fields(full).map((leaf) => ({ at: leaf.path.join('.'), leaf })))('refuses a wrong $at', ({ leaf }) => {
    const wrong = replaced(full, leaf.path, wrongFor(leaf))
    const result = schema.safeParse(wrong)
    expect(result.success).toBe(false)
    expect(byJsonSchema(name, wrong)).toBe(false)
  })

  it('refuses what is no object at all', () => {
    for (const value of [undefined, null, 7, true, [], Symbol.iterator, () => 0]) expect(schema.safeParse(value).success).toBe(false)
  })

  it('has every field in its full example', () => {
    const known = 'shape' in schema ? Object.keys(schema.shape as object) : []
    expect(known.filter((key) => key !== 'agent_id' && !(key in full))).toEqual([])
  })

  it('whatever stands in a field, parsing never throws, and what it accepts parses as itself and has a canonical form', () => {
    const paths = fields(full).map(({ path }) => path)
    const value = fc.oneof(fc.jsonValue(), fc.constantFrom(undefined, Number.NaN, -1, 1e300, '', '\ud800', 'x'.repeat(300), {}, []))
    fc.assert(
      fc.property(fc.constantFrom(...paths), value, (path, by) => {
        const result = schema.safeParse(replaced(full, path, by))
        if (!result.success) return
        expect(schema.parse(result.data)).toEqual(result.data)
        canonicalJson(result.data)
      }),
      { numRuns: 200 },
    )
  })
})

describe.each(CASES.filter(({ minimal }) => minimal))('$name with only what is required', ({ name, schema, minimal }) => {
  it('is kept as it is', () => {
    expect(schema.parse(structuredClone(minimal))).toEqual(minimal)
    expect(byJsonSchema(name, minimal), ajv.errorsText()).toBe(true)
  })

  it('misses each of it', () => {
    for (const key of Object.keys(minimal ?? {})) {
      const { [key as never]: _, ...rest } = minimal as object
      expect(schema.safeParse(rest).success, key).toBe(false)
      expect(byJsonSchema(name, rest), key).toBe(false)
    }
  })
})

it('the sample configuration file is valid by its JSON Schema, and a misspelt key is not', () => {
  const sample = JSON.parse(e.configSample)
  expect(byJsonSchema('pass-over-preferences', sample), ajv.errorsText()).toBe(true)
  expect(byJsonSchema('pass-over-preferences', { ...sample, defaults: { auto_retrun: true } })).toBe(false)
})

const OPEN = CASES.filter(({ name }) => !['agent-pair-override', 'effective-policy'].includes(name))

describe.each(OPEN)('$name, an open record,', ({ schema, full }) => {
  it('keeps fields that it does not know, and refuses one that would become a prototype', () => {
    const more = { ...full, vendor_note: { deep: [1, 'two', null] } }
    expect(schema.parse(more)).toEqual(more)
    const polluted: unknown = JSON.parse(`{"__proto__":{"polluted":true},${JSON.stringify(full).slice(1)}`)
    const { error } = schema.safeParse(polluted)
    expect(error && s.issueTexts(error.issues, 1)).toEqual(['__proto__: this name is not allowed'])
  })

  it('refuses unknown fields without measure', () => {
    let deep: unknown = 'bottom'
    for (let i = 0; i < 100_000; i++) deep = [deep]
    const cyclic: Record<string, unknown> = { ...full }
    cyclic.vendor_note = cyclic
    const many = Object.fromEntries(Array.from({ length: s.LIMITS.keys }, (_, i) => [`k${i}`, i]))
    for (const more of [{ ...full, deep }, cyclic, { ...full, ...many }, { ...full, note: '\ud800' }, { ...full, note: 10n }]) {
      expect(schema.safeParse(more).success).toBe(false)
    }
  })
})

describe('what may be said in two forms', () => {
  it('agent_id of a message is its agent_name', () => {
    const { agent_name, ...message } = e.context.messages[0]!
    const parsed = s.sessionMessage.parse({ ...message, agent_id: agent_name })
    expect(parsed).toEqual(e.context.messages[0])
    expect(s.messageAgent(parsed)).toBe('alice')
    expect(s.messageAgent({ agent_id: 'scout' })).toBe('scout')
    expect(s.sessionMessage.safeParse({ ...message, agent_name, agent_id: agent_name }).data).toEqual(e.context.messages[0])
    expect(s.sessionMessage.safeParse({ ...message, agent_name, agent_id: 'scout' }).error?.issues[0]?.path).toEqual(['agent_id'])
  })

  it('nested statistics are flattened', () => {
    const { files_modified, issues_found, time_elapsed_ms, files_reviewed: _, ...rest } = e.output.summary
    const nested = { ...rest, statistics: { files_modified, issues_found, time_elapsed_ms } }
    expect(s.workOutput.parse({ ...e.output, summary: nested }).summary).toEqual({ ...e.output.summary, files_reviewed: 0 })
    expect(s.workSummary.parse({ ...nested, issues_found: 9 }).issues_found).toBe(9)
    expect(s.workSummary.safeParse({ ...nested, statistics: [] }).success).toBe(false)
    expect(s.handlerResult.parse({ summary: nested })).toHaveProperty('summary.files_modified', 1)
  })

  it('markers stand among the parts of a message, and say their type when none is given', () => {
    const { type: _, ...plain } = e.marker
    expect(s.passOverMarker.parse(plain)).toEqual(e.marker)
    const { type: __, ...back } = e.returnMarker
    expect(s.passOverReturnMarker.parse(back)).toEqual(e.returnMarker)
    const message = { ...e.context.messages[0]!, parts: [e.marker, e.returnMarker, { id: 'p', type: 'text', text: 'hello' }] }
    expect(s.sessionMessage.parse(message)).toEqual(message)
    expect(s.sessionMessage.safeParse({ ...message, parts: [{ type: 'pass_over' }] }).success).toBe(false)
    expect(s.sessionMessage.safeParse({ ...message, parts: [{ id: 'p', type: 'image' }] }).success).toBe(false)
  })

  it('a model is a name, or provider and name', () => {
    expect(s.workContext.parse({ ...e.minimalContext, model: 'small' }).model).toBe('small')
    expect(s.workContext.safeParse({ ...e.minimalContext, model: { provider_id: 'local' } }).success).toBe(false)
  })
})

describe('rules within a structure', () => {
  it('the paths of files are unique', () => {
    const twice = { ...e.minimalContext, files: [{ path: 'a' }, { path: 'b' }, { path: 'a' }] }
    expect(s.workContext.safeParse(twice).error?.issues[0]?.path).toEqual(['files'])
    expect(s.workContext.safeParse({ ...e.minimalContext, files: [{ path: 'a' }, { path: './a' }] }).success).toBe(true)
  })

  it.each(['', 'a\0b', 'x'.repeat(1_025), '\udc00'])('%j is no path', (path) => {
    expect(s.contextFile.safeParse({ path }).success).toBe(false)
  })

  it('a handler says something: text, or a field that counts', () => {
    for (const given of ['', 'looks good', { status: 'completed' }, { output: '' }, { summary: 'fine' }, { artifacts: [] }]) {
      expect(s.handlerResult.safeParse(given).success).toBe(true)
    }
    for (const given of [{}, { note: 1 }, { status: undefined }, { status: 'done' }, null, []]) {
      expect(s.handlerResult.safeParse(given).success).toBe(false)
    }
  })

  it('a whole WorkOutput is also a handler result', () => {
    expect(s.handlerResult.parse(e.output)).toEqual(e.output)
  })

  it.each(['reason', 'user_id', 'trace_id'])('an empty %s is refused', (field) => {
    expect(s.requestControl.safeParse({ ...e.control, [field]: '' }).success).toBe(false)
  })

  it.each([0, -1, 1.5, 86_400_001, Number.NaN, Number.POSITIVE_INFINITY])('timeout_ms %s is refused', (timeout_ms) => {
    expect(s.requestControl.safeParse({ ...e.control, timeout_ms }).success).toBe(false)
  })

  it('an override names only what a request may override', () => {
    for (const field of ['enabled', 'max_chain_depth', 'approvers', 'from', 'auto_retrun']) {
      const issue = s.requestControl.safeParse({ ...e.control, override: { [field]: true } }).error?.issues[0]
      expect(issue).toMatchObject({ code: 'unrecognized_keys', keys: [field] })
    }
  })
})
