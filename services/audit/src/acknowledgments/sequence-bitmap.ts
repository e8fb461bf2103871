import { z } from 'zod'

/** Number of sequences per entry. */
export const CHUNK_SIZE = 65_536
const BYTES = CHUNK_SIZE / 8
/** Maximum number of set bits for which a chunk is stored as a list of positions. Most originators have few returns in a chunk. */
const SPARSE = BYTES / 2

/** One bit per sequence. */
export type Chunk = Uint8Array

const bytes = z.custom<Uint8Array>((value) => value instanceof Uint8Array && value.length <= BYTES)
/** `places`: the ascending positions of set bits, two bytes each. `bits`: the whole bitmap. */
export const chunkEntry = z.union([z.object({ v: z.literal(1), places: bytes }), z.object({ v: z.literal(1), bits: bytes })])
export type ChunkEntry = z.infer<typeof chunkEntry>

export function chunkOf(sequence: number): number {
  return Math.floor(sequence / CHUNK_SIZE)
}

export function emptyChunk(): Chunk {
  return new Uint8Array(BYTES)
}

export function setBit(chunk: Chunk, sequence: number): void {
  const place = sequence % CHUNK_SIZE
  chunk[place >> 3] = (chunk[place >> 3] ?? 0) | (1 << (place & 7))
}

export function hasBit(chunk: Chunk, sequence: number): boolean {
  const place = sequence % CHUNK_SIZE
  return ((chunk[place >> 3] ?? 0) & (1 << (place & 7))) !== 0
}

export function mergeChunks(one: Chunk, other: Chunk): Chunk {
  return one.map((byte, at) => byte | (other[at] ?? 0))
}

/** Encodes a chunk. Equal chunks have equal entries, whichever process writes them. */
export function encodeChunk(chunk: Chunk): ChunkEntry {
  const places: number[] = []
  for (let at = 0; at < BYTES; at++) {
    const byte = chunk[at] ?? 0
    if (byte === 0) continue
    for (let bit = 0; bit < 8; bit++) if (byte & (1 << bit)) places.push(at * 8 + bit)
    if (places.length > SPARSE) return { v: 1, bits: chunk }
  }
  const packed = new Uint8Array(places.length * 2)
  for (const [at, place] of places.entries()) {
    packed[at * 2] = place >> 8
    packed[at * 2 + 1] = place & 255
  }
  return { v: 1, places: packed }
}

export function decodeChunk(entry: ChunkEntry | undefined): Chunk {
  const chunk = emptyChunk()
  if (!entry) return chunk
  if ('bits' in entry) chunk.set(entry.bits)
  else {
    const { places } = entry
    for (let at = 0; at + 1 < places.length; at += 2) setBit(chunk, (places[at] ?? 0) * 256 + (places[at + 1] ?? 0))
  }
  return chunk
}
