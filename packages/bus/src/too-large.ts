import { PART_INLINE_BYTES, PARTS_INLINE_BYTES } from '@passover/schemas'

/** What cannot stay in the message: what is over the limit by itself, then the largest until the rest fits beside `staying` bytes. */
export function tooLarge<Piece extends { size: number }>(pieces: readonly Piece[], staying = 0): Set<Piece> {
  const moved = new Set(pieces.filter(({ size }) => size > PART_INLINE_BYTES))
  let total = pieces.reduce((sum, piece) => (moved.has(piece) ? sum : sum + piece.size), staying)
  for (const piece of [...pieces].sort((a, b) => b.size - a.size)) {
    if (total <= PARTS_INLINE_BYTES) break
    if (moved.has(piece)) continue
    moved.add(piece)
    total -= piece.size
  }
  return moved
}
