import type { PresenceRecord } from '@passover/schemas'
import { expect, it } from 'vitest'
import type { Deps } from '../runtime/dependencies.js'
import { Heartbeat } from './heartbeat.js'

/** A bucket with one place for every key that ends with the same letter, as the server has it. */
function bucket() {
  const places = new Map<string, { revision: number; instance: string }>()
  let revision = 0
  const update = async (key: string, { instance }: PresenceRecord, at: number) => {
    const place = key.slice(-1)
    if ((places.get(place)?.revision ?? 0) !== at) return undefined
    places.set(place, { revision: ++revision, instance })
    return revision
  }
  const remove = async (key: string, at: number) => places.get(key.slice(-1))?.revision === at && places.delete(key.slice(-1))
  return { places, table: { update, delete: remove } }
}

/** Fails where an entry is written whatever there is: of two workers with the same place only one would be shown as up. */
it('takes no place of another worker, and another place where its own was lost', async () => {
  const { places, table } = bucket()
  let now = 0
  // The first two names have the same place, the third one another.
  const names = [1, 1, 1, 1, 2, 3]
  const deps = {
    bus: { identity: 'audit', table: async () => table },
    clock: { monotonic: () => now, now: () => now, after: () => ({ [Symbol.dispose]: () => undefined }) },
    random: { bytes: (length: number) => new Uint8Array(length).fill(names.shift() ?? 9) },
  } as unknown as Deps
  const begin = () => Heartbeat.start(deps, { concurrency: 1, logger: () => undefined })
  const [one, two] = [await begin(), await begin()]
  const instances = () => new Set([...places.values()].map(({ instance }) => instance))
  one.tick(0)
  await expect.poll(() => places.size).toBe(1)
  two.tick(0)
  await expect.poll(() => places.size).toBe(2)
  const [lost = ''] = places.keys()
  places.set(lost, { revision: 1_000, instance: 'of an older worker' })
  now = 10_000
  one.tick(0)
  await expect.poll(() => places.size).toBe(3)
  expect([one.trouble, instances().has('of an older worker')]).toEqual([undefined, true])
  await two.stop()
  expect(places.size).toBe(2)
})

it('tells that it cannot be seen, but not while the server is lost, which is told by itself', async () => {
  const told: string[] = []
  let now = 0
  const bus = { identity: 'audit', connected: false, table: async () => ({ update: () => Promise.reject(new Error('refused')) }) }
  const deps = {
    bus,
    clock: { monotonic: () => now, now: () => now },
    random: { bytes: (length: number) => new Uint8Array(length) },
  } as unknown as Deps
  const presence = await Heartbeat.start(deps, { concurrency: 1, logger: ({ text }) => void told.push(text) })
  presence.tick(0)
  await expect.poll(() => presence.trouble).toContain('refused')
  expect(told).toEqual([])
  bus.connected = true
  now = 10_000
  presence.tick(0)
  await expect.poll(() => told).toEqual(['audit is working, but its heartbeat cannot be written: refused'])
})
