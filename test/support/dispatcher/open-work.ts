import { encode } from '@passover/bus'
import { HEADER, type PassKey } from '@passover/schemas'
import { sequenceOf, type World } from './dispatcher.js'

export interface OpenWork {
  key: PassKey
  /** Of its work step: what its return expects. */
  sequence: number
  /** Server ms. */
  deadline: number
}

const AT_ONCE = 1_000
const BODY = encode({ v: 1, control: {}, parts: [] })

/** Work steps as a dispatcher stores them, as far as headers tell (a timekeeper reads no more): so many passes are open at little cost. */
export async function openWork(world: World, how: { count: number; timeout_ms: (n: number) => number }): Promise<OpenWork[]> {
  const { bus } = world
  const open: OpenWork[] = []
  for (let from = 0; from < how.count; from += AT_ONCE) {
    const some = Array.from({ length: Math.min(AT_ONCE, how.count - from) }, async (_, n): Promise<[PassKey, number, number]> => {
      const key = { originator: 'alice', subagent: 'audit', id: world.id() }
      const timeout_ms = Math.round(how.timeout_ms(from + n))
      const outcome = await bus.publish({
        subject: bus.subjects.work(key, 'medium'),
        headers: { [HEADER.timeout]: String(timeout_ms), [HEADER.requestedAt]: String(bus.now()), [HEADER.nonce]: `w${Math.random()}` },
        data: BODY,
        guard: { subject: bus.subjects.journal(key), sequence: 0 },
      })
      return [key, sequenceOf(outcome), timeout_ms]
    })
    const stored = await Promise.all(some)
    const times = await timesOf(world, stored)
    for (const [key, sequence, timeout_ms] of stored) open.push({ key, sequence, deadline: (times.get(sequence) ?? 0) + timeout_ms })
  }
  return open
}

/** When each was stored, by the server. */
async function timesOf({ bus }: World, stored: [PassKey, number, number][]): Promise<Map<number, number>> {
  const times = new Map<number, number>()
  const from = Math.min(...stored.map(([, sequence]) => sequence))
  await using reader = await bus.follow({ filters: [bus.subjects.all('work')], from, headers_only: true }, ({ sequence, time }) => {
    times.set(sequence, time)
  })
  await reader.caughtUp
  return times
}
