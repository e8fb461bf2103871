import { Subjects } from '@passover/bus'
import { describe, expect, it } from 'vitest'
import { makeRun, type RunStart } from '../attempt/run.js'
import type { WorkerContext } from '../handler/handler-pass.js'
import { watchRun } from './run-watchdog.js'

const STORED_AT = 10_000
const MINUTES_FAST = 300_000

interface Clocks {
  /** True once the server's time was measured. */
  known: boolean
  now: number
  monotonic: number
}

/** Begins a run at `from`, and sweeps once at `to`. Returns why the run was stopped, if it was. */
function swept(from: Clocks, to: Clocks, max_compute_time_ms?: number) {
  const at = { ...from }
  const clock = { now: () => at.now, monotonic: () => at.monotonic } as RunStart['clock']
  const bus = {
    subjects: new Subjects(),
    get clockKnown() {
      return at.known
    },
    clockMeasured: false,
    publish: () => new Promise(() => undefined),
  }
  const context = { deps: { bus, clock }, agent: 'audit', self: {}, logger: () => undefined } as unknown as WorkerContext
  const run = makeRun({
    key: { originator: 'alice', subagent: 'audit', id: 'some-given-id' },
    delivery: { time: STORED_AT, headers: new Map() },
    content: { control: { timeout_ms: 1_000, policy: { max_compute_time_ms } }, parts: [] },
    nonce: 'mine',
    start: { kind: 'run', attempt: 2, guard: 7, proof: 7 },
    clock,
  } as unknown as RunStart)
  run.startPublished = true
  Object.assign(at, to)
  watchRun(context, run, clock.now())
  return run.stop
}

describe('the sweep of a worker', () => {
  it('stops a run at its deadline', () => {
    const begun = { known: true, now: STORED_AT, monotonic: 0 }
    expect(swept(begun, { known: true, now: STORED_AT + 999, monotonic: 999 })).toBeUndefined()
    expect(swept(begun, { known: true, now: STORED_AT + 1_000, monotonic: 1_000 })).toBe('deadline')
  })

  it('stops no run by a local clock that was never compared with the server’s', () => {
    const begun = { known: false, now: STORED_AT + MINUTES_FAST, monotonic: 0 }
    expect(swept(begun, { ...begun, monotonic: 100 })).toBeUndefined()
  })

  it('measures the compute time of a run independently of corrections of the clock', () => {
    const slow = { known: false, now: STORED_AT - MINUTES_FAST, monotonic: 0 }
    expect(swept(slow, { known: true, now: STORED_AT + 500, monotonic: 100 }, 200)).toBeUndefined()
    const fast = { known: false, now: STORED_AT + MINUTES_FAST, monotonic: 0 }
    expect(swept(fast, { known: true, now: STORED_AT + 500, monotonic: 200 }, 200)).toBe('compute_time')
  })
})
