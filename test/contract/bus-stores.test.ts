import type { Bus } from '@passover/bus'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { until } from '../support/processes/until.js'
import { BUS_MAKERS, type BusHome } from './bus-makers.js'

const TEXT = new TextEncoder()

let made = 0

/** What the product depends on of the tables and objects of its bus, put to every maker of one. */
describe.each(Object.entries(BUS_MAKERS))('what a bus over %s keeps', (_, make) => {
  let home: BusHome
  let bus: Bus

  beforeAll(async () => {
    home = await make()
    bus = await home.open('passover')
    await bus.ensureTopology()
  })
  afterAll(() => home[Symbol.asyncDispose]())

  test('a table creates once, changes by compare-and-set, and tells its watchers', async () => {
    const table = await bus.table('presence', z.object({ n: z.number() }))
    const name = `row${made++}`
    const seen: unknown[] = []
    await using watch = await table.watch((_, value) => seen.push(value?.n), name)
    await watch.ready
    const revision = await table.create(name, { n: 1 })
    expect(revision).toEqual(expect.any(Number))
    expect(await table.create(name, { n: 9 })).toBeUndefined()
    expect(await table.update(name, { n: 9 }, (revision ?? 0) + 7)).toBeUndefined()
    expect(await table.update(name, { n: 2 }, revision ?? 0)).toEqual(expect.any(Number))
    expect(await table.get(name)).toMatchObject({ key: name, value: { n: 2 } })
    const { revision: standing } = (await table.get(name)) ?? { revision: 0 }
    expect(await table.delete(name, standing - 1)).toBe(false)
    expect(await table.get(name)).toMatchObject({ value: { n: 2 } })
    expect(await table.delete(name, standing)).toBe(true)
    expect(await table.get(name)).toBeUndefined()
    expect(await table.create(name, { n: 3 })).toEqual(expect.any(Number))
    await until(() => seen.length === 4, { what: 'four changes are told' })
    expect(seen).toEqual([1, 2, undefined, 3])
    const entries: unknown[] = []
    for await (const { value } of table.entries(name)) entries.push(value)
    expect(entries).toEqual([{ n: 3 }])
  })

  test('a table is read whole, by its newest writes, by revision, and as bytes', async () => {
    const table = await bus.table('presence', z.object({ n: z.number() }))
    const names = [`row${made++}`, `row${made++}`]
    for (const [n, name] of names.entries()) await table.put(name, { n })
    const revision = await table.put(names[0] as string, { n: 7 })
    const newest: unknown[] = []
    for await (const { key, value } of table.newest(2)) newest.push([key, value.n])
    expect(newest).toEqual([
      [names[1], 1],
      [names[0], 7],
    ])
    expect(await table.at(revision)).toMatchObject({ key: names[0], value: { n: 7 } })
    const bytes = await table.bytesOf(names[0] as string)
    expect(bytes?.revision).toBe(revision)
    const read = new Map<string, Uint8Array>()
    await table.read(({ key, data }) => void (data && read.set(key, data)))
    expect(Buffer.from(read.get(names[0] as string) ?? [])).toEqual(Buffer.from(bytes?.data ?? [1]))
    expect(read.size).toBe((await table.extent()).entries)
    expect((await table.extent()).last).toBe(revision)
    await table.delete(names[0] as string)
    expect(await table.bytesOf(names[0] as string)).toEqual({ data: undefined, revision: revision + 1 })
    expect(await table.bytesOf('none')).toBeUndefined()
  })

  test('objects are kept whole', async () => {
    const store = await bus.objects('snapshots')
    await store.put('one', TEXT.encode('first'))
    await store.put('one', TEXT.encode('second'))
    expect(new TextDecoder().decode(await store.get('one'))).toBe('second')
    expect(await store.get('another')).toBeUndefined()
    expect(await store.info('one')).toMatchObject({ size: 6 })
    expect(await store.list()).toContain('one')
    await store.delete('one')
    expect(await store.get('one')).toBeUndefined()
  })
})
