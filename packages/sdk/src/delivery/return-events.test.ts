import type { Bus } from '@passover/bus'
import { PassOverError } from '@passover/core'
import { describe, expect, it } from 'vitest'
import { ReturnEvents } from './return-events.js'

const key = { originator: 'alice', subagent: 'audit', id: 'some-given-id' }
const refused = { ok: false as const, error: new PassOverError('E013', 'no') }

/** On a clock whose timers go off when the test says so. */
function telling() {
  const said: string[] = []
  const timers: { ms: number; fn: () => void }[] = []
  const clock = {
    now: () => 0,
    monotonic: () => 0,
    after(ms: number, fn: () => void): Disposable {
      const timer = { ms, fn }
      timers.push(timer)
      return { [Symbol.dispose]: () => void timers.splice(timers.indexOf(timer), 1) }
    },
  }
  // It answers nothing: what is not known to be unwanted is told.
  const bus = {} as Bus
  const events = new ReturnEvents({ bus, clock, random: { bytes: (n) => new Uint8Array(n) }, say: (line) => void said.push(line) })
  return { notices: events, said, timers }
}

describe('ReturnNotices', () => {
  it('waits for its listeners before it closes', async () => {
    const { notices: events, said, timers } = telling()
    const order: string[] = []
    let done = () => {}
    const began = new Promise<void>((begun) => {
      events.add(() => {
        begun()
        return new Promise<void>((resolve) => {
          done = () => {
            order.push('told')
            resolve()
          }
        })
      })
    })
    events.emit(key, refused)
    const drained = events.drain().then(() => order.push('closed'))
    await began
    done()
    await drained
    expect({ order, said, timers }).toEqual({ order: ['told', 'closed'], said: [], timers: [] })
  })

  it('is kept from closing by no listener that never settles, and says so', async () => {
    const { notices: events, said, timers } = telling()
    events.add(() => new Promise(() => undefined))
    events.emit(key, refused)
    const drained = events.drain()
    expect(timers.map(({ ms }) => ms)).toEqual([10_000])
    timers[0]?.fn()
    await drained
    expect(said).toEqual(['the agent closes although its listeners have not finished 1 returns after 10000 ms'])
  })
})
