import { Archive, IndexBuilder, type Manifest, type ManifestEntry, SEGMENT_SIZE } from '@passover/archive'
import type { ObjectStore } from '@passover/bus'
import { type Fact, keyText } from '@passover/schemas'
import { expect, it } from 'vitest'
import { LaterReferences } from './later-references.js'

const key = { originator: 'alice', subagent: 'audit', id: 'given-id-1' }

/** Three segments, the last of which speaks of the pass. */
function archive() {
  const objects = new Map<string, Uint8Array>()
  for (const k of [0, 1, 2]) {
    const index = new IndexBuilder()
    const fact: Fact = { type: 'event', kind: 'cancel', key, sender: 'alice', sequence: k * SEGMENT_SIZE, time: 0 }
    if (k === 2) index.add(fact, undefined)
    objects.set(`${k}`, index.encode(k))
  }
  const manifest = { entry: async (k: number) => (k <= 2 ? ({ k, index: `${k}` } as ManifestEntry) : undefined) }
  const store = { get: async (name: string) => objects.get(name) }
  const deps = { archive: new Archive(manifest as Manifest, store as unknown as ObjectStore), manifest }
  return { objects, ahead: new LaterReferences(deps, 1) }
}

it('knows which later segments speak of a pass', async () => {
  const { ahead: later } = archive()
  expect(await later.refresh(async () => true)).toBe(true)
  expect([0, 1, 2].map((k) => later.isReferencedAfter(keyText(key), k))).toEqual([true, true, false])
  later.forget([keyText(key)], 2)
  expect(later.size).toBe(0)
})

// Else a pass went though a later segment speaks of it: nobody would know.
it('does not take an index that is missing for one that speaks of nothing', async () => {
  const { ahead: later, objects } = archive()
  objects.delete('2')
  await expect(later.refresh(async () => true)).rejects.toThrow('object 2 is missing')
})

it('reads on only as long as that is wanted', async () => {
  const { ahead: later } = archive()
  expect(await later.refresh(async () => false)).toBe(false)
  expect(later.isReferencedAfter(keyText(key), 0)).toBe(false)
})
