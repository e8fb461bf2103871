import { type Bus, PartError, Subjects } from '@passover/bus'
import type { Part } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import type { FindingEntry } from './findings.js'
import { installationParts, type PartLookup, ReferencedParts } from './parts.js'

/** What is said of a step that names a part of this owner, where looking for it answers so. */
async function judged(kind: 'work' | 'return', owner: string, look: PartLookup) {
  const faults: FindingEntry[] = []
  const remarks: FindingEntry[] = []
  const parts = new ReferencedParts(async () => look, { fault: (entry) => faults.push(entry), remark: (entry) => remarks.push(entry) })
  const key = { originator: 'alice', subagent: 'audit', id: 'given-id-1' }
  const named: Part = { name: 'artifact:0', size: 9, hash: 'a'.repeat(64), owner } as Part
  parts.see({ fact: { type: 'step', kind, by: 'audit', sequence: 7, time: 1, key }, body: () => ({ parts: [named] }) } as never)
  await parts.settle()
  return { counts: parts.counts, faults, remarks }
}

describe('a part that nobody may read', () => {
  it('is counted where a request or its worker brought it, and may be of nobody else in a return', async () => {
    expect(await judged('return', 'audit', 'elsewhere')).toMatchObject({ counts: { elsewhere: 1 }, faults: [] })
    expect(await judged('work', 'alice', 'elsewhere')).toMatchObject({ counts: { elsewhere: 1 }, faults: [] })
    const what = 'refers to a part "artifact:0" of nobody that is not owned by audit, which returned it'
    for (const look of ['elsewhere', 'whole', 'gone'] as const)
      expect(await judged('return', 'nobody', look)).toMatchObject({
        counts: { elsewhere: 0, whole: 0, gone: 0 },
        faults: [{ sequence: 7, rule: 'parts', pass: 'alice/audit/given-id-1', what }],
      })
  })
})

it('a part of which nobody knows how long it had to be kept is gone, and no fault', async () => {
  const found = await judged('work', 'alice', { remark: 'is missing; who knows' })
  const what = 'refers to a part "artifact:0" of alice that is missing; who knows'
  expect(found).toEqual({
    counts: { whole: 0, gone: 1, elsewhere: 0 },
    faults: [],
    remarks: [{ sequence: 7, pass: 'alice/audit/given-id-1', rule: 'parts', what }],
  })
})

it('a part that is gone a moment before it is as old as it had to be kept is not missing: clocks differ', async () => {
  const days_30 = 30 * 86_400_000
  const reader = { caughtUp: Promise.resolve(), closed: new Promise(() => undefined), [Symbol.asyncDispose]: async () => undefined }
  const fetch = async () => {
    throw new PartError('not there', 'missing')
  }
  // No version of the policy was published: the defaults keep thirty days.
  const bus = {
    subjects: new Subjects(),
    now: () => days_30,
    follow: async () => reader,
    parts: { fetch, list: async () => undefined },
  } as unknown as Bus
  const look = await installationParts(bus)
  const found = (time: number) => look({} as Part, { sequence: 1, time })
  expect([await found(59_000), await found(61_000)]).toEqual(['gone', { fault: 'is missing' }])
})
