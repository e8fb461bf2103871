import { type PublishMessage, readHeaders, Subjects } from '@passover/bus'
import { PassOverError } from '@passover/core'
import { HEADER } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { makeRun, type Run, type RunStart, stopRun } from '../attempt/run.js'
import type { WorkerContext } from './handler-pass.js'
import { runHandler } from './run-handler.js'

const key = { originator: 'alice', subagent: 'audit', id: 'some-given-id' }
const STORED_AT = 10_000
const TIMEOUT_MS = 1_000

/** Runs a handler whose context has a part to load; `meanwhile` happens while it is loaded. */
async function load(meanwhile: (run: Run, clock: { time: number }) => void) {
  const server = { time: STORED_AT }
  const called: number[] = []
  const published: (string | undefined)[] = []
  const clock = { now: () => server.time, monotonic: () => server.time } as RunStart['clock']
  const bus = {
    subjects: new Subjects(),
    clockMeasured: true,
    parts: {
      fetch: async () => {
        meanwhile(run, server)
        return new Uint8Array()
      },
    },
    publish: async ({ headers }: PublishMessage) => {
      published.push(headers?.[HEADER.code])
      return { kind: 'stored' }
    },
  }
  const run = makeRun({
    key,
    delivery: { time: STORED_AT, headers: readHeaders('NATS/1.0\r\n') },
    content: { control: { timeout_ms: TIMEOUT_MS, policy: { max_context_size_bytes: 1 } }, parts: [{ name: 'context', size: 0 }] },
    nonce: 'mine',
    start: { kind: 'run', attempt: 1, guard: 5, proof: 5 },
    clock,
  } as unknown as RunStart)
  const worker = { deps: { bus, clock }, self: {}, agent: 'audit', logger: () => undefined } as unknown as WorkerContext
  const action = await runHandler(worker, run, () => {
    called.push(server.time)
    throw new Error('called')
  })
  return { action, called: called.length, published }
}

describe('a context whose last part is loaded', () => {
  it('in time begins the handler', async () => {
    expect(await load(() => undefined)).toEqual({ action: 'ack', called: 1, published: ['E011'] })
  })

  it('after the deadline begins no handler, and the pass ends with E010', async () => {
    const late = (_: Run, server: { time: number }) => {
      server.time = STORED_AT + TIMEOUT_MS
    }
    expect(await load(late)).toEqual({ action: 'ack', called: 0, published: ['E010'] })
  })

  it.each([
    ['ended', 'ack'],
    ['lost', 'leave'],
    ['drain', 'hand_back'],
  ] as const)('after the run was stopped (%s) begins no handler and publishes nothing', async (why, action) => {
    expect(await load((run) => stopRun(run, why, new PassOverError('E043', 'stopped')))).toEqual({ action, called: 0, published: [] })
  })
})
