import { expect, it } from 'vitest'
import { verdictText } from './run.js'
import type { Verdict } from './verify-archive.js'

it('counts what it checked, one of a kind in the singular', () => {
  const none = {
    messages: 0,
    erased: 0,
    passes: 0,
    steps: 0,
    returns: 0,
    requests: 0,
    digests: 0,
    recomputed: 0,
    as_recorded: 0,
    policies: 0,
    decisions: 0,
  }
  const verdict = { ok: true, faults: 0, shown: [], remarks: 0, untrusted: 0, remarked: [], segments: 0 }
  const text = (counts: object) => verdictText({ ...verdict, counts: { ...none, ...counts } } as unknown as Verdict)
  expect(text({ passes: 1, messages: 1, steps: 1 })).toMatch(/1 {2}entry\n +1 {2}pass\n +1 {2}step checked/)
  expect(text({ passes: 2, messages: 5, requests: 2 })).toMatch(/5 {2}entries\n +2 {2}passes\n +2 {2}requests/)
})
