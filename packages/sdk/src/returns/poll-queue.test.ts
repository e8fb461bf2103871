import { describe, expect, it } from 'vitest'
import type { PendingReturn } from '../delivery/pending-return.js'
import { PendingReturns } from './pending-returns.js'
import { PollQueue } from './poll-queue.js'

function passes(count: number): PendingReturn[] {
  const pending = new PendingReturns()
  return Array.from({ length: count }, (_, n) =>
    pending.add(
      { key: { originator: 'alice', subagent: 'audit', id: `given-id-${n}` }, digest: undefined, epoch: 0, skip_ack: false },
      () => undefined,
    ),
  )
}

/** A queue whose reads end when they are told to. */
function queue() {
  const under_way: { pending: PendingReturn; end: () => void }[] = []
  const read: PendingReturn[] = []
  const polls = new PollQueue((pending) => {
    read.push(pending)
    return new Promise((resolve) => under_way.push({ pending, end: resolve }))
  })
  const endOne = async () => {
    under_way.shift()?.end()
    await new Promise((later) => setImmediate(later))
  }
  return { looks: polls, read, under_way, endOne }
}

describe('LookQueue', () => {
  it('reads each of many once before any is read again, though all are due again at once', async () => {
    const { looks: polls, read, under_way, endOne } = queue()
    const all = passes(500)
    for (const one of all) polls.add(one)
    while (read.length < all.length) {
      polls.sweep()
      for (let n = under_way.length; n > 0; n--) {
        const done = under_way[0]?.pending
        await endOne()
        if (done) polls.add(done)
      }
    }
    expect(new Set(read.slice(0, all.length)).size).toBe(all.length)
  })

  it('begins the next when one ends, 64 at a time, while it catches up', async () => {
    const { looks: polls, read, endOne } = queue()
    for (const one of passes(1_000)) polls.add(one)
    polls.allowAllDue()
    polls.begin()
    expect(read).toHaveLength(64)
    for (let n = 0; n < 936; n++) await endOne()
    expect(read).toHaveLength(1_000)
  })

  it('begins 64 a sweep when there is no hurry, and one that failed again besides', async () => {
    const { looks: polls, read, endOne } = queue()
    for (const one of passes(200)) polls.add(one)
    polls.sweep()
    for (let n = 0; n < 64; n++) await endOne()
    expect(read).toHaveLength(64)
    polls.allowOneMore()
    polls.begin()
    expect(read).toHaveLength(65)
    polls.sweep()
    expect(read.length).toBeGreaterThan(100)
  })

  it('takes what is urgent first, and leaves out what is over', () => {
    const { looks: polls, read } = queue()
    const all = passes(100)
    for (const one of all) polls.add(one)
    const [first, last] = [all[0], all.at(-1)]
    if (!first || !last) throw new Error('none')
    first.finished = true
    polls.addUrgent(last)
    polls.sweep()
    expect(read[0]).toBe(last)
    expect(read).not.toContain(first)
    expect(read.filter((one) => one === last)).toHaveLength(1)
  })
})
