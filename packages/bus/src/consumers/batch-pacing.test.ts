import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { BatchPacer } from './batch-pacing.js'

/** What came in ms: enough for gulps, and too little. */
const MANY = { came: 40, ms: 30 }
const FEW = { came: 20, ms: 30 }

describe('a reader in gulps', () => {
  beforeEach(() => vi.useFakeTimers())
  afterEach(() => vi.useRealTimers())

  it('waits for each message where few come', () => {
    const pacer = new BatchPacer()
    const next = vi.fn()
    pacer.after({ end: 'full', is_gulp: false, ...FEW }, next)
    pacer.after({ end: 'empty', is_gulp: false, ...MANY }, next)
    expect(pacer.on).toBe(false)
    expect(pacer.waits(5)).toBe(false)
    vi.runAllTimers()
    expect(next).not.toHaveBeenCalled()
  })

  it('rests before each gulp while many come, and asks for nothing before what it asked for has come', () => {
    const pacer = new BatchPacer()
    const next = vi.fn()
    pacer.after({ end: 'full', is_gulp: false, ...MANY }, next)
    expect(pacer.on).toBe(true)
    expect(pacer.waits(0)).toBe(true)
    vi.advanceTimersByTime(9)
    expect(next).not.toHaveBeenCalled()
    vi.advanceTimersByTime(1)
    expect(next).toHaveBeenCalledTimes(1)
    expect(pacer.waits(1)).toBe(true)
    expect(pacer.waits(0)).toBe(false)
    pacer.after({ end: 'empty', is_gulp: true, came: 5, ms: 2 }, next)
    vi.runAllTimers()
    expect(next).toHaveBeenCalledTimes(2)
  })

  it('does not rest where it is behind', () => {
    const pacer = new BatchPacer()
    pacer.after({ end: 'full', is_gulp: true, came: 512, ms: 3 }, () => undefined)
    expect(pacer.on).toBe(true)
    expect(pacer.waits(0)).toBe(false)
  })

  it('is over when three gulps in a row bring little, not when who stores falters for two', () => {
    const pacer = new BatchPacer()
    const next = vi.fn()
    const brings = (came: number) => {
      pacer.after({ end: 'empty', is_gulp: true, came, ms: 2 }, next)
      return pacer.on
    }
    pacer.after({ end: 'full', is_gulp: false, ...MANY }, next)
    expect([4, 0, 5, 4, 4].map(brings)).toEqual([true, true, true, true, true])
    expect(brings(4)).toBe(false)
    vi.runAllTimers()
    expect(pacer.waits(0)).toBe(false)
    pacer.after({ end: 'full', is_gulp: false, ...MANY }, next)
    expect([0, 0, 0].map(brings)).toEqual([true, true, false])
  })

  it('is stopped in its rest', () => {
    const pacer = new BatchPacer()
    const next = vi.fn()
    pacer.after({ end: 'full', is_gulp: false, ...MANY }, next)
    pacer.stop()
    vi.runAllTimers()
    expect(next).not.toHaveBeenCalled()
    expect(pacer.waits(1)).toBe(false)
  })
})
