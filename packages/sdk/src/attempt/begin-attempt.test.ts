import { Subjects } from '@passover/bus'
import type { Step } from '@passover/schemas'
import { expect, test } from 'vitest'
import { type AttemptContext, beginAttempt, type WorkDelivery } from './begin-attempt.js'
import { ConsumerAges } from './consumer-ages.js'

const key = { originator: 'alice', subagent: 'audit', id: 'some-given-id' }
const STORED_AT = 10_000
const TIMEOUT_MS = 30_000
const DEADLINE = STORED_AT + TIMEOUT_MS
const FENCE = 7

interface Server {
  /** As the worker's clock says. */
  now: number
  measured: boolean
  monotonic: number
  /** What becomes of each look at the fence once it is stored; the last one stays. */
  looks: (() => { sequence: number; time: number } | undefined)[]
  looked: number
}

const found = (time: number, sequence = FENCE) => ({ sequence, time })
const inTime = () => found(DEADLINE - 100)
const tooLate = () => found(DEADLINE)

/** A worker that is given work anew, whose fence is stored; `meanwhile` happens while it is, and `shown` is what replicas show then. */
async function redelivered(meanwhile: (server: Server) => unknown, attempt = 2, shown?: Step[]) {
  const server: Server = { now: DEADLINE - 100, measured: false, monotonic: 0, looks: [inTime], looked: 0 }
  let fenced = false
  const bus = {
    subjects: new Subjects(),
    connectedAt: () => 5_000,
    get clockMeasured() {
      return server.measured
    },
    journal: {
      last: async () => (fenced ? server.looks[Math.min(server.looked++, server.looks.length - 1)]?.() : undefined),
      advance: (_key: unknown, plan: (steps: Step[]) => { done?: unknown }) => {
        fenced = true
        meanwhile(server)
        const done = shown && plan(shown).done
        if (done) return Promise.resolve({ ok: true, value: done })
        return Promise.resolve({ ok: true, value: { kind: 'run', attempt, guard: FENCE, proof: FENCE } })
      },
    },
  }
  const after = (ms: number, fn: () => void) => {
    server.monotonic += ms
    queueMicrotask(fn)
    return { [Symbol.dispose]() {} }
  }
  const source = { created: () => Promise.resolve(4_000) }
  const context = {
    deps: { bus, clock: { now: () => server.now, monotonic: () => server.monotonic, after } },
    agent: key.subagent,
    rules: { id_window_ms: 3_600_000, trust_fences: true },
    consumers: new ConsumerAges({ high: source, medium: source, low: source } as never, () => 0),
  } as unknown as AttemptContext
  const delivery = { delivered: 2, sequence: 5, time: STORED_AT, headers: new Map(), consumer_sequence: 1 }
  const delivered = {
    key,
    priority: 'medium',
    delivery,
    max_attempts: 3,
    timeout_ms: TIMEOUT_MS,
    nonce: 'mine',
    turn: async () => true,
  } as unknown as WorkDelivery
  return { begun: await beginAttempt(context, delivered), looked: server.looked }
}

const OVER = { kind: 'leave', why: 'over' }

test('begins when its fence is stored before the deadline', async () => {
  expect(await redelivered(() => undefined)).toMatchObject({ begun: { kind: 'run', attempt: 2 }, looked: 1 })
  expect(await redelivered((server) => Object.assign(server, { measured: true }))).toMatchObject({ begun: { kind: 'run' }, looked: 0 })
})

test('does not begin after the deadline, though the server’s time is known only since its fence is stored', async () => {
  const late = (server: Server) => Object.assign(server, { now: DEADLINE, measured: true })
  expect((await redelivered(late)).begun).toEqual(OVER)
})

test('while the server’s time is not known, no local time says that it is over', async () => {
  expect((await redelivered((server) => Object.assign(server, { now: DEADLINE }))).begun).toMatchObject({ kind: 'run' })
})

test('does not begin when its fence was stored after the deadline, though nothing else tells the server’s time', async () => {
  expect((await redelivered((server) => Object.assign(server, { looks: [tooLate] }))).begun).toEqual(OVER)
})

test('since its fence was acknowledged so much time has passed at least', async () => {
  const slow = (ms: number) => (server: Server) => {
    server.looks = [
      () => {
        server.monotonic += ms
        return inTime()
      },
    ]
  }
  expect((await redelivered(slow(99))).begun).toMatchObject({ kind: 'run' })
  expect((await redelivered(slow(100))).begun).toEqual(OVER)
})

test('does not begin while the deadline may have passed before its fence was acknowledged', async () => {
  const slow = (...looks: Server['looks']) => {
    return (server: Server) => Object.assign(server, { monotonic: server.monotonic + 100, looks: [inTime, ...looks] })
  }
  expect(await redelivered(slow())).toEqual({ begun: OVER, looked: 2 })
  const measured = (server: Server) => {
    const measure = () => void Object.assign(server, { measured: true })
    slow(measure)(server)
  }
  expect(await redelivered(measured)).toMatchObject({ begun: { kind: 'run', attempt: 2 }, looked: 2 })
  const quick = (server: Server) => Object.assign(server, { monotonic: server.monotonic + 99 })
  expect(await redelivered(quick)).toMatchObject({ begun: { kind: 'run', attempt: 2 }, looked: 1 })
})

test('looks for its fence until a replica shows it, or the server’s time is known', async () => {
  const fails = () => {
    throw new Error('no answer')
  }
  const lags = () => undefined
  const older = () => found(DEADLINE, FENCE - 1)
  expect(await redelivered((server) => Object.assign(server, { looks: [fails, lags, older, tooLate] }))).toEqual({ begun: OVER, looked: 4 })
  const known = (server: Server) => {
    const measure = () => void Object.assign(server, { now: DEADLINE, measured: true })
    server.looks = [lags, measure]
  }
  expect(await redelivered(known)).toEqual({ begun: OVER, looked: 2 })
})

test('begins nothing when nobody shows its fence', async () => {
  const { begun, looked } = await redelivered((server) => Object.assign(server, { looks: [() => undefined] }))
  expect(begun).toEqual({ kind: 'leave', why: 'unclear' })
  expect(looked).toBeGreaterThan(10)
})

test('a first attempt has no fence to look for', async () => {
  expect(await redelivered(() => undefined, 1)).toMatchObject({ begun: { kind: 'run', attempt: 1 }, looked: 0 })
})

test('does not take the return of an earlier use of the id, which a lagging replica still shows, for the end of its work', async () => {
  const step = (kind: Step['kind'], sequence: number, rest: Partial<Step>): Step => ({
    type: 'step',
    kind,
    key,
    by: 'passover',
    sequence,
    time: STORED_AT,
    attempt: 0,
    guard: { sequence: 0, subject: new Subjects().journal(key) },
    ...rest,
  })
  const work = step('work', 5, { by: 'medium' })
  const refused = (sequence: number) => step('return', sequence, { code: 'E003' })
  const begun = async (...shown: Step[]) => (await redelivered(() => undefined, 2, shown)).begun
  expect(await begun(refused(3), work)).toMatchObject({ kind: 'run' })
  expect(await begun(refused(3))).toEqual({ kind: 'leave', why: 'not_found' })
  expect(await begun(work, refused(6))).toEqual({ kind: 'ended' })
})
