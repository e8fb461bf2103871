import { type Clock, PassOverError } from '@passover/core'
import type { ErrorCode, WorkOutput } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import type { PassOverOptions } from './options.js'
import type { PassHandle } from './pass-handle.js'
import { passOverWithRetry } from './retry.js'

const options = { subagent: 'audit', reason: 'review', work_context: { objective: 'look' } }

/** A clock on which waiting takes no time, and which remembers how long was waited. */
function fakeClock() {
  const waits: number[] = []
  const clock: Clock = {
    now: () => 0,
    monotonic: () => 0,
    after(ms, fn) {
      waits.push(ms)
      queueMicrotask(fn)
      return { [Symbol.dispose]: () => undefined }
    },
  }
  return { clock, waits }
}

/** Passes that end as told, one after the other. */
function passing(ends: (ErrorCode | { code: ErrorCode; context: Record<string, unknown> } | 'ok')[]) {
  const { clock, waits } = fakeClock()
  const asked: PassOverOptions[] = []
  const again: string[] = []
  const next = (id: string): PassHandle => {
    const end = ends.shift()
    const result = () =>
      end === 'ok'
        ? Promise.resolve({ work_id: id } as WorkOutput)
        : Promise.reject(typeof end === 'string' ? new PassOverError(end, end) : new PassOverError(end?.code ?? 'E005', 'x', end?.context))
    // biome-ignore lint/suspicious/noThenProperty: stands for a handle.
    return { id, subagent: 'audit', then: (a: never, b: never) => result().then(a, b) } as unknown as PassHandle
  }
  return {
    waits,
    asked,
    again,
    how: {
      clock,
      passOver: (one: PassOverOptions) => next(`pass-${asked.push(one)}`),
      handle: (id: string) => {
        again.push(id)
        return next(id)
      },
    },
  }
}

describe('passOverWithRetry', () => {
  it('asks again with a new id that names the one before, after 1, 2 and 4 s', async () => {
    const world = passing(['E010', 'E011', 'E014', 'ok'])
    expect(await passOverWithRetry(world.how, { ...options, id: 'given-id-1' })).toEqual({ work_id: 'pass-4' })
    expect(world.waits).toEqual([1000, 2000, 4000])
    expect(world.asked.map(({ id, retry_of, attempts_made }) => [id, retry_of, attempts_made])).toEqual([
      ['given-id-1', undefined, undefined],
      [undefined, 'pass-1', 1],
      [undefined, 'pass-2', 2],
      [undefined, 'pass-3', 3],
    ])
  })

  it('gives up after three, with the last error', async () => {
    const world = passing(['E010', 'E010', 'E010', 'E011'])
    await expect(passOverWithRetry(world.how, options)).rejects.toMatchObject({ code: 'E011' })
    expect(world.asked).toHaveLength(4)
  })

  it('does not ask again after what asking cannot mend', async () => {
    for (const code of ['E001', 'E003', 'E005', 'E013', 'E043'] as const) {
      const world = passing([code])
      await expect(passOverWithRetry(world.how, options)).rejects.toMatchObject({ code })
      expect(world.asked).toHaveLength(1)
    }
  })

  it('counts the attempts that workers made', async () => {
    const world = passing([{ code: 'E011', context: { attempts: 3 } }, 'E010'])
    await expect(passOverWithRetry(world.how, options)).rejects.toMatchObject({ code: 'E010' })
    expect(world.asked).toHaveLength(2)
  })

  it('reads the same id again after E022, and waits as long as the error says', async () => {
    const world = passing(['E022', 'ok'])
    expect(await passOverWithRetry(world.how, options)).toEqual({ work_id: 'pass-1' })
    expect(world.again).toEqual(['pass-1'])
    const full = passing([{ code: 'E014', context: { retry_after_ms: 7_000 } }, 'ok'])
    await passOverWithRetry(full.how, options, { retry_delay_ms: 10 })
    expect(full.waits).toEqual([7_000])
  })

  it('stops when the signal is aborted', async () => {
    const stop = new AbortController()
    const world = passing(['E010', 'ok'])
    stop.abort()
    await expect(passOverWithRetry(world.how, { ...options, signal: stop.signal })).rejects.toMatchObject({ code: 'E010' })
    expect(world.asked).toHaveLength(1)
  })
})
