import {
  type Bus,
  CONTENT_TYPE,
  decode,
  encode,
  encodeHeaders,
  type PublishMessage,
  type PublishResult,
  readHeaders,
  type StoredMessage,
  Subjects,
} from '@passover/bus'
import { describe, expect, it } from 'vitest'
import { type DecisionRequest, decide, type StoredDecision } from './decide.js'

const key = { originator: 'alice', subagent: 'audit', id: 'pass-0000001' }
const verdict: DecisionRequest = { key, item: 'dispatch', verdict: 'approve', digest: 'd'.repeat(64) }

function stored(outgoing: PublishMessage, sequence: number): StoredMessage {
  return {
    subject: outgoing.subject,
    sequence,
    time: sequence * 1000,
    headers: readHeaders(encodeHeaders(outgoing.headers)),
    data: outgoing.data ?? new Uint8Array(),
  }
}

function decisionBy(person: string, sequence: number, body: unknown = { v: 1, verdict: 'deny', digest: 'x', reason: 'no' }): StoredMessage {
  const subjects = new Subjects()
  return stored(
    { subject: subjects.decision(key, 'dispatch', person), headers: { 'Content-Type': CONTENT_TYPE.msgpack }, data: encode(body) },
    sequence,
  )
}

/** A bus that answers publishes with these outcomes and shows this history. */
function busWith(outcomes: PublishResult[], history: (published: PublishMessage[]) => StoredMessage[] = () => []) {
  const published: PublishMessage[] = []
  const hints: string[] = []
  const bus = {
    identity: 'bob',
    subjects: new Subjects(),
    publish: async (message: PublishMessage) => {
      published.push(message)
      return outcomes.shift() ?? ({ kind: 'lost' } satisfies PublishResult)
    },
    journal: { newest: async () => history(published).at(-1) },
    hintDecided: (originator: string) => hints.push(originator),
  } as unknown as Bus
  return { bus, published, hints }
}

describe('a decision', () => {
  it('is stored under the person’s name, guarded by its item, bound to what was shown', async () => {
    const { bus, published, hints } = busWith([{ kind: 'stored', sequence: 7 }])
    expect(await decide(bus, { ...verdict, reason: 'looked', modifications: { m: 'taken' } }, async () => true)).toEqual({
      kind: 'won',
      sequence: 7,
    })
    expect(published[0]).toMatchObject({
      subject: 'decision.alice.audit.pass-0000001.dispatch.bob',
      guard: { subject: 'decision.alice.audit.pass-0000001.dispatch.*', sequence: 0 },
    })
    expect(decode(published[0]?.data ?? new Uint8Array())).toMatchObject({
      value: { verdict: 'approve', digest: verdict.digest, reason: 'looked', modifications: { m: 'taken' } },
    })
    expect(hints).toEqual(['alice'])
  })

  it('that lost tells who was faster', async () => {
    const { bus, published } = busWith([{ kind: 'lost' }], () => [decisionBy('carol', 4)])
    expect(await decide(bus, verdict, async () => true)).toMatchObject({
      kind: 'lost',
      standing: { person: 'carol', verdict: 'deny', time: 4000, reason: 'no' },
    })
    expect(published).toHaveLength(1)
  })

  it('goes after one that does not count', async () => {
    const asked: StoredDecision[] = []
    const { bus, published } = busWith([{ kind: 'lost' }, { kind: 'stored', sequence: 9 }], () => [decisionBy('mallory', 4)])
    const counts = async (standing: StoredDecision) => {
      asked.push(standing)
      return false
    }
    expect(await decide(bus, verdict, counts)).toEqual({ kind: 'won', sequence: 9 })
    expect(asked.map(({ person }) => person)).toEqual(['mallory'])
    expect(published[1]?.guard?.sequence).toBe(4)
  })

  it('whose acknowledgment was lost is found by its nonce', async () => {
    const { bus } = busWith([{ kind: 'unknown', description: 'timeout' }], (published) => published.map((message) => stored(message, 5)))
    expect(await decide(bus, verdict, async () => true)).toEqual({ kind: 'won', sequence: 5 })
  })

  it('of somebody unreadable is still somebody’s', async () => {
    const { bus } = busWith([{ kind: 'lost' }], () => [decisionBy('carol', 4, { nothing: true })])
    expect(await decide(bus, verdict, async () => true)).toMatchObject({
      kind: 'lost',
      standing: { person: 'carol', verdict: 'unreadable' },
    })
  })

  it('that the server does not permit is refused at once', async () => {
    const { bus, published } = busWith([{ kind: 'refused', reason: 'permission', description: 'not allowed' }])
    await expect(decide(bus, verdict, async () => true)).rejects.toMatchObject({
      code: 'E013',
      message: expect.stringContaining('not allowed'),
    })
    expect(published).toHaveLength(1)
  })

  it('that cannot be stored fails with why', async () => {
    const { bus, published } = busWith(
      Array.from({ length: 9 }, () => ({ kind: 'refused', reason: 'full', description: 'not allowed' }) as const),
    )
    await expect(decide(bus, verdict, async () => true)).rejects.toMatchObject({
      code: 'E040',
      message: expect.stringContaining('not allowed'),
    })
    expect(published.length).toBeLessThan(9)
  })
})
