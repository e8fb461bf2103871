import { Subjects } from '@passover/bus'
import { expect, test } from 'vitest'
import { type Begin, beginAttempt, ConsumerAges, type Delivered } from './begin.js'

const key = { originator: 'alice', subagent: 'audit', id: 'some-given-id' }
const STORED_AT = 10_000
const TIMEOUT_MS = 30_000

/** A worker that is given work anew, whose fence is stored; `meanwhile` happens while it is. */
function redelivered(meanwhile: (server: { now: number; measured: boolean }) => void) {
  const server = { now: STORED_AT + TIMEOUT_MS - 100, measured: false }
  const bus = {
    subjects: new Subjects(),
    connectedAt: () => 5_000,
    get clockMeasured() {
      return server.measured
    },
    journal: {
      last: () => Promise.resolve(undefined),
      advance: () => {
        meanwhile(server)
        return Promise.resolve({ ok: true, value: { kind: 'run', attempt: 2, guard: 7, proof: 7 } })
      },
    },
  }
  const source = { created: () => Promise.resolve(4_000) }
  const begin = {
    deps: { bus, clock: { now: () => server.now, monotonic: () => 0 } },
    agent: key.subagent,
    rules: { id_window_ms: 3_600_000, trust_fences: true },
    consumers: new ConsumerAges({ high: source, medium: source, low: source } as never, () => 0),
  } as unknown as Begin
  const delivery = { delivered: 2, sequence: 5, time: STORED_AT, headers: new Map(), consumer_sequence: 1 }
  const delivered = { key, slot: 'medium', delivery, max_attempts: 3, timeout_ms: TIMEOUT_MS, nonce: 'mine' } as unknown as Delivered
  return beginAttempt(begin, delivered)
}

test('begins when its fence is stored before the deadline', async () => {
  expect(await redelivered(() => undefined)).toMatchObject({ kind: 'run', attempt: 2 })
  expect(await redelivered((server) => Object.assign(server, { measured: true }))).toMatchObject({ kind: 'run' })
})

test('does not begin after the deadline, though the server’s time is known only since its fence is stored', async () => {
  const late = (server: { now: number; measured: boolean }) => Object.assign(server, { now: STORED_AT + TIMEOUT_MS, measured: true })
  expect(await redelivered(late)).toEqual({ kind: 'leave', why: 'over' })
})

test('while the server’s time is not known, no local time says that it is over', async () => {
  const later = (server: { now: number }) => Object.assign(server, { now: STORED_AT + TIMEOUT_MS })
  expect(await redelivered(later)).toMatchObject({ kind: 'run' })
})
