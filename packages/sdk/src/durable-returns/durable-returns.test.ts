import { type AckDecision, type Delivery, encodeHeaders, readHeaders, Subjects } from '@passover/bus'
import { HEADER, type PassKey, type Step, SYSTEM } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import type { ReturnWaiter } from '../returns/return-waiter.js'
import type { Deps } from '../runtime/dependencies.js'
import { type DurableReturnListener, DurableReturns } from './durable-returns.js'

const subjects = new Subjects()
const KEY = { originator: 'alice', subagent: 'audit', id: 'some-given-id' }
const WORK = 3
const RETURNED = 7

interface Standing {
  /** Returns that the audit knows as acknowledged. */
  acknowledged?: () => number[]
  /** Row of the pass in the audit's answer; undefined: the audit does not answer. */
  row?: () => { return_sequence?: number; last_sequence: number } | undefined
  clustered?: boolean
}

/** Starts DurableReturns on a fake bus. One pass has a work step; a read of its journal finds the return RETURNED. */
async function startDurableReturns(listener: DurableReturnListener, { acknowledged = () => [], row, clustered = false }: Standing = {}) {
  let take: (delivery: Delivery) => Promise<AckDecision> = async () => ({ ok: true })
  const acked: number[] = []
  const questions: string[] = []
  const bus = {
    identity: 'alice',
    subjects,
    consume: async (_: string, handler: typeof take) => {
      take = handler
    },
    isWaitedFor: async () => 'nobody',
    clustered,
    journal: { glimpse: async ({ id }: PassKey) => (id === KEY.id ? [{ kind: 'work', sequence: WORK } as Step] : []) },
    ask: async (question: { op: string; id?: string }) => {
      if (question.op === 'acknowledged') return { ok: true, returns: await acknowledged() }
      questions.push(question.id ?? '')
      const answer = row?.()
      const shown = { originator: 'alice', subagent: 'audit', id: question.id, status: 'x', created_at: 0, ...answer }
      return answer && { ok: true, passes: [{ key: { ...KEY, id: question.id }, status: 'x', row: shown, decisions: [] }] }
    },
  }
  const random = { bytes: () => Uint8Array.of(127) }
  const clock = { now: () => 1_000_000, monotonic: () => 0, after: (ms: number, run: () => void) => after(ms, run) }
  const returns = {
    isPending: () => false,
    register: (_: unknown, settle: (outcome: unknown) => void) => {
      queueMicrotask(() => settle({ ok: true, output: {} }))
      return { finished: true, returned: RETURNED }
    },
    subscribeAndPoll: async () => undefined,
    acknowledge: async (sequence: number) => void acked.push(sequence),
  }
  await DurableReturns.start({ deps: { bus, clock, random } as unknown as Deps, returns: returns as unknown as ReturnWaiter }, listener)
  const data = new Uint8Array()
  const hand = (sequence: number, given: { id?: string; attempt?: number; guard?: number; subagent?: string; by?: string } = {}) => {
    const { id = KEY.id, attempt = 1, guard = WORK, subagent = KEY.subagent, by = subagent } = given
    const key = { ...KEY, id, subagent }
    const guarded = {
      'Nats-Expected-Last-Subject-Sequence': String(guard),
      'Nats-Expected-Last-Subject-Sequence-Subject': subjects.journal(key),
    }
    const headers = readHeaders(encodeHeaders({ [HEADER.status]: 'completed', [HEADER.attempt]: String(attempt), ...guarded }))
    return take({ subject: subjects.return(key, by), sequence, time: 0, headers, data } as Delivery)
  }
  return { acked, questions, hand }
}

const RETRY = { retry: true, delay_ms: expect.closeTo(2_000, -2) }

/** Long times never pass here. */
function after(ms: number, run: () => void): Disposable {
  if (ms < 1_000) queueMicrotask(run)
  return { [Symbol.dispose]: () => undefined }
}

describe('DurableReturns', () => {
  it('delivers a return once that is redelivered while its listener is slow, and after', async () => {
    const delivered: string[] = []
    let done = () => {}
    const slow = new Promise<void>((resolve) => {
      done = resolve
    })
    let began = () => {}
    const begun = new Promise<void>((resolve) => {
      began = resolve
    })
    const { hand, acked } = await startDurableReturns(({ pass }) => {
      delivered.push(pass.id)
      began()
      return slow
    })
    const first = hand(7)
    await begun
    expect(await hand(7)).toEqual(RETRY)
    done()
    expect(await first).toEqual({ ok: true })
    expect(await hand(7)).toEqual({ ok: true })
    expect({ delivered, acked }).toEqual({ delivered: ['some-given-id'], acked: [7] })
  })

  it('does not deliver what another process delivered while it waited for a free listener', async () => {
    const delivered: string[] = []
    let questions = 0
    // Not known at first, then acknowledged by another.
    const { hand, acked } = await startDurableReturns(({ pass }) => void delivered.push(pass.id), {
      acknowledged: () => (questions++ === 0 ? [] : [RETURNED]),
    })
    expect(await hand(7)).toEqual({ ok: true })
    expect({ delivered, acked }).toEqual({ delivered: [], acked: [] })
  })

  it('delivers a return again after its listener threw', async () => {
    let times = 0
    const { hand, acked } = await startDurableReturns(() => {
      times += 1
      if (times === 1) throw new Error('not now')
    })
    expect(await hand(7)).toEqual(RETRY)
    expect(await hand(7)).toEqual({ ok: true })
    expect({ times, acked }).toEqual({ times: 2, acked: [7] })
  })

  it('acknowledges returns that do not count, without delivering them', async () => {
    const delivered: string[] = []
    const { hand, questions } = await startDurableReturns(({ pass }) => void delivered.push(pass.id), {
      row: () => ({ return_sequence: 7, last_sequence: 20 }),
    })
    // No work, on a server that is alone: no question is needed.
    expect(await hand(9, { id: 'never-requested' })).toEqual({ ok: true })
    expect(await hand(10, { attempt: 0 })).toEqual({ ok: true })
    expect(questions).toEqual([])
    // After the return: the audit says which one counts.
    expect(await hand(11, { guard: RETURNED })).toEqual({ ok: true })
    expect({ delivered, questions }).toEqual({ delivered: [], questions: [KEY.id] })
    // A timekeeper's last resort, where the worker had returned: reading the pass finds the other one.
    expect(await hand(12, { by: SYSTEM })).toEqual({ ok: true })
    expect(delivered).toEqual([])
    expect(await hand(RETURNED)).toEqual({ ok: true })
    expect({ delivered, questions }).toEqual({ delivered: [KEY.id], questions: [KEY.id, KEY.id] })
  })

  it('keeps a return that nobody can judge now, and asks for no more than one pass of a subagent at a time', async () => {
    let row: { return_sequence?: number; last_sequence: number } | undefined
    const { hand, questions } = await startDurableReturns(() => undefined, { row: () => row, clustered: true })
    expect(await hand(9, { id: 'never-requested' })).toEqual(RETRY)
    // The audit read the pass before this return was stored there.
    row = { last_sequence: 8 }
    expect(await hand(9, { id: 'never-requested' })).toEqual(RETRY)
    row = { last_sequence: 9 }
    const [first, second] = [hand(9, { id: 'never-requested' }), hand(9, { id: 'never-requested' })]
    expect(await Promise.all([first, second])).toEqual([{ ok: true }, { ok: true }])
    expect(questions).toHaveLength(3)
  })

  it('leaves places for the returns of other subagents', async () => {
    let open = () => {}
    const heldUp = new Promise<number[]>((resolve) => {
      open = () => resolve([])
    })
    let first = true
    // The first question of all is answered late, so that its deliveries stay in hand.
    const { hand } = await startDurableReturns(() => undefined, { acknowledged: () => (first ? (heldUp as unknown as number[]) : []) })
    const many = Array.from({ length: 400 }, (_, n) => hand(100 + n, { id: `junk-of-mallory-${n}`, subagent: 'mallory' }))
    const other = hand(RETURNED)
    const waits = await Promise.race(many)
    first = false
    open()
    expect(waits).toEqual(RETRY)
    expect(await other).toEqual({ ok: true })
    expect((await Promise.all(many)).filter((verdict) => 'ok' in verdict)).toHaveLength(192)
  })
})
