import { describe, expect, it } from 'vitest'
import { FairSlots } from './fair-slots.js'

/** Takes as many places as there are. */
function takeAll(places: FairSlots, sender: string, part?: string): number {
  let taken = 0
  while (places.take(sender, part)) taken += 1
  return taken
}

describe('fair places', () => {
  it('gives one sender half, and one that holds none a place', () => {
    const places = new FairSlots(12)
    expect([takeAll(places, 'mallory'), takeAll(places, 'bob'), takeAll(places, 'alice')]).toEqual([6, 3, 2])
  })

  it('keeps a place for another part of the same sender, and for other senders', () => {
    const places = new FairSlots(12)
    expect(takeAll(places, 'audit', 'mallory')).toBe(4)
    expect(places.hasRoom('audit', 'bob')).toBe(true)
    expect(takeAll(places, 'audit', 'bob')).toBe(2)
    for (const part of ['x', 'y', 'z']) expect(takeAll(places, 'audit', part)).toBe(0)
    expect(places.hasRoom('scout', 'bob')).toBe(true)
  })

  it('gives a place again that was freed', () => {
    const places = new FairSlots(2)
    const free = places.take('audit', 'bob')
    expect(places.take('audit', 'bob')).toBeUndefined()
    free?.()
    expect(places.take('audit', 'bob')).toBeTypeOf('function')
  })
})
