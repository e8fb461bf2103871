import type { Bus } from '@passover/bus'
import { pino } from 'pino'
import { describe, expect, it } from 'vitest'
import { KEY, subjects } from '../testing/samples.js'
import { Violations } from './violations.js'

describe('Violations', () => {
  it('know their lowest however many wait, and let the reader wait for them', async () => {
    const never = new Promise<never>(() => undefined)
    const bus = { subjects, journal: { last: () => never } } as unknown as Bus
    const clock = { now: () => 0, monotonic: () => 0, after: () => ({ [Symbol.dispose]() {} }) }
    const violations = new Violations(bus, clock, pino({ level: 'silent' }))
    for (let i = 0; i < 200_000; i++) violations.report({ ...KEY, id: `given-id-${i % 100}` }, 300_000 - i, 'odd')
    expect(violations.lowest).toBe(100_001)
    const busy = violations.busy()
    expect(busy).toBeInstanceOf(Promise)
    violations.stop()
    await busy
  })
})
