import { type Archive, IndexesUnread } from '@passover/archive'
import { type Bus, BusReadError } from '@passover/bus'
import type { PassKey } from '@passover/schemas'
import { pino } from 'pino'
import { describe, expect, it } from 'vitest'
import { KEY, type Message, message, RULES, returnOf, subjects, workOf } from '../../testing/samples.js'
import { EarlyIdFilter } from './early-id-filter.js'
import { PassReloader, type PassReloaderDeps } from './pass-reloader.js'

type Heard = Parameters<PassReloader['hear']>[0]

interface Change extends Partial<PassReloaderDeps> {
  history?: (key: PassKey) => Promise<unknown>
  newest?: (subject: string) => Promise<unknown>
  most?: number
}

function reloads(change: Change = {}) {
  const { history = async () => [], newest = async () => undefined, most, ...deps } = change
  let loads = 0
  let looks = 0
  const impossible: number[] = []
  const looked = (subject: string) => {
    looks++
    return newest(subject)
  }
  const made = new PassReloader(
    {
      bus: { journal: { history, newest: looked }, subjects } as unknown as Bus,
      archive: { sequencesOf: async () => [], messages: async () => [], mayBegin: async () => false } as unknown as Archive,
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
      early: new EarlyIdFilter(7),
      hasRecord: async () => false,
      onLoaded: async () => {
        loads++
        return true
      },
      onImpossible: ({ sequence }) => void impossible.push(sequence),
      ...deps,
    },
    most,
  )
  const hear = ({ fact }: Message, how?: { expired?: boolean }) => made.hear(fact as Heard, how)
  const idle = async () => {
    while (made.size > 0) await new Promise(setImmediate)
  }
  return { made, hear, idle, impossible, loads: () => loads, looks: () => looks }
}

describe('Reloads', () => {
  it('give up a pass of which no record can be made, and go on with others', async () => {
    let tries = 0
    const { made, hear, idle } = reloads({
      onLoaded: async () => {
        tries++
        throw new RangeError('Invalid time value')
      },
    })
    for (let i = 0; i < 20; i++) hear(workOf(i + 1, { key: { ...KEY, id: `made-up-id-${i}` } }))
    await idle()
    expect([made.lowest, tries]).toEqual([undefined, 60])
  })

  it('try as long as the server does not answer', async () => {
    let tries = 0
    const history = async () => {
      if (++tries < 10) throw new BusReadError('no answer', 'timeout')
      return []
    }
    const { hear, idle, loads } = reloads({ history })
    hear(workOf(1))
    await idle()
    expect([tries, loads()]).toEqual([10, 1])
  })

  it('leave the record of a pass whose id was only asked for again too late', async () => {
    const { hear, idle, loads } = reloads({ hasRecord: async () => true })
    const refusal = returnOf(9, { by: 'passover' })
    hear(refusal, { expired: true })
    await idle()
    expect(loads()).toBe(0)
    hear(refusal, { expired: true })
    hear(returnOf(10, { by: 'passover' }))
    await idle()
    expect(loads()).toBe(1)
  })

  it('believe a step of a worker nothing about its request', async () => {
    const headers = { 'Passover-Request': '1', 'Passover-Requested-At': '9007199254740991' }
    const found = [
      message(1, subjects.request('scout', 'alice'), { body: { v: 1, request: { reason: 'other' } } }),
      message(2, subjects.return(KEY, 'scout'), { headers }),
    ]
    let asked: unknown = 'nothing loaded'
    const { hear, idle } = reloads({
      history: async () => found.map(({ stored }) => stored),
      newest: async () => found[1]?.stored,
      onLoaded: async ({ memory }) => {
        asked = memory.request
        return true
      },
    })
    hear(found[1] as Message)
    await idle()
    expect(asked).toBeUndefined()
  })

  describe('of passes that nothing began', () => {
    const FIRSTS = 5
    const eventOf = (sequence: number, key = KEY, by = key.originator) =>
      message(sequence, subjects.event(key, 'cancel', by), { body: { v: 1 } })

    it('look each id up once, in whatever order its messages come, and read nothing', async () => {
      const { made, hear, idle, loads, looks } = reloads()
      const keys = Array.from({ length: 5_000 }, (_, i) => ({ ...KEY, id: `made-up-id-${i}` }))
      let sequence = 0
      for (let turn = 0; turn < 3; turn++) {
        for (const key of keys) hear(eventOf(++sequence, key))
        expect(made.backpressure()).toBeUndefined()
        await idle()
      }
      expect([loads(), looks()]).toEqual([0, keys.length * FIRSTS])
    })

    it('report each of their steps once, heard before, during or after the look', async () => {
      const { hear, idle, impossible, loads } = reloads()
      hear(returnOf(1))
      hear(returnOf(2))
      await Promise.resolve()
      hear(returnOf(3))
      await idle()
      hear(returnOf(4))
      await idle()
      expect([impossible, loads()]).toEqual([[1, 2, 3, 4], 0])
    })

    it('read a pass that begins after the look, and know that more of it was stored', async () => {
      const { made, hear, idle, loads } = reloads()
      expect(made.knows(KEY)).toBe(false)
      hear(eventOf(1))
      await idle()
      expect(made.knows(KEY)).toBe(true)
      hear(workOf(2))
      await idle()
      expect([loads(), made.knows(KEY)]).toEqual([1, false])
    })

    it('know of ids for which there was no room that more of them was stored', async () => {
      const { made, hear, idle, loads } = reloads({ most: 10 })
      const keys = Array.from({ length: 50 }, (_, i) => ({ ...KEY, id: `made-up-id-${i}` }))
      for (const [i, key] of keys.entries()) hear(eventOf(i + 1, key))
      await idle()
      expect(keys.filter((key) => !made.knows(key))).toEqual([])
      expect(made.knows(KEY)).toBe(false)
      hear(workOf(51, { key: { ...KEY, id: 'made-up-id-0' } }))
      await idle()
      expect(loads()).toBe(1)
    })

    it('read a pass whose first step is heard while they look', async () => {
      const answers: (() => void)[] = []
      const newest = () => new Promise((done) => answers.push(() => done(undefined)))
      const { made, hear, idle, loads } = reloads({ newest })
      hear(eventOf(1))
      while (answers.length < FIRSTS) await new Promise(setImmediate)
      hear(workOf(2))
      for (const answer of answers) answer()
      await idle()
      expect([loads(), made.knows(KEY)]).toEqual([1, false])
    })

    it('read what stream or archive may know', async () => {
      const inStream = reloads({ newest: async (subject) => (subject.startsWith('work') ? workOf(1).stored : undefined) })
      const archive = { sequencesOf: async () => [], messages: async () => [], mayBegin: async () => true } as unknown as Archive
      const inArchive = reloads({ archive })
      for (const { hear, idle, loads } of [inStream, inArchive]) {
        hear(eventOf(2))
        await idle()
        expect(loads()).toBe(1)
      }
    })

    it('take turns between senders', async () => {
      const order: string[] = []
      const { hear, idle } = reloads({
        newest: async (subject) => {
          const id = subject.split('.')[3] ?? ''
          if (order.at(-1) !== id) order.push(id)
          await new Promise(setImmediate)
          return undefined
        },
      })
      for (let i = 0; i < 500; i++) hear(eventOf(i + 1, { ...KEY, originator: 'mallory', id: `made-up-id-${i}` }))
      hear(eventOf(501))
      await idle()
      expect(order.indexOf(KEY.id)).toBeLessThan(80)
    })
  })
})

describe('a pass that needs indexes of the archive that are not read yet', () => {
  /** An archive whose indexes are read when `indexed` is called; the first attempt to read them fails. */
  function unread() {
    let read = false
    let prepares = 0
    let indexed: () => void = () => undefined
    const prepared = new Promise<void>((resolve) => {
      indexed = () => {
        read = true
        resolve()
      }
    })
    const sequencesOf = async () => {
      if (!read) throw new IndexesUnread(0, 600)
      return []
    }
    const prepare = () => (++prepares === 1 ? Promise.reject(new BusReadError('no answer', 'timeout')) : prepared)
    const archive = { sequencesOf, messages: async () => [], mayBegin: async () => true, finder: { prepare } }
    return { archive: archive as unknown as Archive, indexed }
  }

  it('waits for them, and holds up no other pass', async () => {
    const { archive, indexed } = unread()
    const stream = new Map([[KEY.id, [workOf(200).stored]]])
    const loaded: string[] = []
    const { made, hear, idle } = reloads({
      archive,
      position: () => 200,
      history: async ({ id }) => stream.get(id) ?? [],
      onLoaded: async ({ memory }) => loaded.push(memory.key.id) > 0,
    })
    // From several senders, so that together they have all places.
    for (let i = 1; i <= 150; i++) {
      const by = `scout${i % 3}`
      hear(returnOf(i, { key: { ...KEY, subagent: by, id: `made-up-id-${i}` }, by }))
    }
    hear(workOf(200))
    while (loaded.length === 0 || made.size > 150) await new Promise(setImmediate)
    expect([loaded, made.lowest]).toEqual([[KEY.id], 1])
    indexed()
    await idle()
    expect([new Set(loaded).size, made.lowest]).toEqual([151, undefined])
  })

  it('is loaded as soon as its first step is stored', async () => {
    const { archive } = unread()
    const stream: unknown[] = []
    let looks = 0
    const { made, hear, idle, loads } = reloads({
      archive,
      history: async () => {
        looks++
        return stream
      },
    })
    hear(returnOf(1))
    while (looks === 0) await new Promise(setImmediate)
    stream.push(workOf(2).stored)
    hear(workOf(2))
    await idle()
    expect([loads(), made.lowest]).toEqual([1, undefined])
  })
})
