import { expect, it } from 'vitest'
import type { Context } from './context.js'
import { OutOfTurn } from './out-of-turn.js'
import type { Timekeeper } from './timekeeper.js'

const NOW = 1_000_000

/** How many may be handled in turn, look by look. `mixed`: several pairs ask. */
function looked(...looks: { waiting: number; unanswered: number; mixed: boolean }[]): number[] {
  const backlog = { size: 0, mixed_at: 0 }
  const timekeeper = { backlog, unanswered: 0 }
  const options = { concurrency: 512, concurrency_crowded: 64, out_of_turn: 16, ahead: 16 }
  const context = { options, deps: { clock: { now: () => NOW } } } as unknown as Context
  const turns = new OutOfTurn(context, timekeeper as unknown as Timekeeper, async () => ({ ok: true }))
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
