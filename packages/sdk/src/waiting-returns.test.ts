import { type Delivery, encodeHeaders, readHeaders, Subjects, type Verdict } from '@passover/bus'
import { HEADER } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import type { Deps } from './deps.js'
import type { Returns } from './returns.js'
import { type WaitingListener, WaitingReturns } from './waiting-returns.js'

const subjects = new Subjects()

/** Hands deliveries to what tells of waiting returns. `acknowledged` is what the audit says. */
async function telling(listener: WaitingListener, acknowledged: () => number[] = () => []) {
  let take: (delivery: Delivery) => Promise<Verdict> = async () => ({ ok: true })
  const acked: number[] = []
  const bus = {
    identity: 'alice',
    subjects,
    consume: async (_: string, handler: typeof take) => {
      take = handler
    },
    isWaitedFor: async () => 'nobody',
    ask: async () => ({ v: 1, ok: true, returns: acknowledged() }),
  }
  const clock = { now: () => 1_000_000, monotonic: () => 0, after: (ms: number, run: () => void) => after(ms, run) }
  const returns = {
    holds: () => false,
    expect: (_: unknown, settle: (outcome: unknown) => void) => {
      queueMicrotask(() => settle({ ok: true, output: {} }))
      return { over: true }
    },
    adopt: async () => undefined,
    acknowledged: async (sequence: number) => void acked.push(sequence),
  }
  await WaitingReturns.start({ deps: { bus, clock } as unknown as Deps, returns: returns as unknown as Returns }, listener)
  const headers = readHeaders(encodeHeaders({ [HEADER.status]: 'completed' }))
  const data = new Uint8Array()
  const subject = subjects.return({ originator: 'alice', subagent: 'audit', id: 'some-given-id' }, 'audit')
  return { acked, hand: (sequence: number) => take({ subject, sequence, time: 0, headers, data } as Delivery) }
}

/** Long times never pass here. */
function after(ms: number, run: () => void): Disposable {
  if (ms < 1_000) queueMicrotask(run)
  return { [Symbol.dispose]: () => undefined }
}

describe('WaitingReturns', () => {
  it('tells a return once that comes again while its listener is slow, and after', async () => {
    const told: string[] = []
    let done = () => {}
    const slow = new Promise<void>((resolve) => {
      done = resolve
    })
    let began = () => {}
    const begun = new Promise<void>((resolve) => {
      began = resolve
    })
    const { hand, acked } = await telling(({ pass }) => {
      told.push(pass.id)
      began()
      return slow
    })
    const first = hand(7)
    await begun
    expect(await hand(7)).toEqual({ retry: true, delay_ms: 2_000 })
    done()
    expect(await first).toEqual({ ok: true })
    expect(await hand(7)).toEqual({ ok: true })
    expect({ told, acked }).toEqual({ told: ['some-given-id'], acked: [7] })
  })

  it('does not tell what another process told while it waited for its place', async () => {
    const told: string[] = []
    let asked = 0
    // Not known at first, then acknowledged by another.
    const { hand, acked } = await telling(
      ({ pass }) => void told.push(pass.id),
      () => (asked++ === 0 ? [] : [7]),
    )
    expect(await hand(7)).toEqual({ ok: true })
    expect({ told, acked }).toEqual({ told: [], acked: [] })
  })

  it('tells again what its listener threw at', async () => {
    let times = 0
    const { hand, acked } = await telling(() => {
      times += 1
      if (times === 1) throw new Error('not now')
    })
    expect(await hand(7)).toEqual({ retry: true, delay_ms: 2_000 })
    expect(await hand(7)).toEqual({ ok: true })
    expect({ times, acked }).toEqual({ times: 2, acked: [7] })
  })
})
