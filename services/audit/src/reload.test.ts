import type { Archive } from '@passover/archive'
import { type Bus, BusReadError } from '@passover/bus'
import { pino } from 'pino'
import { describe, expect, it } from 'vitest'
import { KEY, message, RULES, subjects } from '../testing/samples.js'
import { type ReloadDeps, Reloads } from './reload.js'

function reloads(change: Partial<ReloadDeps> & { history?: () => Promise<unknown> } = {}) {
  const { history = async () => [], ...deps } = change
  let loads = 0
  const made = new Reloads({
    bus: { journal: { history }, subjects } as unknown as Bus,
    archive: { sequencesOf: async () => [], messages: async () => [] } as unknown as Archive,
    rules: RULES,
    clock: {
      now: () => 0,
      monotonic: () => 0,
      after: (_ms, fn) => {
        setImmediate(fn)
        return { [Symbol.dispose]() {} }
      },
    },
    log: pino({ level: 'silent' }),
    position: () => 100,
    hasRecord: async () => false,
    onLoaded: async () => {
      loads++
      return true
    },
    ...deps,
  })
  const idle = async () => {
    while (made.size > 0) await new Promise(setImmediate)
  }
  return { made, idle, loads: () => loads }
}

describe('Reloads', () => {
  it('give up a pass of which no record can be made, and go on with others', async () => {
    let tries = 0
    const { made, idle } = reloads({
      onLoaded: async () => {
        tries++
        throw new RangeError('Invalid time value')
      },
    })
    for (let i = 0; i < 20; i++) made.want({ ...KEY, id: `made-up-id-${i}` }, i + 1)
    await idle()
    expect([made.lowest, tries]).toEqual([undefined, 60])
  })

  it('try as long as the server does not answer', async () => {
    let tries = 0
    const history = async () => {
      if (++tries < 10) throw new BusReadError('no answer', 'timeout')
      return []
    }
    const { made, idle, loads } = reloads({ history })
    made.want(KEY, 1)
    await idle()
    expect([tries, loads()]).toEqual([10, 1])
  })

  it('leave the record of a pass whose id was only asked for again too late', async () => {
    const { made, idle, loads } = reloads({ hasRecord: async () => true })
    made.want(KEY, 9, { expired: true })
    await idle()
    expect(loads()).toBe(0)
    made.want(KEY, 9, { expired: true })
    made.want(KEY, 10)
    await idle()
    expect(loads()).toBe(1)
  })

  it('believe a step of a worker nothing about its request', async () => {
    const headers = { 'Passover-Request': '1', 'Passover-Requested-At': '9007199254740991' }
    const found = [
      message(1, subjects.request('scout', 'alice'), { body: { v: 1, request: { reason: 'other' } } }).stored,
      message(2, subjects.return(KEY, 'scout'), { headers }).stored,
    ]
    let asked: unknown = 'nothing loaded'
    const { made, idle } = reloads({
      history: async () => found,
      onLoaded: async ({ memory }) => {
        asked = memory.request
        return true
      },
    })
    made.want(KEY, 2)
    await idle()
    expect(asked).toBeUndefined()
  })
})
