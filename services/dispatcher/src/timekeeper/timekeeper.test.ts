import type { StoredMessage } from '@passover/bus'
import type { Fact, PassKey, Step } from '@passover/schemas'
import { pino } from 'pino'
import { expect, test } from 'vitest'
import type { Context } from '../admission/context.js'
import { dispatcherOptions } from '../runtime/options.js'
import { Timekeeper } from './timekeeper.js'

const T0 = 1_700_000_000_000
const TIMEOUT_MS = 1_000
const LATER_MS = 60_000

type Hear = (stored: StoredMessage, fact: Fact) => void | Promise<void>

const keyOf = (name: string): PassKey => ({ originator: 'alice', subagent: 'audit', id: `${name}-given-id` })

/** Time that goes on when it is told to, with all that is due meanwhile. */
function timeOf() {
  let now = T0
  const due = new Set<{ at: number; fn: () => void }>()
  const after = (ms: number, fn: () => void) => {
    const one = { at: now + ms, fn }
    due.add(one)
    return { [Symbol.dispose]: () => void due.delete(one) }
  }
  const goOn = async (ms: number) => {
    const end = now + ms
    for (;;) {
      const [next] = [...due].filter(({ at }) => at <= end).sort((a, b) => a.at - b.at)
      if (!next) break
      due.delete(next)
      now = Math.max(now, next.at)
      next.fn()
      await settled()
    }
    now = end
  }
  return { clock: { now: () => now, monotonic: () => now - T0, after }, goOn }
}

async function settled(): Promise<void> {
  for (let n = 0; n < 5; n++) await new Promise(setImmediate)
}

/** A timekeeper of a stream that is handed to it by the test; `ended` are the passes for which it published an end. */
async function started({ endings = 2 } = {}) {
  const { clock, goOn } = timeOf()
  const readers: { hear: Hear; catchUp: () => void }[] = []
  const ended: string[] = []
  const stored: (() => void)[] = []
  const bus = {
    objects: async () => ({ get: async () => undefined, put: async () => undefined }),
    onReconnect: () => () => undefined,
    workload: async () => [],
    follow: async (_: unknown, hear: Hear) => {
      let catchUp: () => void = () => undefined
      const caughtUp = new Promise<void>((resolve) => {
        catchUp = resolve
      })
      readers.push({ hear, catchUp })
      return { caughtUp, [Symbol.asyncDispose]: async () => undefined }
    },
    journal: {
      advance: (key: PassKey) => {
        ended.push(key.id)
        return new Promise((resolve) => stored.push(() => resolve({ ok: true, value: { kind: 'mine' } })))
      },
    },
  }
  const options = dispatcherOptions.parse({ endings })
  const counters = { read: () => undefined, clear: () => undefined }
  const deps = { bus, clock, random: { bytes: (n: number) => new Uint8Array(n) }, log: pino({ level: 'silent' }) }
  const shared = { deps, options, rules: { id_window_ms: 3_600_000 }, counters, stats: { ended: 0 }, nonce: () => 'n' }
  const timekeeper = await Timekeeper.start(shared as unknown as Context)
  const reader = (n: number) => {
    const one = readers[n]
    if (!one) throw new Error(`no reader ${n}`)
    return one
  }
  /** Hands on the work step of a pass, by a reader. */
  const work = async (by: number, sequence: number, name: string) => {
    const fact: Step = {
      type: 'step',
      kind: 'work',
      key: keyOf(name),
      by: 'medium',
      sequence,
      time: T0,
      attempt: 0,
      timeout_ms: TIMEOUT_MS,
    }
    await reader(by).hear({ sequence, time: T0 } as StoredMessage, fact)
  }
  const caughtUp = async (by: number) => {
    reader(by).catchUp()
    await settled()
  }
  const dispose = async () => {
    for (const store of stored) store()
    await timekeeper[Symbol.asyncDispose]()
  }
  return { work, caughtUp, goOn, ended, store: () => stored.shift()?.(), [Symbol.asyncDispose]: dispose }
}

test('a timekeeper whose stream rolled back ends nothing before it has read it again', async () => {
  await using keeper = await started()
  await keeper.work(0, 9, 'first')
  await keeper.caughtUp(0)
  await keeper.work(0, 1, 'other')
  await keeper.work(1, 1, 'other')
  await keeper.goOn(LATER_MS)
  expect(keeper.ended).toEqual([])
  await keeper.caughtUp(1)
  await keeper.goOn(1)
  expect(keeper.ended).toEqual([keyOf('other').id])
})

test('nor does it begin what waited to be ended before, or leave it out then', async () => {
  await using keeper = await started({ endings: 1 })
  await keeper.work(0, 8, 'first')
  await keeper.work(0, 9, 'second')
  await keeper.caughtUp(0)
  await keeper.goOn(LATER_MS)
  expect(keeper.ended).toEqual([keyOf('first').id])
  await keeper.work(0, 1, 'second')
  keeper.store()
  await settled()
  await keeper.work(1, 1, 'second')
  expect(keeper.ended).toHaveLength(1)
  await keeper.caughtUp(1)
  await keeper.goOn(1)
  expect(keeper.ended).toEqual([keyOf('first').id, keyOf('second').id])
})
