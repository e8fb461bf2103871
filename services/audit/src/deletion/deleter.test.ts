import type { Entry } from '@passover/bus'
import { sha256 } from '@passover/schemas'
import { pino } from 'pino'
import { expect, it } from 'vitest'
import { Deleter, type DeleterDeps } from './deleter.js'

const KEY = { originator: 'alice', subagent: 'audit', id: 'given-id-1' }

const EMPTY = { k: 0, last_time: 0, compression: 'none', sha256: sha256(new Uint8Array(0)) }

/** The manifest's bucket. */
function bucket() {
  const entries = new Map<string, Entry<unknown>>()
  let revision = 0
  const put = async (key: string, value: unknown) => {
    entries.set(key, { key, value, revision: ++revision })
    return revision
  }
  return {
    put,
    get: async (key: string) => entries.get(key),
    create: async (key: string, value: unknown) => (entries.has(key) ? undefined : await put(key, value)),
    update: async (key: string, value: unknown, at: number) => (entries.get(key)?.revision === at ? await put(key, value) : undefined),
    delete: async (key: string) => void entries.delete(key),
    async *entries(filter: string) {
      for (const entry of entries.values()) if (entry.key.startsWith(filter.slice(0, -1))) yield entry
    },
  }
}

// Fails where it goes on by what it knew itself: what the other one left behind would be looked at by nobody.
it('that was overtaken by another process reads what that one left behind when it deletes again', async () => {
  const table = bucket()
  const bus = {
    bounds: async () => ({ first: 1, last: 1 }),
    usage: async () => ({ requests: 'open' }),
    now: () => 1_000_000,
    clockMeasured: true,
    table: async () => table,
  }
  const deps = {
    bus,
    archive: { passesIn: async () => [], finder: { complete: true } },
    manifest: { entry: async (k: number) => (k === 0 ? EMPTY : undefined) },
    objects: { get: async () => new Uint8Array(0) },
    clock: { monotonic: () => 0 },
    log: pino({ level: 'silent' }),
    rules: { id_window_ms: 1_000 },
    read: () => ({ sequence: 1, time: 0 }),
    unsealed: () => () => false,
    holder: 'one',
  } as unknown as DeleterDeps
  const deleter = await Deleter.open(deps)
  deleter.segments.run = async () => {
    await table.put('retention.state', { v: 1, retention: { next: 1, holder: 'other', until: 0 } })
    const passes = [{ key: KEY, why: 'dead_letter', due: 2_000_000 }]
    await table.put('retention.waiting.0', { v: 1, retention: { passes, advisories: [] } })
    return { left: { passes: [], advisories: [] }, texts: [] }
  }
  await deleter.look()
  expect(deleter.waiting).toBe(0)
  await deleter.look()
  expect([deleter.trouble, deleter.next, deleter.waiting]).toEqual([undefined, 1, 1])
})

it('deletes nothing until all indexes of the archive are read', async () => {
  const taken: string[] = []
  const finder = { complete: false }
  const bus = { clockMeasured: true, table: async () => ({ ...bucket(), get: async (key: string) => void taken.push(key) }) }
  const deleter = await Deleter.open({ bus, archive: { finder }, log: pino({ level: 'silent' }), holder: 'one' } as unknown as DeleterDeps)
  await deleter.look()
  expect([deleter.trouble, taken]).toEqual([undefined, []])
  finder.complete = true
  await deleter.look()
  expect(taken).toEqual(['retention.state'])
})

// Fails without the look at the clock: a lease and what is old would be judged by a clock that may be days ahead.
it('deletes nothing by a clock that was not measured at the server', async () => {
  const taken: string[] = []
  const bus = { clockMeasured: false, table: async () => ({ ...bucket(), get: async (key: string) => void taken.push(key) }) }
  const deleter = await Deleter.open({ bus, log: pino({ level: 'silent' }), holder: 'one' } as unknown as DeleterDeps)
  await deleter.look()
  expect([deleter.trouble, taken]).toEqual(['the server’s clock has not been measured; nothing is deleted until then', []])
})

// Fails where it goes on as wide as before: a server that answers late already would be asked for as much again.
it('that failed begins narrow again', async () => {
  const bus = { clockMeasured: false, table: async () => bucket() }
  const deleter = await Deleter.open({ bus, log: pino({ level: 'silent' }), holder: 'one' } as unknown as DeleterDeps)
  deleter.segments.pace.recordLatency(10_000)
  expect(deleter.segments.pace.concurrency).toBe(1_536)
  await deleter.look()
  expect(deleter.segments.pace.concurrency).toBe(128)
})
