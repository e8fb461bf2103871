import { deletionOrder } from '@passover/audit'
import type { PassKey, Step } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { sequenceOf, World } from '../../support/dispatcher/dispatcher.js'
import { until } from '../../support/processes/until.js'

/**
 * Rule 4 of docs/architecture/invariants.md#rules, by deleting by hand: a pass is deleted when its youngest message is older than two id windows, requests first,
 * then what never counted, then the steps in order, the return last. Stopped after any of these, the stream must still be read as it
 * was, or not at all, by whoever starts from nothing, and no guard of the pass's life may hold.
 */

const id_window_ms = 1_500
/** A request that nothing answers is answered when it should have been. */
const TIMEOUT_MS = 3_000
const rules = { id_window_ms }
let world: World
beforeAll(async () => {
  world = await World.start({ dispatchers: [] })
  await world.agent('audit')
})
afterAll(async () => {
  await world?.[Symbol.asyncDispose]()
})

interface Closed {
  key: PassKey
  requests: number[]
  steps: Step[]
  /** Sequences that guards named while it lived. */
  guards: number[]
}

/** A closed pass, asked for twice, with two attempts and a fence that never counted; older than two windows. */
async function closed(): Promise<Closed> {
  const dispatcher = await world.dispatcher({ id_window_ms })
  const { key, ...message } = world.request({ timeout_ms: TIMEOUT_MS })
  const requests = [sequenceOf(await world.bus.publish(message)), sequenceOf(await world.bus.publish(message))]
  const asked = world.bus.now()
  const { last: work } = await world.state(key, 'open')
  await world.untilAcknowledged()
  const stray = sequenceOf(await world.step('fence', key, { attempt: 7 }))
  const fence = sequenceOf(await world.step('fence', key, { attempt: 2, guard: stray }))
  sequenceOf(await world.step('return', key, { attempt: 2, guard: fence }))
  await dispatcher.drain(2_000)
  await until(() => world.bus.now() > asked + TIMEOUT_MS + 2 * id_window_ms, { what: 'it is old' })
  return { key, requests, steps: await world.bus.journal.read(key), guards: [work, stray, fence] }
}

/** Whether a dispatcher that starts from nothing, and every stale publisher, leaves the pass as it is. */
async function stays({ key, guards }: Closed): Promise<'as it was' | string> {
  const before = await world.bus.journal.read(key)
  for (const guard of before.length > 0 ? [0, ...guards] : guards) {
    for (const [kind, attempt] of [
      ['return', 1],
      ['return', 2],
      ['fence', 3],
    ] as const) {
      const outcome = await world.step(kind, key, { attempt, guard })
      if (outcome.kind === 'stored') return `a stale ${kind} was stored expecting ${guard}`
    }
  }
  const keeper = await withoutSnapshots()
  const { last } = await world.bus.bounds()
  await until(() => keeper.stats().position >= last, { what: 'it has read all' })
  // What it found to be due it is ending; this one is due after it.
  const marker = await world.ask({ timeout_ms: 300 })
  await world.end(marker)
  await keeper.drain(2_000)
  const after = await world.bus.journal.read(key)
  const added = after.filter(({ sequence }) => !before.some((one) => one.sequence === sequence))
  return added.length === 0 ? 'as it was' : `a reader from nothing stored ${added.map(({ kind, code }) => `${kind} ${code}`).join()}`
}

async function withoutSnapshots() {
  const store = await world.bus.objects('snapshots')
  for (const name of await store.list()) await store.delete(name)
  return world.dispatcher({ id_window_ms, look_after_ms: 200 })
}

/** Deletes in that order and looks after each. */
async function deleteLooking(pass: Closed, order: number[]): Promise<string[]> {
  const seen: string[] = []
  for (const sequence of order) {
    expect(await world.bus.journal.deleteMessage(sequence)).toBe(true)
    seen.push(await stays(pass))
    if (seen.at(-1) !== 'as it was') break
  }
  return seen
}

describe('rule 4: the order in which a pass is deleted', () => {
  // Fails with any other rank in deletionOrder (services/audit/src/deletion/deletion-order.ts): the return's 4 made 0, what never counted 5, steps the other way round.
  test('requests, what never counted, the steps, the return: stopped anywhere, nothing comes of it', async () => {
    const pass = await closed()
    const order = [...pass.requests, ...deletionOrder(pass.steps, rules)]
    expect(order).toHaveLength(6)
    expect(await deleteLooking(pass, order)).toEqual(order.map(() => 'as it was'))
    expect(await world.bus.journal.read(pass.key)).toEqual([])
  })

  test('the return before the steps: a second terminal return', async () => {
    const pass = await closed()
    const [work, stray, fence, end] = pass.steps.map(({ sequence }) => sequence) as [number, number, number, number]
    const seen = await deleteLooking(pass, [...pass.requests, stray, end, fence, work])
    expect(seen.at(-1)).toMatch(/^a stale return was stored|^a reader from nothing stored return E010/)
  })

  test('the steps before the requests: the request is answered once more, but only as expired (rule 5)', async () => {
    const pass = await closed()
    const order = [...deletionOrder(pass.steps, rules), ...pass.requests]
    expect((await deleteLooking(pass, order)).at(-1)).toBe('a reader from nothing stored return E005')
  })

  test('younger than a window: the same id is worked on a second time', async () => {
    const dispatcher = await world.dispatcher({ id_window_ms: 60_000 })
    const { key, ...message } = world.request()
    const request = sequenceOf(await world.bus.publish(message))
    const { last } = await world.state(key, 'open')
    const end = sequenceOf(await world.step('return', key, { attempt: 1, guard: last }))
    for (const sequence of [request, last, end]) await world.bus.journal.deleteMessage(sequence)
    sequenceOf(await world.bus.publish(message))
    // What must not be: that is why a pass stays for two windows.
    await world.state(key, 'open')
    await world.cancel(key)
    await world.end(key)
    await dispatcher.drain(2_000)
  })
})
