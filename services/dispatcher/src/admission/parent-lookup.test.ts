import { type Bus, encode, encodeHeaders, JournalTooLong, readHeaders, type StoredMessage, Subjects } from '@passover/bus'
import { HEADER, type PassKey, type Step } from '@passover/schemas'
import { expect, test } from 'vitest'
import { ParentLookup } from './parent-lookup.js'

const KEY: PassKey = { originator: 'alice', subagent: 'audit', id: 'pass-00000001' }
const START = 1_700_000_000_000
const headers = readHeaders(encodeHeaders({ [HEADER.nonce]: 'n' }))

function stored(subject: string, sequence: number, body: unknown): StoredMessage {
  return { subject, sequence, time: START, headers, data: encode(body, 'msgpack') }
}

const MESSAGES = [
  stored('work.alice.audit.pass-00000001.medium', 2, { v: 1, control: { return_id: 'secret', policy: { base: 1 } }, parts: [] }),
  stored('fence.alice.audit.pass-00000001.audit', 3, { v: 1 }),
  stored('return.alice.audit.pass-00000001.audit', 4, { v: 1 }),
  stored('work.bob.audit.pass-00000002.medium', 5, { v: 1, control: { return_id: 'secret', policy: { base: 1 } }, parts: [] }),
]
const base = { type: 'step' as const, key: KEY, time: START, requested_at: START }
const WORK: Step = { ...base, kind: 'work', by: 'medium', sequence: 2, attempt: 0, timeout_ms: 1_000 }
const FENCE: Step = { ...base, kind: 'fence', by: 'audit', sequence: 3, attempt: 2 }

function parentsOf(read: () => Step[]) {
  const asked: string[] = []
  const journal = {
    message: async (sequence: number) => {
      asked.push(`message ${sequence}`)
      return MESSAGES.find((one) => one.sequence === sequence)
    },
    read: async () => {
      asked.push('journal')
      return read()
    },
  }
  return { parents: new ParentLookup({ subjects: new Subjects(), journal } as unknown as Bus, { id_window_ms: 3_600_000 }), asked }
}

test('is read as the leader has it, its work step once', async () => {
  const { parents, asked } = parentsOf(() => [WORK])
  expect(await parents.read({ ...KEY, return_id: 'secret', proof: 2 })).toMatchObject({
    journal: { state: 'open', valid: 2 },
    control: { return_id: 'secret' },
  })
  expect(asked).toEqual(['message 2', 'journal'])
})

test('may be proved by a fence', async () => {
  const { parents } = parentsOf(() => [WORK, FENCE])
  expect(await parents.read({ ...KEY, return_id: 'secret', proof: 3 })).toMatchObject({
    journal: { valid: 3 },
    control: { return_id: 'secret' },
  })
})

test.each([
  ['another return_id', { return_id: 'guess', proof: 2 }],
  ['a return as proof', { return_id: 'secret', proof: 4 }],
  ["another pass's step as proof", { return_id: 'secret', proof: 5 }],
  ['nothing as proof', { return_id: 'secret', proof: 6 }],
])('with %s costs one exact read', async (_, claim) => {
  const { parents, asked } = parentsOf(() => [WORK])
  expect(await parents.read({ ...KEY, ...claim })).toBeUndefined()
  expect(asked).toEqual([`message ${claim.proof}`])
})

test('whose journal is too long to be read is read no second time', async () => {
  const { parents, asked } = parentsOf(() => {
    throw new JournalTooLong(KEY, [WORK])
  })
  for (let n = 0; n < 3; n++) expect(await parents.read({ ...KEY, return_id: 'secret', proof: 2 })).toBeUndefined()
  expect(asked).toEqual(['message 2', 'journal'])
})

test('that cannot be read just now is no parent that is not there', async () => {
  const { parents } = parentsOf(() => {
    throw new Error('no leader')
  })
  await expect(parents.read({ ...KEY, return_id: 'secret', proof: 2 })).rejects.toThrow('no leader')
})
