import type { ObjectStore } from '@passover/bus'
import { sha256 } from '@passover/schemas'
import type { SegmentBuffer } from '../segment/buffer.js'
import { segmentName, segmentRange } from '../segment/format.js'
import { type Compression, writeBufferedSegment } from '../segment/write-segment.js'
import type { ManifestEntry } from './manifest.js'

/** A segment that was sealed in memory and not stored. */
export interface InMemorySegment {
  entry: ManifestEntry
  object: Uint8Array
  index: Uint8Array
}

/** Seals a buffered segment as the audit would. Used to save an archive into a folder, including the open segment at the end of the stream. */
export async function sealInMemory(
  buffer: SegmentBuffer,
  { chain_before, compression = 'gzip' }: { chain_before: string; compression?: Compression },
): Promise<InMemorySegment> {
  const { k } = buffer
  const name = segmentName(k)
  let object: Uint8Array = new Uint8Array()
  const keep: Pick<ObjectStore, 'put'> = {
    put: async (_, data) => {
      if (data instanceof Uint8Array) object = data
    },
  }
  const { packed, prints } = await writeBufferedSegment(keep, buffer, { name: `${name}.frames`, chain_before, compression })
  const index = buffer.index.encode(k, prints)
  const entry: ManifestEntry = {
    v: 1,
    k,
    object: `${name}.frames`,
    index: `${name}.index`,
    compression,
    ...packed,
    index_sha256: sha256(index),
    chain_before,
    resume: segmentRange(k).first,
  }
  return { entry, object, index }
}
