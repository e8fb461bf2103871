import type { ObjectData } from './bus-stores.js'

/** Cuts bytes, or pieces of any size, into chunks of `size`. */
export async function* chunked(data: ObjectData, size: number): AsyncIterable<Uint8Array> {
  let rest: Uint8Array = new Uint8Array(0)
  const pieces = data instanceof Uint8Array ? [data] : (data as unknown as AsyncIterable<Uint8Array>)
  for await (const piece of pieces) {
    let from = 0
    if (rest.length > 0) {
      from = Math.min(piece.length, size - rest.length)
      rest = Buffer.concat([rest, piece.subarray(0, from)])
      if (rest.length < size) continue
      yield rest
    }
    for (; piece.length - from >= size; from += size) yield piece.subarray(from, from + size)
    rest = piece.subarray(from)
  }
  if (rest.length > 0) yield rest
}
