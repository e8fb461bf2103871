import { describe, expect, it } from 'vitest'
import { RateMeter } from './rate-meter.js'
import { RoundRobin } from './round-robin.js'

describe('turns', () => {
  it('gives a free place to the sender that waits longest for a turn, not to the one with the most entries', async () => {
    const turns = new RoundRobin(1)
    const order: string[] = []
    const once = async (sender: string) => {
      const free = await turns.take(sender)
      order.push(sender)
      free?.()
    }
    const first = await turns.take('mallory')
    const all = ['mallory', 'mallory', 'mallory', 'bob', 'alice', 'bob'].map(once)
    first?.()
    await Promise.all(all)
    expect(order).toEqual(['mallory', 'bob', 'alice', 'mallory', 'bob', 'mallory'])
    expect(await turns.take('bob')).toBeTypeOf('function')
  })

  it('gives the parts of a sender turns of their own', async () => {
    const turns = new RoundRobin(1)
    const order: string[] = []
    const once = async ([sender, part]: [string, string]) => {
      const free = await turns.take(sender, part)
      order.push(`${sender} ${part}`)
      free?.()
    }
    const first = await turns.take('audit', 'mallory')
    const all = (
      [
        ['audit', 'mallory'],
        ['audit', 'mallory'],
        ['audit', 'bob'],
        ['scout', 'bob'],
      ] as [string, string][]
    ).map(once)
    first?.()
    await Promise.all(all)
    expect(order).toEqual(['audit mallory', 'scout bob', 'audit bob', 'audit mallory'])
  })

  it('gives nobody who waits a place once it is closed', async () => {
    const turns = new RoundRobin(1)
    await turns.take('mallory')
    const waits = turns.take('bob')
    turns.close()
    expect([await waits, await turns.take('alice')]).toEqual([undefined, undefined])
  })
})

describe('the pace of an agent', () => {
  it('is a flood by the minute in which messages were stored, each counted once', () => {
    const meter = new RateMeter(2, 3)
    const at = (sequence: number, time: number) => ({ sequence, time })
    for (const one of [at(1, 0), at(2, 1), at(2, 1), at(2, 1)]) meter.note('mallory', one)
    expect(meter.floods('mallory', at(2, 1))).toBe(false)
    meter.note('mallory', at(3, 59_999))
    expect([meter.floods('mallory', at(1, 0)), meter.floods('mallory', at(4, 60_000)), meter.floods('bob', at(5, 0))]).toEqual([
      true,
      false,
      false,
    ])
    // An hour of a message a minute, all delivered at once after a receiver was away.
    for (let n = 0; n < 60; n++) meter.note('ci', at(100 + n, n * 60_000))
    expect([0, 30, 59].some((n) => meter.floods('ci', at(100 + n, n * 60_000)))).toBe(false)
  })
})
