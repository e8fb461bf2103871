import { type ErasedPass, sha256 } from '@passover/schemas'
import type { SessionPass } from './session-passes.js'

/** Maximum number of entries in one tombstone, which is a single message. An entry has about 50 bytes. */
const MAX_ENTRIES = 8_000
const MAX_PASSES = 250

/** Splits passes into tombstones of bounded size. One pass may need several. */
export function* tombstoneBatches(passes: readonly SessionPass[]): Generator<ErasedPass[]> {
  let batch: ErasedPass[] = []
  let entries = 0
  for (const { key, frames, parts } of passes) {
    for (let at = 0; at < frames.length; at += MAX_ENTRIES) {
      const some = frames.slice(at, at + MAX_ENTRIES)
      if (batch.length >= MAX_PASSES || (batch.length > 0 && entries + some.length > MAX_ENTRIES)) {
        yield batch
        batch = []
        entries = 0
      }
      batch.push({ pass: sha256(key.id), frames: some, parts: at === 0 ? parts.map(partLocation) : [] })
      entries += some.length
    }
  }
  if (batch.length > 0) yield batch
}

function partLocation(part: string): [owner: string, token: string] {
  const slash = part.indexOf('/')
  return [part.slice(0, slash), part.slice(slash + 1)]
}

export function countPasses(stones: readonly ErasedPass[]): number {
  return new Set(stones.map(({ pass }) => pass)).size
}

/** Returns the sequences of each pass in the order in which they leave the stream: those in its first tombstone, then those in the next. */
export function sequencesByPass(stones: readonly ErasedPass[]): number[][] {
  const passes = new Map<string, number[]>()
  for (const { pass, frames } of stones) {
    const sequences = frames.map(([sequence]) => sequence)
    const known = passes.get(pass)
    if (known) for (const sequence of sequences) known.push(sequence)
    else passes.set(pass, sequences)
  }
  return [...passes.values()]
}
