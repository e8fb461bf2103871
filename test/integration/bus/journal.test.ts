import { type Bus, encode, JournalTooLong, type Plan } from '@passover/bus'
import { HEADER, type Step } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { busOn, freshKey } from '../../support/fixtures/bus.js'
import { type NatsFixture, natsFixture } from '../../support/servers/nats.js'

describe('the journal', () => {
  let nats: NatsFixture
  let bus: Bus
  beforeAll(async () => {
    nats = await natsFixture()
    bus = await busOn(nats)
    await bus.ensureTopology()
  })
  afterAll(async () => {
    await bus[Symbol.asyncDispose]()
    await nats[Symbol.asyncDispose]()
  })

  const publish = async (subject: string, headers: Record<string, string> = {}) => {
    const outcome = await bus.publish({ subject, headers })
    if (outcome.kind !== 'stored') throw new Error(outcome.kind)
    return outcome.sequence
  }

  test('reads all steps of its pass in order, also impossible ones, and none of another', async () => {
    const key = freshKey()
    const s = bus.subjects
    const sequences = [
      await publish(s.held(key)),
      await publish(s.work(key, 'low')),
      await publish(s.fence(key, 'audit'), { [HEADER.attempt]: '2' }),
      await publish(s.fence(key, 'audit'), { [HEADER.attempt]: '3' }),
      await publish(s.return(key, 'audit')),
      await publish(s.return(key, 'audit')),
      await publish(s.fence(key, 'audit')),
    ]
    await publish(s.work(freshKey(), 'low'))
    await publish(s.event(key, 'started', 'audit'))
    await publish(s.work({ ...key, subagent: 'other' }, 'low'))
    const steps = await bus.journal.read(key)
    expect(steps.map((step) => step.sequence)).toEqual(sequences)
    expect(steps.map((step) => step.attempt)).toEqual([0, 0, 2, 3, 0, 0, 0])
    expect((await bus.journal.read(key, sequences[2])).map((step) => step.sequence)).toEqual(sequences.slice(2))
    expect(await bus.journal.read(key, (sequences.at(-1) ?? 0) + 1)).toEqual([])
    expect(await bus.journal.read(freshKey())).toEqual([])
  })

  test('glimpses the last message of each subject that a journal can have', async () => {
    const key = freshKey()
    const s = bus.subjects
    const work = await publish(s.work(key, 'medium'))
    const fence = await publish(s.fence(key, 'audit'))
    const end = await publish(s.return(key, 'audit'))
    expect((await bus.journal.glimpse(key)).map((step) => step.sequence)).toEqual([work, fence, end])
    expect(await bus.journal.glimpse(freshKey())).toEqual([])
  })

  test('tells the same of a message however it is read', async () => {
    const key = freshKey()
    const outcome = await bus.publish({
      subject: bus.subjects.work(key, 'high'),
      data: encode({ a: 1 }),
      headers: { [HEADER.digest]: 'd', [HEADER.nonce]: 'ä' },
    })
    if (outcome.kind !== 'stored') throw new Error(outcome.kind)
    const [got, last] = [await bus.journal.message(outcome.sequence), await bus.journal.last(bus.subjects.work(key, 'high'))]
    let followed: typeof got
    await using reader = await bus.follow({ from: outcome.sequence }, (stored) => {
      followed ??= stored
    })
    await reader.caughtUp
    for (const one of [got, last, followed]) {
      expect(one).toMatchObject({ subject: bus.subjects.work(key, 'high'), sequence: outcome.sequence, time: got?.time })
      expect([...(one?.data ?? [])]).toEqual([...encode({ a: 1 })])
      expect(one?.headers.get(HEADER.nonce)).toBe('ä')
    }
    expect(followed?.headers.pairs()).toEqual(got?.headers.pairs())
    expect(Math.abs((got?.time ?? 0) - bus.now())).toBeLessThan(60_000)
    expect(await bus.journal.message(outcome.sequence + 1_000_000)).toBeUndefined()
  })

  test('gives the whole history: request, steps, events and decisions', async () => {
    const key = freshKey()
    const s = bus.subjects
    const request = await publish(s.request('audit', 'alice'))
    const first = await publish(s.held(key), { [HEADER.request]: String(request) })
    const decision = await publish(s.decision(key, 'dispatch', 'eve'))
    const work = await publish(s.work(key, 'low'))
    const event = await publish(s.event(key, 'started', 'audit'))
    const history = await bus.journal.history(key)
    expect(history.map((stored) => stored.sequence)).toEqual([request, first, decision, work, event])
  })

  test('deletes exactly one message, once or twice', async () => {
    const key = freshKey()
    const first = await publish(bus.subjects.work(key, 'low'))
    const second = await publish(bus.subjects.return(key, 'passover'))
    expect(await bus.journal.deleteMessage(first)).toBe(true)
    expect(await bus.journal.deleteMessage(first)).toBe(true)
    expect((await bus.journal.read(key)).map((step) => step.sequence)).toEqual([second])
    const reopened = await bus.publish({
      subject: bus.subjects.work(key, 'low'),
      guard: { subject: bus.subjects.journal(key), sequence: 0 },
    })
    expect(reopened).toEqual({ kind: 'lost', last: second })
  })

  /** Publishes a return behind whatever is there, unless there is one. */
  const ending =
    (key: ReturnType<typeof freshKey>) =>
    (steps: Step[]): Plan<string> => {
      const end = steps.find((step) => step.kind === 'return')
      if (end) return { done: `found ${end.by}` }
      const guard = { subject: bus.subjects.journal(key), sequence: steps.at(-1)?.sequence ?? 0 }
      return { publish: { subject: bus.subjects.return(key, 'passover'), guard }, stored: () => 'stored' }
    }

  test('advances blindly, and where it lost reads and plans anew', async () => {
    const key = freshKey()
    await publish(bus.subjects.work(key, 'low'))
    expect(await bus.journal.advance(key, ending(key), { read: 'leader' })).toEqual({ ok: true, value: 'stored' })
    expect(await bus.journal.advance(key, ending(key), { read: 'glimpse' })).toEqual({ ok: true, value: 'found passover' })
    expect(await bus.journal.read(key)).toHaveLength(2)
  })

  test('advanced by many at once, only one stores and all learn how it ended', async () => {
    const key = freshKey()
    const all = await Promise.all(Array.from({ length: 20 }, () => bus.journal.advance(key, ending(key), { read: 'leader' })))
    expect(all.filter((one) => one.ok && one.value === 'stored')).toHaveLength(1)
    expect(all.filter((one) => one.ok && one.value === 'found passover')).toHaveLength(19)
  })

  test('goes on over a restart of the server, and gives up at its deadline', async () => {
    const key = freshKey()
    await nats.node.kill()
    const advance = bus.journal.advance(key, ending(key), { read: 'leader', deadline_ms: 60_000 })
    const short = bus.journal.advance(key, ending(key), { read: 'leader', deadline_ms: 300 })
    expect(await short).toMatchObject({ ok: false, outcome: { kind: 'unknown' } })
    await nats.node.restart()
    const advanced = await advance
    expect(advanced.ok).toBe(true)
    expect((await bus.journal.read(key)).filter((step) => step.kind === 'return')).toHaveLength(1)
  })

  describe('that its worker floods', () => {
    const flood = async (key: ReturnType<typeof freshKey>, count = 80) => {
      const s = bus.subjects
      const first = await publish(s.work(key, 'low'), { [HEADER.nonce]: 'first' })
      for (let i = 0; i < count; i += 1) await publish(i % 2 ? s.fence(key, 'audit') : s.return(key, 'audit'), { [HEADER.attempt]: '9' })
      return first
    }

    test('cannot be taken for a whole one: its first steps and the last of each kind come in an error', async () => {
      const key = freshKey()
      const first = await flood(key)
      const end = await publish(bus.subjects.return(key, 'passover'))
      await flood(key, 3)
      const error = await bus.journal.read(key).catch((failure: unknown) => failure)
      expect(error).toBeInstanceOf(JournalTooLong)
      expect(error).toMatchObject({ name: 'JournalTooLong', reason: 'too_long' })
      const { steps } = error as JournalTooLong
      expect(steps[0]).toMatchObject({ sequence: first, nonce: 'first' })
      expect(steps.filter(({ by }) => by === 'passover').map(({ sequence }) => sequence)).toEqual([end])
      expect(steps.length).toBeLessThan(72)
      expect(steps.map(({ sequence }) => sequence)).toEqual([...new Set(steps.map(({ sequence }) => sequence))].sort((a, b) => a - b))
      // Those newer than what one knows may be few.
      expect((await bus.journal.read(key, end)).length).toBe(5)
    })

    test('has a history that says that it is cut', async () => {
      const key = freshKey()
      const first = await flood(key)
      const end = await publish(bus.subjects.return(key, 'passover'))
      let cut = 0
      const history = await bus.journal.history(key, 1, () => (cut += 1))
      expect(cut).toBe(1)
      expect(history[0]?.sequence).toBe(first)
      expect(history.at(-1)?.sequence).toBe(end)
      expect(history.length).toBeLessThan(72)
      await bus.journal.history(key, end, () => (cut += 1))
      expect(cut).toBe(1)
    })

    test('is ended all the same, by a plan for that and a guard on what only the system writes', async () => {
      const key = freshKey()
      await flood(key)
      const end = (sequence: number): Plan<string> => ({
        publish: { subject: bus.subjects.return(key, 'passover'), guard: { subject: bus.subjects.return(key, 'passover'), sequence } },
        stored: () => 'ended',
      })
      const wrong: Plan<string> = {
        publish: { subject: bus.subjects.return(key, 'passover'), guard: { subject: bus.subjects.journal(key), sequence: 1 } },
        stored: () => 'never',
      }
      const without = await bus.journal.advance(key, () => wrong, { read: 'leader' })
      expect(without).toMatchObject({ ok: false, outcome: { kind: 'unknown' } })
      const seen: Step[][] = []
      const too_long = (steps: Step[]): Plan<string> => {
        seen.push(steps)
        return steps.some(({ by }) => by === 'passover') ? { done: 'was ended' } : end(0)
      }
      expect(await bus.journal.advance(key, () => wrong, { read: 'leader', too_long })).toEqual({ ok: true, value: 'ended' })
      expect(await bus.journal.advance(key, () => wrong, { read: 'leader', too_long })).toEqual({ ok: true, value: 'was ended' })
      expect(seen[0]?.[0]).toMatchObject({ kind: 'work', nonce: 'first' })
    })
  })

  test('stops when its caller aborts', async () => {
    const abort = new AbortController()
    const key = freshKey()
    await publish(bus.subjects.work(key, 'low'))
    const endless = bus.journal.advance(
      key,
      () => ({
        publish: { subject: bus.subjects.return(key, 'passover'), guard: { subject: bus.subjects.journal(key), sequence: 1 } },
        stored: () => 'never',
      }),
      { read: 'leader', signal: abort.signal },
    )
    abort.abort()
    expect(await endless).toMatchObject({ ok: false, outcome: { kind: 'lost' } })
  })
})
