import { expect, it } from 'vitest'
import type { Context } from '../admission/context.js'
import type { Timekeeper } from '../timekeeper/timekeeper.js'
import { FairScheduler } from './fair-scheduler.js'

const NOW = 1_000_000

/** How many may be handled in turn, look by look. `mixed`: several pairs ask. */
function looked(...looks: { waiting: number; unanswered: number; mixed: boolean }[]): number[] {
  const backlog = { size: 0, mixed_at: 0 }
  const timekeeper = { backlog, unanswered: 0 }
  const options = { concurrency: 512, concurrency_crowded: 64, out_of_turn: 16, ahead: 16 }
  const context = { options, deps: { clock: { now: () => NOW } } } as unknown as Context
  const turns = new FairScheduler(context, timekeeper as unknown as Timekeeper, async () => ({ ok: true }))
  return looks.map(({ waiting, unanswered, mixed }) => {
    backlog.size = waiting
    backlog.mixed_at = mixed ? NOW - 1_000 : NOW - 10_000
    timekeeper.unanswered = unanswered
    return turns.concurrency
  })
}

it('few are handled in turn while several pairs ask and many have no answer', () => {
  const crowd = { waiting: 0, unanswered: 200, mixed: true }
  expect(looked({ ...crowd, unanswered: 100 }, crowd, { ...crowd, unanswered: 100 }, { ...crowd, unanswered: 63 })).toEqual([
    512, 64, 64, 512,
  ])
})

// Fails where a backlog of one pair is no crowd: the first of another pair to ask finds 512 of it before its own way begins.
it('and while more wait than could be in hand, also of one pair, until that is over', () => {
  const flood = { waiting: 600, unanswered: 1_000, mixed: false }
  expect(looked({ ...flood, waiting: 500 }, flood, { ...flood, waiting: 300 }, { ...flood, waiting: 200 })).toEqual([512, 64, 64, 512])
})

it('admits what the durable is past and nothing answered, once it was so at two looks', async () => {
  const fact = (sequence: number) => ({ sequence, time: NOW - 10_000 })
  const waiting = [fact(4), fact(9)]
  const timekeeper = { backlog: undefined, unanswered: 2, unansweredBefore: (time: number) => (time === NOW - 5_000 ? waiting : []) }
  const handled: number[] = []
  const context = {
    options: { out_of_turn: 16, ahead: 16, look_after_ms: 5_000 },
    stats: { out_of_turn: 0 },
    deps: {
      clock: { now: () => NOW },
      log: { warn: () => undefined, debug: () => undefined },
      bus: { journal: { message: async (sequence: number) => fact(sequence) } },
    },
  } as unknown as Context
  const turns = new FairScheduler(context, timekeeper as unknown as Timekeeper, async ({ sequence }) => {
    handled.push(sequence)
    return { ok: true }
  })
  const standing = { pending: 1, delivered: 3, unacknowledged: 0, settled: 7, paused: false }
  const looks = async (...all: (typeof standing)[]) => {
    for (const one of all) turns.lookForSkipped(one)
    await new Promise((done) => setImmediate(done))
    return handled.splice(0)
  }
  expect(await looks(standing)).toEqual([])
  waiting.shift()
  expect(await looks(standing)).toEqual([])
  waiting.unshift(fact(4))
  expect(await looks(standing, standing)).toEqual([4])
  // Nothing is left to deliver, and the request at the end still has no answer.
  const idle = { ...standing, pending: 0 }
  expect(await looks(idle, idle)).toEqual([4, 9])
  expect(await looks({ ...idle, unacknowledged: 1, settled: 1 }, { ...idle, unacknowledged: 1, settled: 1 })).toEqual([])
})
