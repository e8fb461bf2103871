import { deletePass } from '@passover/audit'
import type { PassKey } from '@passover/schemas'
import { FAULT_POINTS } from '@passover/sdk/internal'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Installation, LEASE_MS, type OriginatorProcess, runsOf } from '../../support/dispatcher/installation.js'
import type { TestProcess } from '../../support/processes/processes.js'
import { until } from '../../support/processes/until.js'

/** Three times the lease bound of docs/architecture/invariants.md#promises (the lease times the attempts left, and a second): others use this machine too. */
const BOUND_MS = 3 * (3 * LEASE_MS + 1_000)

let here: Installation
let alice: OriginatorProcess
beforeAll(async () => {
  here = await Installation.start()
  alice = await here.originator()
})
afterAll(async () => {
  await here?.[Symbol.asyncDispose]()
})

let agents = 0
const newAgent = () => `worker${++agents}`
const kinds = async (key: PassKey) => (await here.world.bus.journal.read(key)).map(({ kind, by, attempt }) => `${kind} ${by} ${attempt}`)
const late = (key: PassKey) => here.world.bus.journal.last(here.world.bus.subjects.event(key, 'late', key.subagent))

/** One counted return of the pass, as the independent checker reads the stream. */
async function endedOnce(key: PassKey, attempt: number): Promise<void> {
  const found = (await here.judge()).passes.get(`${key.originator}/${key.subagent}/${key.id}`)
  expect(found).toMatchObject({ works: 1, returns: 1, ended: { by: key.subagent, attempt } })
}

/** Points that a first, young delivery passes; the others are those of a delivery that must be read and fenced. */
const DIRECT = ['before-run', 'after-run', 'before-return', 'after-return', 'before-ack', 'after-ack'] as const
const FENCING = ['before-read', 'before-fence', 'after-fence'] as const
/** Who dies there: which attempt returns in the end. */
const ENDED_BY: Record<(typeof DIRECT)[number] | (typeof FENCING)[number], { by: 'first' | 'second'; attempt: number }> = {
  'before-run': { by: 'second', attempt: 2 },
  'after-run': { by: 'second', attempt: 2 },
  'before-return': { by: 'second', attempt: 2 },
  'after-return': { by: 'first', attempt: 1 },
  'before-ack': { by: 'first', attempt: 1 },
  'after-ack': { by: 'first', attempt: 1 },
  'before-read': { by: 'second', attempt: 2 },
  'before-fence': { by: 'second', attempt: 2 },
  'after-fence': { by: 'second', attempt: 3 },
}

describe.concurrent('a worker process killed with SIGKILL between two of its steps, and another one after it', () => {
  test('every fault point of a worker is in a row', () => {
    const points = FAULT_POINTS.filter((point) => point.startsWith('worker:')).map((point) => point.slice('worker:'.length))
    expect(points.sort()).toEqual(Object.keys(ENDED_BY).sort())
  })

  test.each([...DIRECT])('worker:%s: one return, each attempt begun at most once', async (point) => {
    const agent = newAgent()
    const first = await here.worker(agent, 'first', { KILL_AT: `worker:${point}` })
    const pass = alice.pass(agent, 'echo')
    await killedThere(first, pass.key(), point)
  })

  test.each([...FENCING])('worker:%s: one return, each attempt begun at most once', async (point) => {
    const agent = newAgent()
    await here.register(agent)
    const pass = alice.pass(agent, 'echo')
    // Work older than its worker's connection: it must be read and fenced.
    await here.world.state(await pass.key(), 'open')
    const first = await here.worker(agent, 'first', { KILL_AT: `worker:${point}` })
    await killedThere(first, pass.key(), point)
  })

  async function killedThere(first: TestProcess, asked: Promise<PassKey>, point: keyof typeof ENDED_BY): Promise<void> {
    expect(await first.exited).toMatchObject({ signal: 'SIGKILL' })
    const key = await asked
    const second = await here.worker(key.subagent, 'second')
    const { by, attempt } = ENDED_BY[point]
    const done = await here.world.end(key, BOUND_MS)
    expect(done.step, JSON.stringify(done.error)).toMatchObject({ by: key.subagent, attempt })
    expect(JSON.parse(String((done.output as { output: string }).output))).toMatchObject({ by, attempt })
    const runs = runsOf(key.id, first, second)
    expect(new Set(runs).size, `runs: ${runs}`).toBe(runs.length)
    await endedOnce(key, attempt)
    // Rule 7: nothing of an ended pass is delivered for ever.
    await until(async () => (await here.world.bus.workload(key.subagent)).every(({ queued, running }) => queued + running === 0), {
      what: 'its delivery is acknowledged',
      deadline_ms: BOUND_MS,
    })
  }
})

describe.concurrent('worker processes that lose their lease', () => {
  test('killed in mid-pass: one return within the lease bound, attempt 2 by another worker', async () => {
    const agent = newAgent()
    const first = await here.worker(agent, 'first')
    const pass = alice.pass(agent, 'wait')
    await first.heard('run')
    await here.worker(agent, 'second')
    const killed = Date.now()
    await first.kill()
    expect(await pass.outcome()).toMatchObject({ output: { by: 'second', attempt: 2 } })
    expect(Date.now() - killed).toBeLessThan(BOUND_MS)
    await endedOnce(await pass.key(), 2)
  })

  test('stopped with SIGSTOP before its return, it wakes after attempt 2 has returned: refused by the server', async () => {
    const { key, first } = await stoppedBeforeReturn()
    const steps = await kinds(key)
    first.thaw()
    first.tell({ do: 'go' })
    await first.heard('gave')
    expect(await kinds(key)).toEqual(steps)
    expect(steps).toEqual([expect.stringMatching(/^work /), `fence ${key.subagent} 2`, `return ${key.subagent} 2`])
    await until(() => late(key), { what: 'its output is kept as late' })
    await endedOnce(key, 2)
  })

  test('the pass is deleted from the stream between attempt 2`s return and attempt 1`s: refused by the server', async () => {
    const { key, first } = await stoppedBeforeReturn()
    expect(await deletePass(here.world.bus, key, { rules: { id_window_ms: 3_600_000 } })).toBe(true)
    expect(await kinds(key)).toEqual([])
    first.thaw()
    first.tell({ do: 'go' })
    // To it a journal that reads as empty is no proof (an exact get may be behind): it tries for 15 s under its guard, then keeps its output as late.
    await until(() => late(key), { what: 'it gives up', deadline_ms: 45_000 })
    expect(await kinds(key)).toEqual([])
  })

  /** Attempt 1 has run and stands still before its return; attempt 2, by another worker, has returned. */
  async function stoppedBeforeReturn(): Promise<{ key: PassKey; first: TestProcess }> {
    const agent = newAgent()
    const first = await here.worker(agent, 'first', { STALL_AT: 'worker:before-return' })
    const pass = alice.pass(agent, 'echo')
    await first.heard('stalled')
    await first.freeze()
    const second = await here.worker(agent, 'second')
    expect(await pass.outcome()).toMatchObject({ output: { by: 'second', attempt: 2 } })
    const key = await pass.key()
    expect(runsOf(key.id, first, second)).toEqual([1, 2])
    return { key, first }
  }

  test('its event loop blocked past the lease: fenced, and its output kept as late', async () => {
    const agent = newAgent()
    const first = await here.worker(agent, 'first')
    const pass = alice.pass(agent, `block ${5 * LEASE_MS}`)
    await first.heard('run')
    const second = await here.worker(agent, 'second')
    first.tell({ do: 'block' })
    expect(await pass.outcome()).toMatchObject({ output: { by: 'second', attempt: 2 } })
    const key = await pass.key()
    await until(() => late(key), { what: 'the late output', deadline_ms: BOUND_MS })
    expect(runsOf(key.id, first, second)).toEqual([1, 2])
    await endedOnce(key, 2)
  })

  /** Attempt 1 has lost its lease, and goes on whatever its signal says; attempt 2 runs in another worker. */
  async function staleBeside(): Promise<{
    key: PassKey
    first: TestProcess
    second: TestProcess
    pass: ReturnType<OriginatorProcess['pass']>
  }> {
    const agent = newAgent()
    const first = await here.worker(agent, 'first', { DRAIN_MS: '300' })
    const pass = alice.pass(agent, `stale ${3 * LEASE_MS}`)
    await first.heard('run')
    const second = await here.worker(agent, 'second')
    first.tell({ do: 'block' })
    await second.heard('run', BOUND_MS)
    await first.heard('aborted', BOUND_MS)
    return { key: await pass.key(), first, second, pass }
  }

  test('a stale attempt can spawn no children, and hands nothing back that is the next one`s', async () => {
    await here.register('below')
    const { key, first, second, pass } = await staleBeside()
    expect(await first.heard('child', BOUND_MS)).toMatchObject({ code: 'E013' })
    first.signal('SIGTERM')
    expect(await first.exited).toEqual({ code: 0, signal: null })
    // Another lease long nothing is redelivered: the second attempt goes on holding its own.
    await new Promise((later) => setTimeout(later, LEASE_MS))
    second.tell({ do: 'release' })
    expect(await pass.outcome()).toMatchObject({ output: { by: 'second', attempt: 2 } })
    expect(await kinds(key)).toEqual([expect.stringMatching(/^work /), `fence ${key.subagent} 2`, `return ${key.subagent} 2`])
    await endedOnce(key, 2)
  })

  test('a stale attempt renews no lease: the next one dies, and a third begins within the bound', async () => {
    const { key, second, pass } = await staleBeside()
    const died = performance.now()
    await second.kill()
    const third = await here.worker(key.subagent, 'third')
    expect(await pass.outcome()).toMatchObject({ output: { attempt: 3 } })
    expect(performance.now() - died).toBeLessThan(BOUND_MS + 30_000)
    expect(third.running).toBe(true)
    await endedOnce(key, 3)
  })
})

describe.concurrent('a pass that kills its worker process', () => {
  // Fails where redeliveries run beside one another (Isolation in packages/sdk/src/worker/crash-isolation.ts), or a delivery that began nothing counts
  // as an attempt (deliveriesOf in packages/bus/src/topology/configs.ts).
  test('is ended with E011 alone: what ran beside it, and what its worker held, runs by itself and completes', async () => {
    const agent = newAgent()
    const workers = [await here.worker(agent, 'first')]
    // Eight run at a time; the others wait in the worker, or at the server.
    const some = (length: number) => Array.from({ length }, () => alice.pass(agent, 'beside'))
    const before = some(4)
    const poison = alice.pass(agent, 'poison')
    const others = [...before, ...some(7)]
    await until(() => workers[0]?.said('run').length === 8, { what: 'all places are taken', deadline_ms: BOUND_MS })
    workers[0]?.tell({ do: 'poison' })
    for (const attempt of [1, 2, 3]) {
      expect(await workers.at(-1)?.exited, `attempt ${attempt}`).toMatchObject({ signal: 'SIGKILL' })
      workers.push(await here.worker(agent, `after ${attempt}`))
    }
    expect(await poison.outcome(), 'the poison').toMatchObject({ code: 'E011', context: { attempts: 3 } })
    for (const other of others) expect(await other.outcome()).toMatchObject({ output: { attempt: expect.any(Number) } })
    // What no worker had before is not isolated. It may begin beside others, but not beside these.
    const suspects = new Set(workers[0]?.said('run').map(({ id }) => id))
    suspects.delete((await poison.key()).id)
    const told = workers.slice(1).flatMap((worker) => worker.events.filter(({ event, attempt }) => event === 'over' || Number(attempt) > 1))
    told.forEach(({ event, id }, at) => {
      if (event === 'run' && suspects.has(id)) expect(told[at + 1], `beside ${id}`).toMatchObject({ event: 'over', id })
    })
  })
})

describe.concurrent('worker processes that are told to end', () => {
  test('SIGTERM in mid-pass: it finishes and then ends', async () => {
    const agent = newAgent()
    const first = await here.worker(agent, 'first')
    const pass = alice.pass(agent, 'wait')
    await first.heard('run')
    first.signal('SIGTERM')
    first.tell({ do: 'release' })
    expect(await pass.outcome()).toMatchObject({ output: { by: 'first', attempt: 1 } })
    expect(await first.exited).toEqual({ code: 0, signal: null })
    await endedOnce(await pass.key(), 1)
  })

  test('SIGTERM with a handler that ignores its signal: handed back to another worker, and the process ends all the same', async () => {
    const agent = newAgent()
    const first = await here.worker(agent, 'first', { DRAIN_MS: '500' })
    const pass = alice.pass(agent, 'stubborn')
    await first.heard('run')
    const second = await here.worker(agent, 'second')
    first.signal('SIGTERM')
    expect(await first.heard('aborted')).toMatchObject({ code: 'E043' })
    expect(await first.exited).toEqual({ code: 0, signal: null })
    expect(await pass.outcome()).toMatchObject({ output: { by: 'second', attempt: 2 } })
    const key = await pass.key()
    expect(runsOf(key.id, first, second)).toEqual([1, 2])
    await endedOnce(key, 2)
  })

  test('a handler that ignores the end of its pass: the pass ends, and the process still drains', async () => {
    const agent = newAgent()
    const only = await here.worker(agent, 'only', { DRAIN_MS: '500' })
    const pass = alice.pass(agent, 'stubborn', { timeout_ms: 5_000 })
    expect(await pass.outcome()).toMatchObject({ code: 'E010' })
    await only.heard('aborted')
    only.signal('SIGTERM')
    expect(await only.exited).toEqual({ code: 0, signal: null })
  })
})

// By itself: a dozen processes that start beside it can take a worker's processor for so long that its lease runs out, and rightly so.
describe('a worker process that keeps its lease', () => {
  test('a handler that runs for 5 leases is executed once, with idle workers beside it', async () => {
    const agent = newAgent()
    const workers = await Promise.all([here.worker(agent, 'one'), here.worker(agent, 'two')])
    const pass = alice.pass(agent, `sleep ${5 * LEASE_MS}`)
    expect(await pass.outcome()).toMatchObject({ output: { attempt: 1 } })
    const key = await pass.key()
    expect(runsOf(key.id, ...workers)).toEqual([1])
    await endedOnce(key, 1)
  })
})

test('after all of this the independent checker finds nothing wrong in the stream', async () => {
  const { problems } = await here.judge()
  expect(problems).toEqual([])
})
