import { pino } from 'pino'
import { expect, it } from 'vitest'
import { KEY } from '../../testing/samples.js'
import { EarlyIdFilter } from './early-id-filter.js'

/** A filter whose scan fails; `retry` ends the wait after a failure. */
function failingScan() {
  const filter = new EarlyIdFilter(7)
  let tries = 0
  let retry: (() => void) | undefined
  const bus = {
    subjects: { allEvents: () => '', all: () => '' },
    bounds: async () => {
      tries++
      throw new Error('not connected')
    },
  }
  const clock = {
    after: (_ms: number, done: () => void) => {
      retry = done
    },
  }
  const deps = { bus, clock, log: pino({ level: 'silent' }) } as unknown as Parameters<EarlyIdFilter['scan']>[0]
  const scan = filter.scan(deps, 10)
  const failed = (count: number) => expect.poll(() => tries === count && retry).toBeTruthy()
  const again = () => {
    const run = retry
    retry = undefined
    run?.()
  }
  return { filter, scan, failed, again, tries: () => tries }
}

it('says that any pass may have begun before until a scan succeeds, and retries no scan once it is stopped', async () => {
  const { filter, scan, failed, again, tries } = failingScan()
  await failed(1)
  again()
  await failed(2)
  expect(filter.has(KEY)).toBe(true)
  filter.stop()
  again()
  await scan
  expect(tries()).toBe(2)
})
