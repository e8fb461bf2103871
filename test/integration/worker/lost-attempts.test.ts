import type { PassKey } from '@passover/schemas'
import type { Pass, WorkerEvent } from '@passover/sdk'
import type { FaultPoint, Faults } from '@passover/sdk/internal'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { sequenceOf } from '../../support/dispatcher/dispatcher.js'
import { staysTrue, until } from '../../support/processes/until.js'

/** Short, because most tests wait for leases to end; long enough that a worker on a busy machine renews its own in time. */
const LEASE_MS = 2_000

let world: AgentWorld
beforeAll(async () => {
  world = await AgentWorld.start({ dispatchers: [{ policy: { version: 1, document: { defaults: { lease_ms: LEASE_MS } } } }] })
})
afterAll(async () => {
  await world?.[Symbol.asyncDispose]()
})

const work_context = { objective: 'do it' }
/** A worker's log, of which what became of attempts is kept. */
function attemptsTold(): { log: (event: WorkerEvent) => void; told: WorkerEvent[] } {
  const told: WorkerEvent[] = []
  return { told, log: (event) => void ('attempt' in event && told.push(event)) }
}

const never = new Promise<void>(() => undefined)

/** Stops a worker for ever at a point: what a crash there leaves behind, as far as the stream can see. */
function crashAt(point: FaultPoint): Faults & { hit: boolean } {
  const faults = {
    hit: false,
    async at(here: FaultPoint) {
      if (here !== point) return
      faults.hit = true
      await never
    },
  }
  return faults
}

describe.concurrent('a worker lost between any two of its steps', () => {
  const points: { point: FaultPoint; attempts: number; ended_by: string }[] = [
    { point: 'worker:before-run', attempts: 2, ended_by: 'second' },
    { point: 'worker:after-run', attempts: 2, ended_by: 'second' },
    { point: 'worker:before-return', attempts: 2, ended_by: 'second' },
    { point: 'worker:after-return', attempts: 1, ended_by: 'first' },
    { point: 'worker:before-ack', attempts: 1, ended_by: 'first' },
  ]
  it.each(points.map((one, n) => ({ ...one, name: `lost${n}` })))(
    '$point: one terminal return, by the $ended_by worker',
    async ({ point, name, attempts, ended_by }) => {
      const alice = await world.agent('alice')
      const faults = crashAt(point)
      const first = await world.agent(name, faults)
      const runs: string[] = []
      const handler = (who: string) => (pass: Pass) => {
        runs.push(`${who} ${pass.attempt}`)
        return who
      }
      await first.onPass(handler('first'))
      const handle = alice.passOver({ subagent: name, reason: 'x', work_context, timeout_ms: 120_000 })
      await until(() => faults.hit, { what: `the first worker is at ${point}` })
      await world.die(first)
      const second = await world.agent(name)
      await using _worker = await second.onPass(handler('second'))
      const output = await handle
      expect(output.output).toBe(ended_by)
      expect(output.metadata.attempt).toBe(attempts)
      const key = { originator: 'alice', subagent: name, id: handle.id }
      const steps = await world.world.bus.journal.read(key)
      expect(steps.filter(({ kind }) => kind === 'return')).toHaveLength(1)
      // Nothing of it is run again later.
      const before = runs.length
      await staysTrue(() => runs.length === before, { what: 'no further run', for_ms: 1.2 * LEASE_MS })
    },
    180_000,
  )

  it('crashed between its fence and its run: the third attempt is the last', async () => {
    const alice = await world.agent('alice')
    const name = 'fenced'
    const one = crashAt('worker:before-run')
    const two = crashAt('worker:after-fence')
    const first = await world.agent(name, one)
    const second = await world.agent(name, two)
    await first.onPass(() => 'first')
    const handle = alice.passOver({ subagent: name, reason: 'x', work_context, timeout_ms: 120_000 })
    await until(() => one.hit, { what: 'first hit' })
    await world.die(first)
    await second.onPass(() => 'second')
    await until(() => two.hit, { what: 'second fenced', deadline_ms: 60_000 })
    await world.die(second)
    const third = await world.agent(name)
    await using _worker = await third.onPass((pass) => `third ${pass.attempt}`)
    expect((await handle).output).toBe('third 3')
  })
})

describe.concurrent('what a stale or dishonest worker tries', () => {
  it('an attempt that wakes after the next one returned is refused, and its output kept as late', async () => {
    const alice = await world.agent('alice')
    const stale = await world.agent('stale')
    const { bus } = world.world
    let wake: (text: string) => void = () => undefined
    const { log, told } = attemptsTold()
    await using _worker = await stale.onPass(
      () =>
        new Promise<string>((resolve) => {
          wake = resolve
        }),
      { log },
    )
    const handle = alice.passOver({ subagent: 'stale', reason: 'x', work_context })
    const key: PassKey = { originator: 'alice', subagent: 'stale', id: handle.id }
    const work = await world.world.work(key)
    expect(work.id).toBe(handle.id)
    const journal = await world.world.journal(key)
    const fence = sequenceOf(await world.world.step('fence', key, { attempt: 2, guard: journal.last }))
    wake('too late')
    await until(() => bus.journal.last(bus.subjects.event(key, 'late', 'stale')), { what: 'the late output' })
    expect((await world.world.journal(key)).state).toBe('open')
    const text = `stale: ${handle.id} from alice, attempt 1: discarded, another attempt returned`
    expect(told).toEqual([{ kind: 'discarded', pass: key, attempt: 1, why: 'lost', text }])
    await world.world.step('return', key, { attempt: 2, guard: fence })
    await expect(handle).rejects.toMatchObject({ code: 'E021' })
  })

  it('an unguarded return is not believed by its being heard, and a second one changes nothing', async () => {
    const alice = await world.agent('alice')
    const forger = await world.agent('forger')
    let go: (text: string) => void = () => undefined
    await using _worker = await forger.onPass(
      () =>
        new Promise<string>((resolve) => {
          go = resolve
        }),
    )
    const handle = alice.passOver({ subagent: 'forger', reason: 'x', work_context, timeout_ms: 5_000 })
    const key: PassKey = { originator: 'alice', subagent: 'forger', id: handle.id }
    await world.world.work(key)
    // A return of an attempt that never began.
    await world.world.step('return', key, { attempt: 7 })
    let settled = false
    void handle.then(
      () => {
        settled = true
      },
      () => {
        settled = true
      },
    )
    await staysTrue(() => !settled, { what: 'the forged return is not taken', for_ms: 1_000 })
    // What comes after it in the journal is not the honest return's guard any more: the pass ends at its deadline.
    go('honest')
    await expect(handle).rejects.toMatchObject({ code: 'E010' })
    expect(await world.world.state(key, 'done')).toMatchObject({ attempt: 1, return: { by: 'passover', code: 'E010' } })
  })
})

describe.concurrent('leases', () => {
  it('a handler that runs for longer than three leases runs once, though another worker waits for work', async () => {
    const alice = await world.agent('alice')
    let runs = 0
    const handler = async () => {
      runs += 1
      await new Promise((later) => setTimeout(later, 3.2 * LEASE_MS))
      return 'done'
    }
    await using _one = await (await world.agent('steady')).onPass(handler)
    await using _other = await (await world.agent('steady')).onPass(handler)
    expect((await alice.passOver({ subagent: 'steady', reason: 'x', work_context, timeout_ms: 120_000 })).metadata.attempt).toBe(1)
    expect(runs).toBe(1)
  })
})

describe('what a worker says of an attempt is what its pass ended with', () => {
  it('an output that is too large for a message failed, whoever thought it complete', async () => {
    const alice = await world.agent('alice')
    const wordy = await world.agent('wordy')
    const { log, told } = attemptsTold()
    // A summary does not travel apart, as text and artifacts do.
    const much = { status: 'completed' as const, summary: { findings: Array(40).fill('x'.repeat(60_000)) } }
    await using _worker = await wordy.onPass((pass) => (pass.reason === 'much' ? much : 'little'), { log })
    await expect(alice.passOver({ subagent: 'wordy', reason: 'much', work_context })).rejects.toMatchObject({ code: 'E014' })
    await alice.passOver({ subagent: 'wordy', reason: 'little', work_context })
    await until(() => told.length === 2, { what: 'both are told' })
    expect(told).toMatchObject([
      { kind: 'failed', error: { code: 'E014' } },
      { kind: 'returned', status: 'completed' },
    ])
  })

  it('a cancelled one is discarded, with the code of the pass; one that a drain broke off was handed back', async () => {
    const alice = await world.agent('alice')
    const slow = await world.agent('slow')
    const { log, told } = attemptsTold()
    let began = 0
    const handler = (pass: Pass) => {
      began += 1
      return new Promise<string>((_, reject) => pass.signal.addEventListener('abort', () => reject(pass.signal.reason)))
    }
    const worker = await slow.onPass(handler, { log })
    const cancelled = alice.passOver({ subagent: 'slow', reason: 'x', work_context })
    await until(() => began === 1, { what: 'it runs' })
    await cancelled.cancel('no more')
    await expect(cancelled).rejects.toMatchObject({ code: 'E043' })
    await until(() => told.length === 1, { what: 'its end is told' })
    const kept = alice.passOver({ subagent: 'slow', reason: 'x', work_context })
    await until(() => began === 2, { what: 'the next one runs' })
    await worker.drain(0)
    expect(told).toMatchObject([
      { kind: 'discarded', why: 'ended', error: { code: 'E043' }, pass: { id: cancelled.id } },
      { kind: 'discarded', why: 'handed_back', pass: { id: kept.id } },
    ])
    await kept.cancel()
    await expect(kept).rejects.toMatchObject({ code: 'E043' })
  })
})
