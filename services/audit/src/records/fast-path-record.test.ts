import { encode } from '@passover/bus'
import { auditRecord } from '@passover/core'
import { passRecord } from '@passover/schemas'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { control, KEY, type Message, message, output, RULES, remember, returnOf, subjects, T0, workOf } from '../../testing/samples.js'
import { buildRecord as told } from './build-record.js'
import { plainPass, plainRecord } from './fast-path-record.js'
import { buildPassHistory } from './pass-history.js'

const reference = (messages: Message[]) => auditRecord(buildPassHistory(remember(messages)), RULES)

function recordOf(messages: Message[]) {
  const pass = plainPass(remember(messages))
  return pass && plainRecord(pass)
}

const maybe = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined })
const text = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 40 })
const controls = fc.record({
  session_id: maybe(text),
  reason: text,
  priority: maybe(fc.constantFrom('high', 'medium', 'low')),
  parent: maybe(fc.constant({ originator: 'bob', subagent: 'alice', id: 'given-id-0' })),
  retry_of: maybe(fc.constant('given-id-9')),
  user_id: maybe(text),
  trace_id: maybe(text),
  requested_at: maybe(fc.constant(T0)),
  context_bytes: maybe(fc.nat()),
  expected_output_type: maybe(text),
  override: maybe(fc.constant({ timeout_ms: 5 })),
  policy: fc.record({
    auto_review: fc.boolean(),
    auto_return: fc.boolean(),
    approvers: maybe(fc.constant(['maria'])),
    require_user_approval: maybe(fc.boolean()),
  }),
  chain_depth: fc.integer({ min: 1, max: 5 }),
})
const finding = fc.record({ type: fc.constant('finding'), severity: fc.constantFrom('info', 'error'), category: text, message: text })
const change = fc.constant({ type: 'file_modification', path: 'a', old_content: 'a', new_content: 'b', reason: 'r', confidence: 'high' })
const outputs = fc.record({
  status: fc.constantFrom('completed', 'failed', 'aborted', 'partial'),
  artifacts: fc.array(fc.oneof(finding, change, fc.constant({ part: 'artifact:0' })), { maxLength: 3 }),
  completion_reason: maybe(text),
  output: maybe(text),
  return_to: fc.constantFrom('alice', 'alice', 'alice', 'mallory'),
  summary: fc.record({
    findings: fc.array(text, { maxLength: 3 }),
    decision: maybe(fc.constantFrom('approved', 'blocked')),
    generated_summary: maybe(text),
    files_modified: fc.nat(9),
    files_reviewed: fc.nat(9),
    issues_found: fc.nat(9),
    time_elapsed_ms: fc.nat(),
  }),
})

describe('plainRecord', () => {
  it('is what auditRecord says, byte by byte', () => {
    let plain = 0
    fc.assert(
      fc.property(controls, outputs, (asked, done) => {
        const messages = [workOf(2, { control: control(asked) }), returnOf(3, { body: { v: 1, output: output(done) } })]
        const record = recordOf(messages)
        if (!record) return
        plain++
        expect(encode(record)).toEqual(encode(reference(messages)))
      }),
    )
    expect(plain).toBeGreaterThan(20)
  })

  it('leaves everything else to auditRecord', () => {
    const work = workOf(2)
    const event = message(4, subjects.event(KEY, 'late', 'scout'), { body: { v: 1, attempt: 1 } })
    const others: Message[][] = [
      [work],
      [work, returnOf(3, { by: 'passover', headers: { 'Passover-Code': 'E010' }, body: { v: 1, error: { code: 'E010', message: 'm' } } })],
      [work, returnOf(3, { body: { v: 1, error: { code: 'E011', message: 'm' } } })],
      [work, returnOf(3, { body: { v: 1, output: output({ status: 'odd' }) } })],
      [work, returnOf(3), event],
      [work, returnOf(3, { headers: { 'Passover-Attempt': '2' } }), returnOf(4)],
    ]
    for (const messages of others) expect(recordOf(messages)).toBeUndefined()
    expect(recordOf([work, returnOf(3)])).toBeDefined()
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

it('the samples are plain passes', () => {
  expect(passRecord.parse(reference([workOf(2), returnOf(3)]))).toMatchObject({ sequences: { requests: [1], last: 3 } })
})
