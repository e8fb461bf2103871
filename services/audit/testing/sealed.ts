import { Archive, encodeFrame, eventOf, IndexBuilder, type Manifest, type ManifestEntry, segmentOf } from '@passover/archive'
import type { ObjectStore } from '@passover/bus'
import { sha256 } from '@passover/schemas'
import { type Message, T0 } from './samples.js'

/** An archive of the segments 0 to `newest` with these messages. Until all indexes are read, only the newest segment is searched. */
export function sealed(newest: number, messages: readonly Message[]): Archive {
  const objects = new Map<string, Uint8Array>()
  const entries = Array.from({ length: newest + 1 }, (_, k) => {
    const inside = messages.filter(({ stored }) => segmentOf(stored.sequence) === k)
    const index = new IndexBuilder()
    for (const { fact } of inside) index.add(fact, undefined)
    const frames = Buffer.concat(inside.map(({ stored }) => encodeFrame(eventOf(stored)).bytes))
    objects.set(`${k}.index`, index.encode(k)).set(`${k}.frames`, frames)
    const object = { object: `${k}.frames`, index: `${k}.index`, compression: 'none', sha256: sha256(frames) }
    return { k, ...object, first_time: T0, last_time: T0 } as ManifestEntry
  })
  const manifest = {
    newest: async () => entries.at(-1),
    all: async () => entries,
    entry: async (k: number) => entries[k],
    standing: async (k: number) => entries[k] && { entry: entries[k], revision: 1 },
  }
  const store = { get: async (name: string) => objects.get(name) }
  return new Archive(manifest as unknown as Manifest, store as unknown as ObjectStore, 1)
}
