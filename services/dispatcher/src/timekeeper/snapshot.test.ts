import { type Bus, decode, encode, type ObjectData, type ObjectStore, type StoredMessage } from '@passover/bus'
import { OpenPasses } from '@passover/core'
import type { Step } from '@passover/schemas'
import { describe, expect, test } from 'vitest'
import { loadSnapshot, packSnapshot, storeSnapshot } from './snapshot.js'

const RULES = { id_window_ms: 3_600_000, look_after_ms: 5_000 }
const START = 1_700_000_000_000
const COUNT = 500
const SLICE = 100

function fold(): OpenPasses {
  const open = new OpenPasses(RULES)
  for (let n = 1; n <= COUNT; n++) {
    const key = { originator: 'alice', subagent: 'audit', id: `pass-${String(n).padStart(8, '0')}` }
    const step: Step = {
      type: 'step',
      kind: 'work',
      key,
      by: 'medium',
      sequence: 2 * n,
      time: START,
      attempt: 0,
      requested_at: START,
      timeout_ms: 1_000,
    }
    open.apply({ type: 'request', originator: 'bob', subagent: 'audit', sequence: 2 * n - 1, time: START })
    open.apply(step)
  }
  return open
}

function storeOf() {
  const objects = new Map<string, Uint8Array>()
  const store = {
    put: async (name: string, data: ObjectData) => {
      const pieces: Uint8Array[] = []
      for await (const piece of data as AsyncIterable<Uint8Array>) pieces.push(piece)
      objects.set(name, Buffer.concat(pieces))
    },
    get: async (name: string) => objects.get(name),
  } as unknown as ObjectStore
  const message = async (sequence: number) => ({ sequence, time: START }) as StoredMessage
  return { store, objects, bus: { journal: { message } } as unknown as Bus }
}

const known = (open: OpenPasses) => ({ open, advisories: [], decided: ['alice/audit/pass-00000001'], position: 2 * COUNT, time: START })

describe('a snapshot', () => {
  test('of many passes and requests lets others run while it is packed, and is whole', async () => {
    const open = fold()
    let turns = 0
    let packing = true
    const others = (async () => {
      while (packing) {
        await new Promise((resolve) => setImmediate(resolve))
        turns++
      }
    })()
    let rests = 0
    const rest = () => {
      rests++
      return new Promise<void>((resolve) => setImmediate(resolve))
    }
    const packed = await packSnapshot(known(open), { at_a_time: SLICE, rest })
    packing = false
    await others
    expect(turns).toBeGreaterThanOrEqual(8)
    const slices = 2 * (COUNT / SLICE) + 1
    expect(rests, 'after each slice but the last').toBe(slices - 1)
    const bytes = packed.reduce((sum, { length }) => sum + length, 0)
    expect(Math.max(...packed.map(({ length }) => length)), 'nothing joins them').toBeLessThan(bytes / 5)
    const { store, bus } = storeOf()
    expect(await storeSnapshot(store, 0, { packed, rest })).toBe(1)
    const found = await loadSnapshot(bus, store, RULES)
    expect(found).toMatchObject({ position: 2 * COUNT, decided: ['alice/audit/pass-00000001'], turn: 1 })
    expect(found?.open.snapshot()).toEqual(open.snapshot())
  })

  test('of nothing is one too', async () => {
    const { store, bus } = storeOf()
    await storeSnapshot(store, 0, { packed: await packSnapshot(known(new OpenPasses(RULES))) })
    expect((await loadSnapshot(bus, store, RULES))?.open.size).toBe(0)
  })

  test('with a slice that cannot be read is none', async () => {
    const { store, bus } = storeOf()
    const body = decode(Buffer.concat(await packSnapshot(known(fold()), { at_a_time: SLICE })), 'msgpack')
    if (!body.ok) throw new Error('not packed')
    const snapshot = body.value as { slices: Uint8Array[] }
    snapshot.slices[1] = Uint8Array.of(0xc1)
    await storeSnapshot(store, 0, { packed: [encode(snapshot, 'msgpack')] })
    expect(await loadSnapshot(bus, store, RULES)).toBeUndefined()
  })
})
