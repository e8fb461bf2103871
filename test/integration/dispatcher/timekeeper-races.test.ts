import { type Bus, encode } from '@passover/bus'
import { HEADER, keyText, type PassKey, type Step } from '@passover/schemas'
import { describe, expect, test } from 'vitest'
import { CLOCK_MS, World } from '../../support/dispatcher/dispatcher.js'
import { openWork } from '../../support/dispatcher/open-work.js'
import { until } from '../../support/processes/until.js'

const RACES = 10_000
/** Passes that are raced for at a time. */
const WAVE = 2_000

/** Every return that was stored, by pass, in order. */
async function returnsIn(bus: Bus): Promise<Map<string, Step[]>> {
  const found = new Map<string, Step[]>()
  await using reader = await bus.follow({ filters: [bus.subjects.all('return')], headers_only: true }, (_, fact) => {
    if (fact.type !== 'step') return
    const text = keyText(fact.key)
    found.set(text, [...(found.get(text) ?? []), fact])
  })
  await reader.caughtUp
  return found
}

/** A worker's return, under its guard; whether the server took it, where it said so. */
async function giveBack(bus: Bus, key: PassKey, guard: number): Promise<boolean | undefined> {
  const { subjects } = bus
  const outcome = await bus.publish({
    subject: subjects.return(key, key.subagent),
    headers: { [HEADER.attempt]: '1', [HEADER.nonce]: `n${Math.random()}` },
    data: encode({ v: 1, output: { status: 'completed' } }),
    guard: { subject: subjects.journal(key), sequence: guard },
  })
  return outcome.kind === 'unknown' ? undefined : outcome.kind === 'stored'
}

describe('a result and its time-out', () => {
  // dbos-transact-ts#1205
  test(`race ${RACES} times: exactly one terminal return each time, and whoever was told that it is stored has it`, async () => {
    // Two of them: timekeepers race with one another as well.
    await using world = await World.start({ dispatchers: [{ admission: false }, { admission: false }] })
    const { bus } = world
    const returned = new Map<string, boolean>()
    for (let wave = 0; wave < RACES / WAVE; wave++) {
      const open = await openWork(world, { count: WAVE, timeout_ms: () => 2_000 + Math.random() * 1_000 })
      const racing = open.map(async ({ key, sequence, deadline }) => {
        // The timekeeper is a little late, by how much depends on the machine: each moment around then is tried.
        const at = deadline + Math.random() * 120 - 40
        await new Promise((then) => setTimeout(then, Math.max(0, at - bus.now())))
        const mine = await giveBack(bus, key, sequence)
        if (mine !== undefined) returned.set(keyText(key), mine)
      })
      await Promise.all(racing)
    }
    await until(() => world.dispatchers.every((one) => one.stats().open === 0), { what: 'all have ended', deadline_ms: 60_000 })
    const stored = await returnsIn(bus)
    expect(stored.size).toBe(RACES)
    const counts = [...stored.values()].map((returns) => returns.length)
    expect(Math.max(...counts)).toBe(1)
    const by = (who: string) => [...stored.values()].filter(([only]) => only?.by === who)
    const told = [...returned].filter(([text, mine]) => mine !== (stored.get(text)?.[0]?.by !== 'passover'))
    expect(told).toEqual([])
    expect(new Set(by('passover').map(([only]) => only?.code))).toEqual(new Set(['E010']))
    // Else it was no race.
    expect(by('passover').length).toBeGreaterThan(0)
    expect(by('audit').length).toBeGreaterThan(0)
  }, 240_000)
})

describe('many open passes', () => {
  test('5,000 of them, and a timekeeper that goes: the next one knows them all and ends each once, none before its time', async () => {
    await using world = await World.start({ dispatchers: [] })
    const { bus } = world
    const first = await world.dispatcher({ admission: false, snapshot_ms: 200 })
    const open = await openWork(world, { count: 5_000, timeout_ms: (n) => 6_000 + (n % 500) })
    // On a busy machine the first of them may be over before the last is read.
    const known = () => first.stats().open + first.stats().ended
    await until(() => known() === open.length, { what: 'it knows them all', deadline_ms: 60_000 })
    await until(async () => (await (await bus.objects('snapshots')).list()).length > 0, { what: 'a snapshot', deadline_ms: 60_000 })
    await first.drain(0)
    const second = await world.dispatcher({ admission: false })
    await until(() => second.stats().open === 0 && second.stats().position > 0, { what: 'all have ended', deadline_ms: 60_000 })
    const stored = await returnsIn(bus)
    const early = open.filter(({ key, deadline }) => (stored.get(keyText(key))?.[0]?.time ?? 0) < deadline - CLOCK_MS)
    expect(early).toEqual([])
    expect([...stored.values()].every((returns) => returns.length === 1)).toBe(true)
    expect(second.stats().ended + first.stats().ended).toBe(open.length)
  })
})
