import type { Bus } from '@passover/bus'
import { describe, expect, it } from 'vitest'
import type { Deps } from '../runtime/dependencies.js'
import { ReleaseWaiter } from './await-release.js'

const key = { originator: 'alice', subagent: 'audit', id: 'some-given-id' }
const EXPIRES_AT = 10_000

/** Waits for the release of an output while nobody decides. Returns what became of it, and what happens when the clock says `now`. */
function waits() {
  const state = { now: 0, known: true }
  let due: () => void = () => undefined
  const clock = {
    now: () => state.now,
    after(_ms: number, fn: () => void) {
      due = fn
      return { [Symbol.dispose]: () => undefined }
    },
  }
  const bus = {
    get clockKnown() {
      return state.known
    },
    ask: async () => undefined,
    onDecided: async () => ({ [Symbol.asyncDispose]: async () => undefined }),
  }
  const refused: string[] = []
  const waiter = new ReleaseWaiter({ bus: bus as unknown as Bus, clock: clock as unknown as Deps['clock'] } as Deps, 'alice')
  const storedReturn = { by: 'audit', sequence: 9, time: 1, content_type: undefined, data: new Uint8Array() }
  const wait = () => {
    const refuse = ({ code }: { code: string }) => void refused.push(code)
    waiter.wait({ key, why: 'it is partial', storedReturn, expires_at: EXPIRES_AT, deliver: () => undefined, refuse })
  }
  const settled = () => new Promise((later) => setImmediate(later))
  const at = async (now: number, known = true) => {
    Object.assign(state, { now, known })
    if (waiter.size === 0 && refused.length === 0) wait()
    else due()
    await settled()
    return refused
  }
  return at
}

describe('an output that nobody released', () => {
  it('is refused when it has expired and the audit has not answered for 30 s', async () => {
    const at = waits()
    expect(await at(0)).toEqual([])
    expect(await at(EXPIRES_AT + 29_999)).toEqual([])
    expect(await at(EXPIRES_AT + 30_000)).toEqual(['E013'])
  })

  // Found by simulation seed 96100274.
  it('is not refused by a local clock that was never compared with the server’s', async () => {
    const at = waits()
    expect(await at(EXPIRES_AT + 300_000, false)).toEqual([])
    expect(await at(5_000)).toEqual([])
    expect(await at(EXPIRES_AT + 30_000)).toEqual(['E013'])
  })
})
