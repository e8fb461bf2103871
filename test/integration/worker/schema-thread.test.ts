import { type OutputSchemas, outputSchemas } from '@passover/validation'
import { afterEach, describe, expect, it } from 'vitest'

const SCORE = { type: 'object', required: ['score'], properties: { score: { type: 'number' } } }
/** Takes longer than anybody waits. */
const BACKTRACKS = { type: 'string', pattern: '^(a+)+$' }
const LONG = `${'a'.repeat(40)}!`

let schemas: OutputSchemas | undefined
afterEach(async () => {
  await schemas?.[Symbol.asyncDispose]()
  schemas = undefined
})

const open = (options: Parameters<typeof outputSchemas>[0] = {}): OutputSchemas => {
  schemas = outputSchemas(options)
  return schemas
}

/** Threads of this process. */
const threads = () => process.getActiveResourcesInfo().filter((name) => name === 'MessagePort' || name === 'Worker').length

describe('output schemas in their thread', () => {
  it('answers each question by its own faults', async () => {
    const checking = open()
    const asked = Array.from({ length: 20 }, (_, n) => checking.check(n % 2 ? SCORE : { type: 'array' }, { score: n }))
    expect(await Promise.all(asked)).toEqual(Array.from({ length: 20 }, (_, n) => (n % 2 ? [] : ['/: must be array'])))
    expect(await checking.compile(SCORE)).toEqual([])
    expect((await checking.compile({ type: 'nonsense' }))[0]).toContain('does not compile')
  })

  it('kills a check that takes too long, says so, and goes on with the next', async () => {
    const checking = open({ timeout_ms: 300 })
    expect(await checking.check(SCORE, { score: 1 })).toEqual([])
    let turns = 0
    const turning = setInterval(() => turns++, 10)
    const began = performance.now()
    const [late, next] = await Promise.all([checking.check(BACKTRACKS, LONG), checking.check(SCORE, {})])
    clearInterval(turning)
    expect(late).toEqual(['the schema took longer than 300 ms'])
    expect(next).toEqual(["/: must have required property 'score'"])
    // The caller's own turns went on meanwhile.
    expect(turns).toBeGreaterThan(2)
    expect(performance.now() - began).toBeLessThan(60_000)
  })

  it('survives schemas that want the end of the process', async () => {
    const checking = open({ timeout_ms: 3_000, memory_mb: 64 })
    const deep: Record<string, unknown> = {}
    let at = deep
    for (let depth = 0; depth < 3_000; depth++) at = at.not = {}
    expect(await checking.check(deep, 1)).not.toEqual([])
    expect(await checking.check({ $defs: { a: { $ref: '#/$defs/a' } }, $ref: '#/$defs/a' }, 1)).not.toEqual([])
    const nested: unknown[] = []
    let inner = nested
    for (let depth = 0; depth < 5_000; depth++) {
      const next: unknown[] = []
      inner.push(next)
      inner = next
    }
    const tree = { $defs: { t: { type: 'array', items: { $ref: '#/$defs/t' } } }, $ref: '#/$defs/t' }
    expect(Array.isArray(await checking.check(tree, nested))).toBe(true)
    const wide = { anyOf: Array.from({ length: 20_000 }, (_, n) => ({ type: 'object', required: [`f${n}`] })) }
    expect(await checking.check(wide, {})).not.toEqual([])
    expect(await checking.check({ description: 'x'.repeat(2_000_000) }, 1)).toEqual(['the schema is larger than 1048576 characters'])
    expect(await checking.check(SCORE, { score: 1 })).toEqual([])
  })

  it('takes no more memory than it may', async () => {
    const checking = open({ timeout_ms: 20_000, memory_mb: 32 })
    const items = { items: { allOf: Array.from({ length: 50 }, () => ({ type: 'string' })) } }
    const faults = await checking.check(
      items,
      Array.from({ length: 60_000 }, () => 1),
    )
    expect(faults[0]).toContain('the schema needs more than 32 MB')
    expect(await checking.check(SCORE, { score: 1 })).toEqual([])
  })

  it('says of what is no JSON that it is none', async () => {
    const checking = open()
    const round: Record<string, unknown> = {}
    round.self = round
    expect(await checking.check(SCORE, round)).toEqual(['/: the output is not JSON'])
    expect(await checking.check(round, 1)).toEqual(['the schema is not JSON'])
  })

  it('leaves no thread, and answers what it was asked until then', async () => {
    const before = threads()
    const checking = open({ timeout_ms: 60_000 })
    expect(threads()).toBe(before)
    await checking.check(SCORE, {})
    const open_ended = [checking.check(BACKTRACKS, LONG), checking.check(SCORE, {})]
    await checking[Symbol.asyncDispose]()
    expect((await Promise.all(open_ended)).every((faults) => faults.length > 0)).toBe(true)
    expect((await checking.check(SCORE, { score: 1 }))[0]).toContain('is shutting down')
    expect(threads()).toBe(before)
  })
})
