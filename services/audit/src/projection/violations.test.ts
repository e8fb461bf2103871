import { type Bus, decode } from '@passover/bus'
import { pino } from 'pino'
import { describe, expect, it } from 'vitest'
import { KEY, type Message, message, RULES, returnOf, subjects, workOf } from '../../testing/samples.js'
import { foldMessages } from '../pass/load-pass.js'
import { Violations } from './violations.js'

describe('Violations', () => {
  it('know their lowest however many wait, and let the reader wait for them', async () => {
    const never = new Promise<never>(() => undefined)
    const bus = { subjects, journal: { last: () => never } } as unknown as Bus
    const clock = { now: () => 0, monotonic: () => 0, after: () => ({ [Symbol.dispose]() {} }) }
    const violations = new Violations(bus, clock, pino({ level: 'silent' }))
    for (let i = 0; i < 200_000; i++) violations.report({ ...KEY, id: `given-id-${i % 100}` }, 300_000 - i, 'odd')
    expect(violations.lowest).toBe(100_001)
    const busy = violations.backpressure()
    expect(busy).toBeInstanceOf(Promise)
    violations.stop()
    await busy
  })

  describe('of a pass that is read again', () => {
    const fence = (sequence: number) => message(sequence, subjects.fence(KEY, KEY.subagent), { headers: { 'Passover-Attempt': '2' } })
    const recorded = (sequence: number, of: number, by = 'passover') =>
      message(sequence, subjects.event(KEY, 'violation', by), { body: { v: 1, sequence: of, what: 'fence after its end' } })

    /** What is told of it while nothing of it is in the stream any more: it was deleted, its violations included. */
    async function told(messages: Message[]) {
      const published: unknown[] = []
      const publish = async ({ data }: { data: Uint8Array }) => {
        const body = decode(data, 'application/msgpack')
        published.push(body.ok && (body.value as { sequence: number }).sequence)
        return { kind: 'stored', sequence: 100 }
      }
      const bus = { subjects, journal: { last: async () => undefined }, publish } as unknown as Bus
      const clock = { now: () => 0, monotonic: () => 0, after: () => ({ [Symbol.dispose]() {} }) }
      const violations = new Violations(bus, clock, pino({ level: 'silent' }))
      violations.reportLoaded({ memory: foldMessages({ key: KEY, asked: undefined }, messages, RULES), messages })
      await violations.settled()
      return published
    }
    const ended = [workOf(2), returnOf(3)]

    it('are told but for those that were', async () => {
      expect(await told([...ended, fence(4)])).toEqual([4])
      expect(await told([...ended, fence(4), fence(5), recorded(6, 5)])).toEqual([4])
      expect(await told([...ended, fence(4), recorded(5, 4)])).toEqual([])
    })

    it('are not told by the agent that made them', async () => {
      expect(await told([...ended, fence(4), recorded(5, 4, KEY.subagent)])).toEqual([4])
    })

    it('are a return of a pass that nobody knows', async () => {
      expect(await told([returnOf(4)])).toEqual([4])
      expect(await told([returnOf(4), recorded(5, 4)])).toEqual([])
    })
  })
})
