import { encodeFrame, eventOf, type Manifest, type ManifestEntry } from '@passover/archive'
import { type ObjectStore, readHeaders } from '@passover/bus'
import type { Clock } from '@passover/core'
import { sha256 } from '@passover/schemas'
import { expect, it } from 'vitest'
import { SegmentPrefetch } from './segment-prefetch.js'

const headers = readHeaders('NATS/1.0\r\n\r\n')
const frame = Buffer.from(
  encodeFrame(eventOf({ sequence: 7, time: 1, subject: 'acknowledged.alice', headers, data: new Uint8Array() })).bytes,
)

/** `sealed` segments of one message each, and what was asked for. */
function archive(sealed: number) {
  const asked: string[] = []
  const state = { sealed, damaged: -1, removed: -1 }
  const manifest = {
    entry: async (k: number) =>
      k < state.sealed
        ? ({
            k,
            object: `o${k}`,
            compression: 'none',
            sha256: sha256(frame),
            last_time: k,
            ...(k === state.removed ? { removed: {} } : {}),
          } as ManifestEntry)
        : undefined,
  }
  const get = async (name: string) => {
    asked.push(name)
    return name === `o${state.damaged}` ? undefined : frame
  }
  return {
    asked,
    state,
    reading: new SegmentPrefetch({
      manifest: manifest as Manifest,
      objects: { get } as unknown as ObjectStore,
      clock: { monotonic: () => 0 } as unknown as Clock,
    }),
  }
}

const always = () => true

it('reads the next segment while one is gone through, each once', async () => {
  const { asked, reading: prefetch } = archive(3)
  const found: number[] = []
  for (let k = 0; k < 3; k++) {
    const segment = await prefetch.take(k, always)
    found.push(segment?.entry.k ?? -1, segment?.messages[0]?.sequence ?? -1)
  }
  expect(found).toEqual([0, 7, 1, 7, 2, 7])
  expect(asked).toEqual(['o0', 'o1', 'o2'])
  expect(await prefetch.take(3, always)).toBeUndefined()
})

it('looks again at what was not due, or not sealed, when it read ahead', async () => {
  const { state, reading: prefetch } = archive(1)
  expect((await prefetch.take(0, always))?.entry.k).toBe(0)
  state.sealed = 2
  expect(await prefetch.take(1, ({ last_time }) => last_time < 1)).toBeUndefined()
  expect((await prefetch.take(1, always))?.entry.k).toBe(1)
})

it('tells who takes it that it could not be read, and reads it anew the next time', async () => {
  const { state, reading: prefetch } = archive(2)
  state.damaged = 1
  await prefetch.take(0, always)
  await expect(prefetch.take(1, always)).rejects.toThrow('object o1 is missing')
  state.damaged = -1
  expect((await prefetch.take(1, always))?.entry.k).toBe(1)
})

it('has nothing of a segment that retention removed, and goes on behind it', async () => {
  const { asked, state, reading: prefetch } = archive(2)
  state.removed = 0
  expect(await prefetch.take(0, always)).toMatchObject({ messages: [] })
  expect((await prefetch.take(1, always))?.messages).toHaveLength(1)
  expect(asked).toEqual(['o1'])
})
