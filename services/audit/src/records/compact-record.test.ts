import { decode, encode } from '@passover/bus'
import { type PassRecord, passRecord } from '@passover/schemas'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { control, KEY, type Message, message, output, RULES, remember, returnOf, subjects, T0, workOf } from '../../testing/samples.js'
import { rowOf, buildRecord as told } from './build-record.js'
import { compactRecordOf, expandCompactRecord, storedRecord } from './compact-record.js'

const PLAIN = { base: 1 }
const maybe = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined })
/** The odd ones are tried, but do not stand in the way of the others. */
const mostly = <T>(usual: fc.Arbitrary<T>, odd: fc.Arbitrary<T>) =>
  fc.oneof({ weight: 15, arbitrary: usual }, { weight: 1, arbitrary: odd })
const text = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 40 })

/** Frames as the dispatcher packs them, and as they were when they said everything. */
const frames = fc.oneof(
  fc.record({
    reason: maybe(text),
    session_id: maybe(text),
    retry_of: maybe(fc.constant('given-id-9')),
    user_id: maybe(text),
    policy_name: maybe(fc.constant('defaults')),
    context_bytes: maybe(fc.nat()),
    override: maybe(fc.constant({ timeout_ms: 5 })),
    ancestors: maybe(fc.constant(['bob', 'alice'])),
    policy: mostly<object>(
      fc.constantFrom(PLAIN, { base: 1, auto_return: true }),
      fc.constantFrom({ base: 1, output_schema: { type: 'object' } }, { base: 7 }),
    ),
  }),
  fc.constant(control()),
)
const time = fc.oneof(
  fc.nat().map((n) => T0 + n),
  fc.constantFrom<unknown>(-1, 'soon', Number.MAX_VALUE),
)
const metadata = fc.record({
  created_at: time,
  started_at: time,
  completed_at: time,
  policy_name: maybe(mostly<unknown>(text, fc.constant(7))),
})
const briefs = fc.record({
  output: maybe(mostly<unknown>(text, fc.constant(7))),
  status: mostly(fc.constant(undefined), fc.constantFrom<string | undefined>('failed', 'partial', 'odd')),
  completion_reason: maybe(text),
  summary: mostly<object | undefined>(
    fc.constant(undefined),
    fc.constantFrom({ decision: 'blocked' }, { generated_summary: 'two things' }, { findings: ['one'] }),
  ),
  artifacts: mostly<object[] | undefined>(
    fc.constant(undefined),
    fc.constantFrom<object[]>(
      [{ type: 'finding', severity: 'error', category: 'c', message: 'm' }],
      [{ type: 'file_modification', path: 'a', old_content: 'a', new_content: 'b', reason: 'r', confidence: 'high' }],
      [{ type: 'tool_result', tool_name: 't', status: 'success', content: 'c' }],
    ),
  ),
  metadata,
})
const bodies = fc.oneof(
  briefs.map((brief) => ({ v: 1, brief })),
  briefs.map((brief) => ({ brief })),
  fc.constant({ v: 1, output: output() }),
)
const headers = fc.record({
  'Passover-Parent': maybe(fc.constant('bob/alice/given-id-0')),
  'Passover-Timeout': maybe(fc.constant('45000')),
  'Passover-Requested-At': mostly<string | undefined>(fc.constant(String(T0)), fc.constantFrom('x', undefined)),
  'Passover-Reply': mostly<string | undefined>(fc.constant(undefined), fc.constant('json')),
})

const body = (more: object) => ({ v: 1, brief: { metadata: { created_at: T0, started_at: T0, completed_at: T0 }, ...more } })

function only<T extends object>(given: T): Record<string, string> {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as Record<string, string>
}

describe('a brief', () => {
  it('opens to the record, byte by byte, and has its row', () => {
    let some = 0
    fc.assert(
      fc.property(frames, bodies, headers, (frame, body, more) => {
        const memory = remember([workOf(2, { control: frame, headers: only(more) }), returnOf(3, { body })])
        const made = compactRecordOf(memory)
        if (!made) return
        some++
        const { record } = told(memory, RULES)
        const stored = decode(encode(made.stored))
        expect(stored.ok && storedRecord.parse(stored.value)).toEqual(passRecord.parse(record))
        expect(encode(expandCompactRecord(made.stored))).toEqual(encode(record))
        expect(made.row).toEqual(rowOf(record))
      }),
      { numRuns: 500 },
    )
    expect(some).toBeGreaterThan(50)
  }, 60_000)

  it('is what an ordinary pass gets, at less than half the size', () => {
    const control = { reason: 'review', session_id: 's', policy: PLAIN }
    const memory = remember([workOf(2, { control }), returnOf(3, { body: body({ output: 'done' }) })])
    const made = compactRecordOf(memory)
    expect(made).toBeDefined()
    expect(encode(made?.stored).length * 2).toBeLessThan(encode(told(memory, RULES).record).length)
  })

  it('is none of a pass of which more is to be told', () => {
    const work = workOf(2, { control: { policy: PLAIN } })
    const late = message(4, subjects.event(KEY, 'late', 'scout'), { body: { v: 1, attempt: 1 } })
    const cases: Message[][] = [
      [work],
      [work, returnOf(3, { body: body({ output: 'x' }) }), late],
      [work, returnOf(3, { body: body({ output: 'x'.repeat(1_100) }) })],
      [work, returnOf(3, { body: body({ status: 'odd' }) })],
      // Of a base that is not known: it would open as nothing.
      [work, returnOf(3, { body: { ...body({ output: 'x' }), base: 2 } })],
      [work, returnOf(3, { by: 'passover', headers: { 'Passover-Code': 'E010' }, body: { v: 1, error: { code: 'E010', message: 'm' } } })],
      [workOf(2, { control: { policy: { base: 1, output_schema: {} } } }), returnOf(3, { body: body({ output: 'x' }) })],
    ]
    for (const messages of cases) expect(compactRecordOf(remember(messages))).toBeUndefined()
    expect(compactRecordOf(remember([work, returnOf(3, { body: body({ output: 'x' }) })]))).toBeDefined()
  })

  it('whose bytes are mangled is no record', () => {
    const memory = remember([workOf(2, { control: { policy: PLAIN } }), returnOf(3, { body: body({}) })])
    const { stored } = compactRecordOf(memory) ?? {}
    expect(storedRecord.safeParse(stored).success).toBe(true)
    const none = new Uint8Array([0xc1])
    for (const bad of [{ frame: none }, { back: none }, { back: encode({ v: 1, error: {} }) }, { sequences: {} }, { key: {} }, { v: 3 }]) {
      expect(storedRecord.safeParse(Object.assign({}, stored, bad)).success).toBe(false)
    }
  })

  it('a record that is one reads as itself', () => {
    const { record } = told(remember([workOf(2)]), RULES)
    expect(storedRecord.parse(record) satisfies PassRecord).toEqual(record)
  })
})

describe("a worker's error", () => {
  it.each([{ code: { toString: 1, valueOf: 1 } }, { code: 5 }, { code: 'E043', message: 'not mine to say' }, {}])(
    'that it may not tell reads as E021, and the pass has its record: %j',
    (error) => {
      const { record } = told(remember([workOf(2), returnOf(3, { body: { v: 1, error } })]), RULES)
      expect(record).toMatchObject({ status: 'returned', error: { code: 'E021' } })
      expect(passRecord.safeParse(record).success).toBe(true)
    },
  )
})
