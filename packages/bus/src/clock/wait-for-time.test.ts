import { describe, expect, it } from 'vitest'
import type { Bus } from '../types/bus.js'
import { waitForTime } from './wait-for-time.js'

const never = new Promise<Error | undefined>(() => undefined)
const at_once = {
  after: (_ms: number, fn: () => void) => {
    queueMicrotask(fn)
    return { [Symbol.dispose]: () => undefined }
  },
}

/** A connection on which the server tells its time at the given try. */
function connection(told_at: number, closed: Bus['closed'] = never) {
  let tries = 0
  const bus = {
    closed,
    get clockKnown() {
      return tries >= told_at
    },
    async measureClock() {
      tries += 1
      if (tries === 1) throw new Error('no answer')
      return tries >= told_at
    },
  } as unknown as Bus
  return { bus, tries: () => tries }
}

describe('waitForTime', () => {
  it('asks again until the server has told its time', async () => {
    const { bus, tries } = connection(4)
    await waitForTime(bus, at_once)
    expect(tries()).toBe(4)
  })

  it('does not ask when the time is known', async () => {
    const { bus, tries } = connection(0)
    await waitForTime(bus, at_once)
    expect(tries()).toBe(0)
  })

  it('ends when the connection is closed', async () => {
    const { bus } = connection(Number.POSITIVE_INFINITY, Promise.resolve(undefined))
    await waitForTime(bus, at_once)
  })
})
