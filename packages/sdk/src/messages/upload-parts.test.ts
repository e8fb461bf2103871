import { BusReadError } from '@passover/bus'
import { type Part, sha256 } from '@passover/schemas'
import { expect, test } from 'vitest'
import type { Deps } from '../runtime/dependencies.js'
import { type UploadDeadline, uploadLargeParts } from './upload-parts.js'

const data = new Uint8Array(600_000)
const LARGE: Part = { name: 'file:a', hash: sha256(data), size: data.length, data }

/** Stores a part where the first tries fail for that reason. Time passes only while it waits. */
async function upload(
  failures: number,
  reason: BusReadError['reason'],
  { connected = true, ...patience }: Partial<UploadDeadline> & { connected?: boolean } = {},
) {
  let now = 0
  let tries = 0
  const bus = {
    connected,
    ask: async () => undefined,
    parts: {
      upload: async (_: string, parts: Part[]) => {
        tries += 1
        if (tries <= failures) throw new BusReadError('not stored', reason)
        return parts
      },
    },
  }
  const after = (ms: number, fn: () => void) => {
    now += ms
    queueMicrotask(fn)
    return { [Symbol.dispose]() {} }
  }
  const deps = { bus, clock: { now: () => now, monotonic: () => now, after } } as unknown as Deps
  const stored = await uploadLargeParts(deps, 'alice', { parts: [LARGE], deadline: { until: 30_000, ...patience } }).then(
    () => true,
    () => false,
  )
  return { stored, tries, waited: now }
}

test.each(['timeout', 'disconnected', 'no_responders'] as const)('tries again until the deadline what fails with %s', async (reason) => {
  expect(await upload(12, reason)).toMatchObject({ stored: true, tries: 13 })
  const { stored, waited } = await upload(1_000, reason)
  expect(stored).toBe(false)
  expect(waited).toBeGreaterThanOrEqual(30_000)
  expect(waited).toBeLessThan(31_001)
})

test('tries four times what the server refuses', async () => {
  expect(await upload(3, 'refused_by_server')).toMatchObject({ stored: true })
  expect(await upload(4, 'refused_by_server')).toMatchObject({ stored: false, tries: 4 })
})

test('gives a request up when there was no connection for five seconds, and a return only at its deadline or when it is to stop', async () => {
  const lost = { connected: false }
  expect((await upload(1_000, 'disconnected', lost)).waited).toBeLessThan(6_001)
  expect((await upload(1_000, 'disconnected', { ...lost, whatever_the_connection: true })).waited).toBeGreaterThanOrEqual(30_000)
  const stopped = { ...lost, whatever_the_connection: true, stopped: () => true } as const
  expect(await upload(1_000, 'disconnected', stopped)).toMatchObject({ stored: false, tries: 1 })
})
