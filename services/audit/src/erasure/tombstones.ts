import { type ErasedPass, sha256 } from '@passover/schemas'
import type { SessionPass } from './session-passes.js'

/** Of one tombstone, which travels as one message: entries of some 50 bytes. */
const MOST_ENTRIES = 8_000
const MOST_PASSES = 250

/** Tombstones of a bounded size; one pass may need several. */
export function* batches(passes: readonly SessionPass[]): Generator<ErasedPass[]> {
  let batch: ErasedPass[] = []
  let entries = 0
  for (const { key, frames, parts } of passes) {
    for (let at = 0; at < frames.length; at += MOST_ENTRIES) {
      const some = frames.slice(at, at + MOST_ENTRIES)
      if (batch.length >= MOST_PASSES || (batch.length > 0 && entries + some.length > MOST_ENTRIES)) {
        yield batch
        batch = []
        entries = 0
      }
      batch.push({ pass: sha256(key.id), frames: some, parts: at === 0 ? parts.map(placeOf) : [] })
      entries += some.length
    }
  }
  if (batch.length > 0) yield batch
}

function placeOf(part: string): [owner: string, token: string] {
  const slash = part.indexOf('/')
  return [part.slice(0, slash), part.slice(slash + 1)]
}

export function idsIn(stones: readonly ErasedPass[]): number {
  return new Set(stones.map(({ pass }) => pass)).size
}

/** The sequences of each pass in the order in which they leave the stream: what one tombstone has of it, and then what the next has. */
export function inPasses(stones: readonly ErasedPass[]): number[][] {
  const passes = new Map<string, number[]>()
  for (const { pass, frames } of stones) {
    const sequences = frames.map(([sequence]) => sequence)
    const known = passes.get(pass)
    if (known) for (const sequence of sequences) known.push(sequence)
    else passes.set(pass, sequences)
  }
  return [...passes.values()]
}
