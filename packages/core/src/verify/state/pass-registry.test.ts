import type { RequestFact, Step } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { PassRegistry } from './pass-registry.js'
import type { RecordedMessage } from './recorded-message.js'

const key = { originator: 'alice', subagent: 'audit', id: 'some-given-id' }
const malformed = (digest: string): RecordedMessage =>
  ({ reading: () => ({ ok: false, error: { code: 'E005', message: 'no request' } }), digest: () => digest }) as RecordedMessage
const asked = (sequence: number) => ({ type: 'request', ...key, sequence, time: 1_000 }) as unknown as RequestFact
const refusal = { kind: 'return', key, by: 'passover', sequence: 3, request: 1, digest: 'd' } as unknown as Step

describe('PassRegistry', () => {
  it.each([
    ['the same bytes', 'd', 0],
    ['other bytes', 'other', 1],
  ])('a malformed request that was refused answers a repetition with %s', (_, digest, left) => {
    const passes = new PassRegistry()
    passes.ask(malformed('d'), asked(1))
    passes.ask(malformed(digest), asked(2))
    passes.takeAnswered(refusal, () => true)
    expect(passes.asking.size).toBe(left)
    // The same after the refusal.
    passes.begin(refusal, false).steps.push(refusal)
    passes.ask(malformed(digest), asked(4))
    expect(passes.asking.size).toBe(2 * left)
  })
})
