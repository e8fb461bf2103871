import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { deletePass } from '@passover/audit'
import { encode, openBus } from '@passover/bus'
import { HEADER, type PassKey, PRIORITIES, WIRE_VERSION } from '@passover/schemas'
import type { Pass, WorkerEvent } from '@passover/sdk'
import { createAgent, type Faults } from '@passover/sdk/internal'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { AgentWorld } from '../../support/dispatcher/agents.js'
import { clockOf, random, sequenceOf } from '../../support/dispatcher/dispatcher.js'
import { until } from '../../support/processes/until.js'

/**
 * Rules 1, 2, 5, 7 and 8 of docs/architecture/invariants.md#rules where the worker keeps them. Each test names the line without which it fails (tried by hand).
 * The dispatchers keep no time here: the timekeeper would hide a worker that breaks rule 7.
 */

let world: AgentWorld
beforeAll(async () => {
  world = await AgentWorld.start({ dispatchers: [{ timekeeper: false }], audit: false })
})
afterAll(async () => {
  await world?.[Symbol.asyncDispose]()
})

let names = 0
const newName = () => `ruled${++names}`
const steps = async (key: PassKey) =>
  (await world.world.bus.journal.read(key)).map(({ kind, attempt }) => (kind === 'fence' ? `fence ${attempt}` : kind))

/** Stands still at a point until it is told to go on. */
function stallAt(stall: string): Faults & { reached: boolean; go(): void } {
  let go = (): void => undefined
  const gone = new Promise<void>((resolve) => {
    go = resolve
  })
  const faults = {
    reached: false,
    go: () => go(),
    async at(point: string) {
      if (point !== stall) return
      faults.reached = true
      await gone
    },
  }
  return faults
}

/** A pass that was admitted before anybody works, so that its worker must read and fence. */
async function admitted(name: string): Promise<PassKey> {
  await world.world.agent(name)
  const key = await world.world.ask({ to: name })
  await world.world.state(key, 'open')
  return key
}

/** A worker that stands before its first read of the journal. */
async function standingBeforeRead(name: string, behind_ms = 0) {
  const faults = stallAt('worker:before-read')
  const bus = await openBus({ servers: world.world.nats.servers, identity: name })
  const agent = createAgent({ bus, clock: clockOf(bus, behind_ms), random, faults }, { directory: '/' })
  const runs: number[] = []
  const worker = await agent.onPass((pass: Pass) => {
    runs.push(pass.attempt)
    return 'done'
  })
  return {
    runs,
    end: () => agent[Symbol.asyncDispose](),
    untilThere: () => until(() => faults.reached, { what: 'it is about to read' }),
    async goesOn() {
      faults.go()
      await until(() => worker.running === 0, { what: 'it has decided' })
    },
  }
}

describe('rule 1: what a worker takes for its own', () => {
  // Fails without `if (first && view.fence) return { kind: 'leave', why: 'lost' }` in packages/sdk/src/attempt/decide-attempt.ts.
  test('a first delivery that finds a fence has lost: it neither runs nor fences', async () => {
    const name = newName()
    await world.world.agent(name)
    // By its clock, which goes ahead, nothing is young: it reads also what it runs first.
    const standing = await standingBeforeRead(name, -10_000)
    const key = await world.world.ask({ to: name })
    await standing.untilThere()
    const { last } = await world.world.state(key, 'open')
    sequenceOf(await world.world.step('fence', key, { attempt: 2, guard: last }))
    await standing.goesOn()
    expect(standing.runs).toEqual([])
    expect(await steps(key)).toEqual(['work', 'fence 2'])
    await standing.end()
  })

  // Fails without `&& view.fence.nonce === facts.nonce` in packages/sdk/src/attempt/decide-attempt.ts (any fence of its agent's name taken for its own).
  test('another delivery`s fence, by the same agent, is not its own: it begins the attempt after it', async () => {
    const name = newName()
    const key = await admitted(name)
    const standing = await standingBeforeRead(name)
    await standing.untilThere()
    const { last } = await world.world.journal(key)
    sequenceOf(await world.world.step('fence', key, { attempt: 2, guard: last, headers: { [HEADER.nonce]: 'of-another-delivery' } }))
    await standing.goesOn()
    expect(standing.runs).toEqual([3])
    expect(await steps(key)).toEqual(['work', 'fence 2', 'fence 3', 'return'])
    await standing.end()
  })

  // Fails without `if (view.work?.sequence !== facts.sequence) return { kind: 'leave', why: 'not_found' }` in packages/sdk/src/attempt/decide-attempt.ts.
  test('a read that does not find the work step itself begins nothing', async () => {
    const name = newName()
    const key = await admitted(name)
    const standing = await standingBeforeRead(name)
    await standing.untilThere()
    await deletePass(world.world.bus, key, { rules: { id_window_ms: 3_600_000 } })
    await standing.goesOn()
    expect(standing.runs).toEqual([])
    expect(await steps(key)).toEqual([])
    await standing.end()
  })
})

describe('rule 2: a worker fences unless it can be sure to be the first', () => {
  // Fails without `facts.stored_at > facts.connected_at` in isFirst (packages/sdk/src/attempt/decide-attempt.ts).
  test('work that is older than its connection is fenced, though it was never delivered before', async () => {
    const name = newName()
    const key = await admitted(name)
    const agent = await world.agent(name)
    const attempts: number[] = []
    await using _worker = await agent.onPass((pass: Pass) => {
      attempts.push(pass.attempt)
      return 'done'
    })
    await world.world.state(key, 'done')
    expect(attempts).toEqual([2])
    expect(await steps(key)).toEqual(['work', 'fence 2', 'return'])
  })

  // Fails without `facts.stored_at > consumer_created_at` in isFirst (packages/sdk/src/attempt/decide-attempt.ts).
  test('work that is older than its consumer, made anew since, is fenced', async () => {
    const name = newName()
    await world.world.agent(name)
    const agent = await world.agent(name)
    const key = await world.world.ask({ to: name })
    const { last } = await world.world.state(key, 'open')
    const nc = await connect({ servers: world.world.nats.servers })
    const manager = await jetstreamManager(nc)
    for (const priority of PRIORITIES) await manager.consumers.delete('PASSOVER', world.world.bus.subjects.workConsumer(name, priority))
    await nc.close()
    await world.world.bus.ensureAgent(name, { subagent: true, max_attempts: 3, lease_ms: 5_000, from: last })
    const attempts: number[] = []
    await using _worker = await agent.onPass((pass: Pass) => {
      attempts.push(pass.attempt)
      return 'done'
    })
    await world.world.state(key, 'done')
    expect(attempts).toEqual([2])
  })

  // Fails where work is delivered as often as it may be attempted (deliveriesOf in packages/bus/src/topology/configs.ts).
  test('deliveries that began nothing cost no attempt', async () => {
    const name = newName()
    const key = await admitted(name)
    await using lost = world.world.workSource('medium', name)
    for (let n = 0; n < 3; n += 1) await lost.pull({ batch: 1, expires_ms: 30_000 }, (delivery) => delivery.nak())
    const agent = await world.agent(name)
    const attempts: number[] = []
    await using _worker = await agent.onPass((pass: Pass) => {
      attempts.push(pass.attempt)
      return 'done'
    })
    await world.world.state(key, 'done')
    expect(attempts).toEqual([2])
  })

  test('work that is younger than both runs without a fence', async () => {
    const name = newName()
    const agent = await world.agent(name)
    await using _worker = await agent.onPass(() => 'done')
    const key = await world.world.ask({ to: name })
    await world.world.state(key, 'done')
    expect(await steps(key)).toEqual(['work', 'return'])
  })
})

describe('rule 7: who acknowledges a delivery leaves an ended journal, or a lost attempt', () => {
  // Fails with `active.delivery.ack()` as soon as the attempt has begun, in #runAttempt (packages/sdk/src/worker/worker-loop.ts).
  test('a worker that dies before its return has acknowledged nothing: another one does the work', async () => {
    const name = newName()
    const faults = stallAt('worker:before-return')
    const first = await world.agent(name, faults)
    await first.onPass(() => 'first')
    const key = await world.world.ask({ to: name })
    await until(() => faults.reached, { what: 'the first is before its return' })
    expect((await world.world.bus.workload(name)).map(({ running }) => running).reduce((a, b) => a + b)).toBe(1)
    await world.die(first)
    const second = await world.agent(name)
    await using _worker = await second.onPass(() => 'second')
    await world.world.state(key, 'done')
    expect(await steps(key)).toEqual(['work', 'fence 2', 'return'])
  })

  // Fails with `if (action === 'ack') active.delivery.ack()` taken out of #runAttempt (packages/sdk/src/worker/worker-loop.ts).
  test('what is ended is acknowledged, and comes to nobody again', async () => {
    const name = newName()
    const agent = await world.agent(name)
    await using _worker = await agent.onPass(() => 'done')
    await world.world.state(await world.world.ask({ to: name }), 'done')
    await until(async () => (await world.world.bus.workload(name)).every(({ queued, running }) => queued + running === 0), {
      what: 'it is acknowledged',
    })
  })
})

describe('rule 5 at the worker', () => {
  // Fails without the call of isLate in beginAttempt (packages/sdk/src/attempt/begin-attempt.ts).
  test('a work step that was stored after its id had expired is not run', async () => {
    const name = newName()
    const agent = await world.agent(name)
    const runs: string[] = []
    await using _worker = await agent.onPass((pass: Pass) => {
      runs.push(pass.id)
      return 'done'
    })
    // An honest work step, published again under an old id by a dispatcher that slept since the look.
    const honest = await world.world.ask({ to: name })
    await world.world.state(honest, 'done')
    const { bus } = world.world
    const [work] = await bus.journal.read(honest)
    const stored = await bus.journal.message(work?.sequence ?? 0)
    const late = { ...honest, id: world.world.id(bus.now() - 2 * 3_600_000) }
    const headers = { [HEADER.digest]: work?.digest ?? '', [HEADER.timeout]: '30000' }
    sequenceOf(
      await bus.publish({
        subject: bus.subjects.work(late, 'medium'),
        headers,
        data: Buffer.from(
          Buffer.from(stored?.data ?? [])
            .toString('latin1')
            .replace(honest.id, late.id),
          'latin1',
        ),
        guard: { subject: bus.subjects.journal(late), sequence: 0 },
      }),
    )
    // What comes after it is done; what it was delivered before has been decided.
    await world.world.state(await world.world.ask({ to: name }), 'done')
    expect(runs).not.toContain(late.id)
    expect(await steps(late)).toEqual(['work'])
  })
})

describe('past the deadline a worker returns nothing but E010', () => {
  const outputs: [string, (pass: Pass) => Promise<unknown>][] = [
    ['what its handler returns when it is aborted', async () => 'too late'],
    ['what it gives to pass.return()', (pass) => pass.return('too late').catch((error: { code: string }) => error.code)],
  ]
  // Fails without `isPastDeadline` in returnResult (packages/sdk/src/handler/result.ts): no timekeeper is here to be faster.
  test.each(outputs)('%s is kept as late', async (_, give) => {
    const name = newName()
    const agent = await world.agent(name)
    await using _worker = await agent.onPass(async (pass) => {
      await new Promise((aborted) => pass.signal.addEventListener('abort', aborted))
      return (await give(pass)) as string
    })
    const key = await world.world.ask({ to: name, timeout_ms: 1_000 })
    const { error, step } = await world.world.end(key)
    expect({ by: step.by, error }).toMatchObject({ by: name, error: { code: 'E010' } })
    const { journal, subjects } = world.world.bus
    const late = await until(() => journal.last(subjects.event(key, 'late', name)), { what: 'the late output' })
    expect(await world.world.body(late.sequence)).toMatchObject({ output: { output: 'too late' } })
  })
})

/** A worker whose exact gets show a replica that lags: no fence, and everything else. */
async function lagging(name: string, handler: (pass: Pass) => unknown, faults?: Faults) {
  const bus = await openBus({ servers: world.world.nats.servers, identity: name })
  const { journal, subjects } = bus
  const last = journal.last.bind(journal)
  const advance = journal.advance.bind(journal)
  journal.last = async (subject) => (subject.startsWith('fence.') ? undefined : last(subject))
  journal.advance = (key, plan, options) =>
    advance(
      key,
      (steps, ...more) =>
        plan(
          steps.filter(({ kind }) => kind !== 'fence'),
          ...more,
        ),
      options,
    )
  const agent = createAgent({ bus, clock: clockOf(bus, 0), random, ...(faults && { faults }) }, { directory: '/' })
  const worker = await agent.onPass(handler as (pass: Pass) => string)
  return {
    worker,
    /** Stores fence 2, and after it a message as the server stores its answers: it does not count. */
    async hidesAFence(key: PassKey): Promise<void> {
      const { last: before } = await world.world.journal(key)
      sequenceOf(await world.world.step('fence', key, { attempt: 2, guard: before }))
      sequenceOf(
        await world.world.bus.publish({
          subject: subjects.held(key),
          headers: { 'Nats-Stream': 'OBJ_parts_evil' },
          data: encode({ v: 1 }),
        }),
      )
    },
    end: () => agent[Symbol.asyncDispose](),
  }
}

describe('rule 8: a step that does not count proves nothing about the steps before it', () => {
  // Fails without `if (view.last !== view.valid)` in packages/sdk/src/attempt/decide-attempt.ts: attempt 2 begins twice.
  test('a worker whose replica hides a fence before such a step is refused by the server, reads it, and leaves the work', async () => {
    const name = newName()
    const key = await admitted(name)
    const faults = stallAt('worker:before-read')
    const runs: number[] = []
    const lags = await lagging(name, ({ attempt }) => runs.push(attempt), faults)
    await until(() => faults.reached, { what: 'it is about to read' })
    await lags.hidesAFence(key)
    faults.go()
    await until(() => lags.worker.running === 0, { what: 'it has decided' })
    expect(runs).toEqual([])
    expect(await steps(key)).toEqual(['work', 'fence 2', 'held'])
    await lags.end()
  })

  // Fails without `!run.unproved` in packages/sdk/src/handler/run-handler.ts: the newer attempt loses its delivery.
  test('a return that was stored after such a step does not acknowledge its delivery', async () => {
    const name = newName()
    await world.world.agent(name)
    const lags = await lagging(name, async (pass: Pass) => {
      await lags.hidesAFence({ originator: 'alice', subagent: name, id: pass.id })
      return 'done'
    })
    const key = await world.world.ask({ to: name })
    await until(async () => (await steps(key)).includes('return'), { what: 'it has returned' })
    await until(() => lags.worker.running === 0, { what: 'it is done' })
    expect(await steps(key)).toEqual(['work', 'fence 2', 'held', 'return'])
    const nc = await connect({ servers: world.world.nats.servers })
    const consumers = (await jetstreamManager(nc)).consumers
    expect((await consumers.info('PASSOVER', world.world.bus.subjects.workConsumer(name, 'medium'))).num_ack_pending).toBe(1)
    await nc.close()
    await lags.end()
  })
})

describe('work of a later version', () => {
  // Fails without `#rejectUnreadable` in packages/sdk/src/worker/worker-loop.ts.
  test('is given back, and its worker says why it cannot read it', async () => {
    const name = newName()
    const agent = await world.agent(name)
    const told: WorkerEvent[] = []
    const runs: string[] = []
    const handler = (pass: Pass) => {
      runs.push(pass.id)
      return 'done'
    }
    await using _worker = await agent.onPass(handler, { log: (event) => void told.push(event) })
    const { bus } = world.world
    const honest = await world.world.ask({ to: name })
    await world.world.state(honest, 'done')
    const [work] = await bus.journal.read(honest)
    const body = (await world.world.body(work?.sequence ?? 0)) as object
    const key = { ...honest, id: world.world.id() }
    const newer = await bus.publish({
      subject: bus.subjects.work(key, 'medium'),
      headers: { [HEADER.digest]: work?.digest ?? '', [HEADER.timeout]: '30000' },
      data: encode({ ...body, v: WIRE_VERSION + 1 }),
      guard: { subject: bus.subjects.journal(key), sequence: 0 },
    })
    const sequence = sequenceOf(newer)
    const text = `${name}: the work of ${key.id} from alice (sequence ${sequence}) cannot be read: it has version 2, but this worker reads only versions up to 1`
    const unread = () => told.filter(({ kind }) => kind === 'unread')
    await until(() => unread().length > 1, { what: 'it is offered again' })
    expect(unread()[0]).toEqual({ kind: 'unread', text, pass: key, sequence })
    expect(runs).toEqual([honest.id])
  })
})

describe('a return that only the audit can confirm', () => {
  // Fails without `unconfirmed` in packages/sdk/src/returns/evaluate-answer.ts.
  test('is told as stored, and not as one that nobody gave', async () => {
    const name = newName()
    await world.world.agent(name)
    const alice = await world.agent('alice')
    const handle = alice.passOver({ subagent: name, reason: 'x', work_context: { objective: 'o' }, timeout_ms: 1_000 })
    const key = { originator: 'alice', subagent: name, id: await handle.stored.then(() => handle.id) }
    let { last } = await world.world.state(key, 'open')
    // Of two fences an exact get shows the second one alone.
    for (const attempt of [2, 3]) last = sequenceOf(await world.world.step('fence', key, { attempt, guard: last }))
    const returned = sequenceOf(await world.world.step('return', key, { attempt: 3, guard: last }))
    const message = expect.stringContaining(`is stored (sequence ${returned})`)
    await expect(handle).rejects.toMatchObject({ code: 'E040', message, context: { returned } })
  })
})
