import {
  type ArchivedEvent,
  type ArchiveSource,
  decodeFrames,
  encodeErased,
  encodeFrame,
  type Frame,
  type InMemorySegment,
  sequenceOf,
} from '@passover/archive'
import { sha256 } from '@passover/schemas'

export const TAMPERS = ['change', 'drop', 'swap', 'duplicate', 'truncate'] as const
export type Tamper = (typeof TAMPERS)[number]

export interface Tampered {
  segments: InMemorySegment[]
  kind: Tamper
  /** The entries that may be named for it. */
  sequences: number[]
}

/** A source over segments in memory. */
export function sourceOf(segments: readonly InMemorySegment[]): ArchiveSource {
  const objects = new Map(segments.flatMap(({ entry, object, index }) => [[entry.object, object] as const, [entry.index, index] as const]))
  return { entries: async () => segments.map(({ entry }) => entry), object: async (name) => objects.get(name) }
}

/** Does something to one entry of one segment (whose frames are not packed). `seal`: the attacker makes the manifest fit. */
export function tamper(segments: readonly InMemorySegment[], random: () => number, seal: 'left' | 'rewritten' = 'left'): Tampered {
  const at = Math.floor(random() * segments.length)
  const segment = segments[at] as InMemorySegment
  const frames = [...decodeFrames(segment.object)].map((frame) => ({ sequence: sequenceOf(frame), bytes: bytesOf(frame) }))
  const n = Math.floor(random() * (frames.length - 1))
  const kind = TAMPERS[Math.floor(random() * TAMPERS.length)] as Tamper
  const one = frames[n] as (typeof frames)[number]
  const other = frames[n + 1] as (typeof frames)[number]
  let cut = 0
  if (kind === 'change') one.bytes = changed(one.bytes, random)
  else if (kind === 'drop') frames.splice(n, 1)
  else if (kind === 'swap') frames.splice(n, 2, other, one)
  else if (kind === 'duplicate') frames.splice(n, 0, one)
  else {
    frames.splice(n + 1)
    cut = Math.floor(random() * one.bytes.length)
  }
  const whole = Buffer.concat(frames.map(({ bytes }) => bytes))
  const object = cut > 0 ? whole.subarray(0, whole.length - cut) : whole
  const entry = seal === 'left' ? segment.entry : { ...segment.entry, sha256: sha256(object), count: frames.length }
  const swapped = segments.map((each, k) => (k === at ? { ...segment, object, entry } : each))
  return { segments: swapped, kind, sequences: [one.sequence, other.sequence] }
}

/** What an erasure leaves of entries: their digests, so that index and chain still fit. */
export function erase(segments: readonly InMemorySegment[], isErased: (event: ArchivedEvent) => boolean): InMemorySegment[] {
  return segments.map((segment) => {
    const frames = [...decodeFrames(segment.object)].map((frame) =>
      frame.kind === 'event' && isErased(frame.event) ? encodeErased(frame.event.sequence, frame.digest) : bytesOf(frame),
    )
    const object = Buffer.concat(frames)
    return { ...segment, object, entry: { ...segment.entry, sha256: sha256(object), size: object.length, raw_size: object.length } }
  })
}

function bytesOf(frame: Frame): Buffer {
  if (frame.kind === 'erased') throw new Error('nothing is erased here')
  return Buffer.from(encodeFrame(frame.event).bytes)
}

/** Another byte somewhere behind the length. */
function changed(bytes: Buffer, random: () => number): Buffer {
  const copy = Buffer.from(bytes)
  const at = 4 + Math.floor(random() * (copy.length - 4))
  copy[at] = ((copy[at] ?? 0) + 1 + Math.floor(random() * 255)) & 255
  return copy
}

/** A small generator of its own for each seed (mulberry32). */
export function randomOf(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}
