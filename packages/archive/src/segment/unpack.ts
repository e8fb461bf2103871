import { constants } from 'node:buffer'
import { createGunzip } from 'node:zlib'
import { SEGMENT_SIZE, SegmentDamaged } from './format.js'

const KIB = 1024
const MIB = 1024 * KIB
/** Maximum number of bytes of a segment's frames: one message of 1 MiB for each sequence, with room for its subject and the heads of its frame. */
export const MAX_RAW_BYTES = Math.min(SEGMENT_SIZE * (MIB + 4 * KIB), constants.MAX_LENGTH - MIB)
/** Bytes that are unpacked beyond the size in the manifest, so that an added entry can be named. */
const ADDED_BYTES = MIB

export interface Unpacked {
  /** The bytes up to the defect, or up to the limit. */
  bytes: Buffer
  damage: SegmentDamaged | undefined
  /** True if unpacking stopped at the limit. */
  exceeds: boolean
}

/**
 * Decompresses as much of an object as possible, but not much more than the manifest says: a few megabytes of gzip can stand for gigabytes, and an
 * archive may come from somebody else.
 */
export function unpackSegment(object: Uint8Array, { raw_size }: { raw_size: number }): Promise<Unpacked> {
  const said = Math.min(raw_size, MAX_RAW_BYTES)
  const limit = said + ADDED_BYTES
  return new Promise((done) => {
    const chunks: Buffer[] = []
    let size = 0
    const gunzip = createGunzip()
    const end = (damage: SegmentDamaged | undefined, exceeds = false) => done({ bytes: Buffer.concat(chunks), damage, exceeds })
    gunzip.on('data', (chunk: Buffer) => {
      if (size > limit) return
      size += chunk.length
      if (size <= limit) return void chunks.push(chunk)
      const text = said === raw_size ? 'bytes that its manifest says' : 'bytes that a segment may have'
      end(new SegmentDamaged(`its packed bytes are far more than the ${said} ${text}`, 0), true)
      gunzip.destroy()
    })
    gunzip.on('end', () => end(undefined))
    gunzip.on('error', (error) => end(new SegmentDamaged(`its packed bytes are damaged (${error.message})`, 0)))
    gunzip.end(object)
  })
}
