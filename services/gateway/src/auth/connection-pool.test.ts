import type { Bus } from '@passover/bus'
import type { Clock } from '@passover/core'
import type { Part } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { Actor } from './access.js'
import { ConnectionPool } from './connection-pool.js'

/** Time goes on by `pass`, and what fell due is called. */
function clockByHand() {
  let now = 0
  let due: (() => void)[] = []
  const after = (_: number, call: () => void) => {
    due.push(call)
    return { [Symbol.dispose]: () => undefined }
  }
  const pass = (ms: number) => {
    now += ms
    const calls = due
    due = []
    for (const call of calls) call()
  }
  return { clock: { now: () => now, monotonic: () => now, after } as unknown as Clock, pass }
}

function fakeBus(): Bus {
  const parts = { fetch: async ({ size }: Part) => new Uint8Array(size) }
  return { parts, closed: new Promise(() => {}), [Symbol.asyncDispose]: async () => undefined } as unknown as Bus
}

describe('a connection under the name of an owner', () => {
  it('is closed when nobody uses it, and not because one user said twice that it is done', async () => {
    const { clock, pass } = clockByHand()
    const bus = fakeBus()
    const pool = new ConnectionPool(() => Promise.resolve(bus), clock, { idle_ms: 100, identities: 1, output_bytes: 1_024 })
    const [one, other] = [await pool.hold('ann'), await pool.hold('ann')]
    one.release()
    one.release()
    pass(1_000)
    expect(pool.size).toBe(1)
    await expect(pool.hold('bob')).rejects.toMatchObject({ problem: { status: 503, code: 'E014' } })
    other.release()
    pass(1_000)
    expect(pool.size).toBe(0)
  })

  it('is lost when the server refuses it, and replaced for the next user', async () => {
    const { clock } = clockByHand()
    const made: ReturnType<typeof fakeBus>[] = []
    const connect = () => {
      made.push(fakeBus())
      return made.length < 3 ? Promise.resolve(made.at(-1) as Bus) : undefined
    }
    const pool = new ConnectionPool(connect, clock, { idle_ms: 100, identities: 2, output_bytes: 1_024 })
    const before = await pool.hold('ann')
    expect([before.lost(), (await pool.hold('ann')).bus]).toEqual([false, made[0]])
    Object.assign(made[0] as object, { denied: 'revoked' })
    const renewed = await pool.hold('ann')
    expect([before.lost(), renewed.lost(), renewed.bus === made[1]]).toEqual([true, false, true])
    Object.assign(made[1] as object, { denied: 'revoked' })
    await expect(pool.hold('ann')).rejects.toMatchObject({ problem: { status: 403, code: 'E013' } })
  })

  it('loads for one request no more parts than its budget, also where a handler does not ask', async () => {
    const { clock } = clockByHand()
    const pool = new ConnectionPool(() => Promise.resolve(fakeBus()), clock, { idle_ms: 100, identities: 1, output_bytes: 1_024 })
    const actor = new Actor(pool, { name: 'ann', kind: 'person', scopes: [], token: 't' }, 1_024)
    const load = (sizes: number[]) =>
      actor.as(async ({ parts }) => {
        for (const size of sizes) await parts.fetch({ name: 'p', hash: 'h', size })
      })
    await load([1_000, 24])
    await load([1_000])
    for (const sizes of [[1_000, 25], [1_025], [-1], [Number.NaN]]) await expect(load(sizes)).rejects.toMatchObject({ reason: 'too_large' })
  })
})
