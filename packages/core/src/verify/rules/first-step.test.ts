import type { PassError, Step } from '@passover/schemas'
import { expect, test } from 'vitest'
import { childRequest, PARENT_WORK, parent } from '../../../testing/admissions.js'
import { KEY, T0 } from '../../../testing/samples.js'
import { VersionHistory } from '../state/version-history.js'
import { type FirstStep, judgeBeginning } from './first-step.js'

const ASKED_AT = 1_000_000
const key = { originator: 'alice', subagent: 'audit', id: 'pass-000000001' }
const reading = { ok: true, value: { digest: 'd'.repeat(64), request: { id: key.id, timeout_ms: 30_000 } } }
const malformed = { ok: false, error: { code: 'E005', message: 'no request' } }

interface Told {
  error?: PassError
  header?: string
  id?: string
  at?: number
  other?: boolean
  read?: unknown
}

function judged({ error, header = error?.code, id = key.id, at = ASKED_AT, other = false, read = reading }: Told) {
  const asked = { fact: { sequence: 3, time: ASKED_AT, ...key }, recorded: { reading: () => read, digest: () => 'e'.repeat(64) }, other }
  const step = { type: 'step', kind: 'return', by: 'passover', key: { ...key, id }, sequence: 4, time: at, code: header } as Step
  const recorded = { body: () => ({ error }), header: () => undefined }
  const found = judgeBeginning({
    recorded,
    step,
    asked,
    versions: new VersionHistory(true),
    id_window_ms: 3_600_000,
  } as unknown as FirstStep)
  return found.kind === 'fault' ? found.objection.what : found.kind
}

const never: PassError = { code: 'E010', message: 'x', details: { admitted: false } }
const bad: PassError = { code: 'E005', message: 'x' }

test.each<[string, Told, string]>([
  ['nothing that is an error', {}, 'with a malformed error'],
  ['another code in its header', { error: bad, header: 'E001' }, 'has code E001 in its header, but E005 in its body'],
  ['a refusal of what is malformed', { error: { code: 'E004', message: 'x' }, read: malformed }, 'request 3 is malformed'],
  ['malformed, and said so', { error: bad, id: 'bad-3', read: malformed }, 'recomputed'],
  ['well-formed, and called malformed', { error: bad, id: 'bad-3' }, 'request 3 is well-formed'],
  ['asked for under an id that another request had', { error: bad, id: 'bad-3', other: true }, 'as recorded'],
  ['asked for under a used id', { error: { ...bad, details: { reason: 'id_used' } }, id: 'bad-3' }, 'as recorded'],
  ['never admitted, before its time', { error: never, at: ASKED_AT + 10_000 }, 'as never admitted 20000 ms before its deadline'],
  ['never admitted', { error: never, at: ASKED_AT + 30_000 }, 'as recorded'],
  ['a parent of that moment', { error: { code: 'E013', message: 'x', details: { parent: 'closed' } } }, 'as recorded'],
  ['an approval of that moment', { error: { code: 'E013', message: 'x', details: { approval: 'expired' } } }, 'as recorded'],
  ['a count of that moment', { error: { code: 'E014', message: 'x', details: { limit: 'rate' } } }, 'as recorded'],
])('a refusal as first step: %s', (_, told, what) => {
  expect(judged(told)).toContain(what)
})

test.each([
  ['is a loop', 'alice', 'recomputed'],
  ['is none', 'scout', 'was refused with E003, but policy version 0'],
])("a refusal as a loop that was stored after its parent's deadline, where the request %s", (_, subagent, what) => {
  const request = childRequest({ subagent_id: subagent })
  const child = { originator: 'audit', subagent, id: request.id }
  const fact = { type: 'request', sequence: 30, time: T0 + 29_990, originator: 'audit', subagent }
  const value = { request, parts: [], digest: 'd'.repeat(64), session_id: 's', reply_type: 'json' }
  const step = { type: 'step', kind: 'return', by: 'passover', key: child, sequence: 31, time: T0 + 30_020, code: 'E003' }
  const found = judgeBeginning({
    recorded: { body: () => ({ error: { code: 'E003', message: 'x', details: { loop: true } } }), header: () => undefined },
    step,
    asked: { fact, recorded: { reading: () => ({ ok: true, value }) }, other: false },
    parent: { key: KEY, journal: { state: 'open', work: PARENT_WORK }, control: parent().control, proofs: [PARENT_WORK.sequence] },
    versions: new VersionHistory(true),
    id_window_ms: 3_600_000,
  } as unknown as FirstStep)
  expect(found.kind === 'fault' ? found.objection.what : found.kind).toContain(what)
})
