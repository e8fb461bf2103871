import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Gulps } from './gulps.js'

/** What came in ms: enough for gulps, and too little. */
const MANY = { came: 300, ms: 30 }
const FEW = { came: 100, ms: 30 }

describe('a reader in gulps', () => {
  beforeEach(() => vi.useFakeTimers())
  afterEach(() => vi.useRealTimers())

  it('waits for each message where few come', () => {
    const gulps = new Gulps()
    const next = vi.fn()
    gulps.after({ end: 'full', is_gulp: false, ...FEW }, next)
    gulps.after({ end: 'empty', is_gulp: false, ...MANY }, next)
    expect(gulps.on).toBe(false)
    expect(gulps.waits(5)).toBe(false)
    vi.runAllTimers()
    expect(next).not.toHaveBeenCalled()
  })

  it('rests before each gulp while many come, and asks for nothing before what it asked for has come', () => {
    const gulps = new Gulps()
    const next = vi.fn()
    gulps.after({ end: 'full', is_gulp: false, ...MANY }, next)
    expect(gulps.on).toBe(true)
    expect(gulps.waits(0)).toBe(true)
    vi.advanceTimersByTime(19)
    expect(next).not.toHaveBeenCalled()
    vi.advanceTimersByTime(1)
    expect(next).toHaveBeenCalledTimes(1)
    expect(gulps.waits(1)).toBe(true)
    expect(gulps.waits(0)).toBe(false)
    gulps.after({ end: 'empty', is_gulp: true, came: 200, ms: 2 }, next)
    vi.runAllTimers()
    expect(next).toHaveBeenCalledTimes(2)
  })

  it('does not rest where it is behind', () => {
    const gulps = new Gulps()
    gulps.after({ end: 'full', is_gulp: true, came: 512, ms: 3 }, () => undefined)
    expect(gulps.on).toBe(true)
    expect(gulps.waits(0)).toBe(false)
  })

  it('is over when a gulp brings little', () => {
    const gulps = new Gulps()
    const next = vi.fn()
    gulps.after({ end: 'full', is_gulp: true, came: 512, ms: 3 }, next)
    gulps.after({ end: 'empty', is_gulp: true, came: 100, ms: 2 }, next)
    expect(gulps.on).toBe(false)
    expect(gulps.waits(0)).toBe(false)
  })

  it('is stopped in its rest', () => {
    const gulps = new Gulps()
    const next = vi.fn()
    gulps.after({ end: 'full', is_gulp: false, ...MANY }, next)
    gulps.stop()
    vi.runAllTimers()
    expect(next).not.toHaveBeenCalled()
    expect(gulps.waits(1)).toBe(false)
  })
})
