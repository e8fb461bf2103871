import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { FairQueue, type Waiting } from './fair-queue.js'

function asked(sequence: number, originator = 'alice', subagent = 'audit'): Waiting {
  return { fact: { sequence, time: 1_000 + sequence, originator, subagent } }
}

function backlog(...items: Waiting[]): FairQueue<Waiting> {
  const made = new FairQueue<Waiting>()
  for (const item of items) made.add(item)
  return made
}

const flood = (count: number, from = 1) => Array.from({ length: count }, (_, n) => asked(from + n, 'mallory'))
const taken = (made: FairQueue<Waiting>, ahead: number) => made.take(ahead)?.fact.sequence

describe('what comes out of turn', () => {
  it('is the first of a line with more than so many before it, however many those are', () => {
    for (const size of [11, 5_000]) {
      const made = backlog(...flood(size), asked(size + 1), asked(size + 2))
      expect([taken(made, 10), taken(made, 10), taken(made, 10)]).toEqual([size + 1, size + 2, undefined])
      expect(made.size).toBe(size)
    }
  })

  it('is nothing while few wait, or those who wait are of one line or among the first', () => {
    expect(taken(backlog(...flood(10), asked(11)), 10)).toBeUndefined()
    expect(taken(backlog(...flood(1_000)), 10)).toBeUndefined()
    expect(taken(backlog(asked(1), ...flood(1_000, 2)), 10)).toBeUndefined()
  })

  it('is of each line in turn, in the order of each', () => {
    const made = backlog(...flood(20), ...[21, 22, 23].map((sequence) => asked(sequence)), asked(24, 'bob'), asked(25, 'alice', 'scout'))
    expect([1, 2, 3, 4, 5, 6].map(() => taken(made, 10))).toEqual([21, 24, 25, 22, 23, undefined])
  })

  it('is nothing that was delivered, answered or taken', () => {
    const [one, other, third] = [asked(21), asked(22), asked(23)]
    const made = backlog(...flood(20), one, other, third)
    made.drop(one)
    made.drop(one)
    expect([taken(made, 10), made.size]).toEqual([22, 21])
    made.reach(5)
    made.reach(3)
    expect(made.size).toBe(16)
    expect(taken(made, 10)).toBe(23)
    made.reach(100)
    made.add(asked(50))
    expect(made.size).toBe(0)
    expect(taken(made, 1)).toBeUndefined()
  })

  it('and when several pairs last asked is known, whatever waits of them', () => {
    const made = backlog(...flood(10))
    expect(made.mixed_at).toBe(Number.NEGATIVE_INFINITY)
    made.reach(100)
    made.add(asked(11))
    made.add(asked(12))
    expect(made.mixed_at).toBe(1_011)
    made.add(asked(13, 'alice', 'scout'))
    expect([made.mixed_at, made.size]).toEqual([1_013, 0])
  })

  it('is found among any number of lines, and each has its turn before any has another one', () => {
    const lines = Array.from({ length: 200 }, (_, n) => asked(n + 1, `agent${n % 100}`))
    const made = backlog(...lines)
    const found = Array.from({ length: 167 }, () => taken(made, 16))
    // The first 17 lines have theirs near enough to the front.
    const far = Array.from({ length: 83 }, (_, n) => n + 18)
    expect(found).toEqual([...far, ...far.map((sequence) => sequence + 100), undefined])
  })
})

it('counts what waits, whatever happens to it, and keeps the order of every line', () => {
  const event = fc.oneof(
    fc.record({ kind: fc.constant('add' as const), who: fc.integer({ min: 0, max: 30 }) }),
    fc.record({ kind: fc.constant('drop' as const), which: fc.nat(200) }),
    fc.record({ kind: fc.constant('reach' as const), by: fc.nat(20) }),
    fc.record({ kind: fc.constant('take' as const), ahead: fc.nat(10) }),
  )
  fc.assert(
    fc.property(fc.array(event, { maxLength: 300 }), (events) => {
      const made = new FairQueue<Waiting>()
      let waiting: Waiting[] = []
      let [last, reached] = [0, 0]
      for (const one of events) {
        if (one.kind === 'add') {
          const item = asked(++last, `a${one.who}`)
          made.add(item)
          waiting.push(item)
        } else if (one.kind === 'drop') {
          const item = waiting[one.which % Math.max(1, waiting.length)]
          if (item) made.drop(item)
          waiting = waiting.filter((other) => other !== item)
        } else if (one.kind === 'reach') {
          reached = Math.min(last, reached + one.by)
          made.reach(reached)
          waiting = waiting.filter(({ fact }) => fact.sequence > reached)
        } else {
          const item = made.take(one.ahead)
          const line = waiting.filter(({ fact }) => fact.originator === item?.fact.originator)
          expect(line[0]).toBe(item)
          if (item) expect(waiting.indexOf(item)).toBeGreaterThan(0)
          // Something is found whenever there is something.
          const firsts = new Map([...waiting].reverse().map((one) => [one.fact.originator, one.fact.sequence]))
          const [front = 0, farthest = 0] = [waiting[0]?.fact.sequence, Math.max(...firsts.values())]
          expect(item !== undefined).toBe(waiting.length > one.ahead && farthest - front > one.ahead)
          waiting = waiting.filter((other) => other !== item)
        }
        expect(made.size).toBe(waiting.length)
      }
    }),
  )
})
