import { isMark, type ObjectStream } from './object-stream.js'

type Bucket = Pick<ObjectStream, 'chunk' | 'mark' | 'metas' | 'lastChunks' | 'fence' | 'removeChunks' | 'deleteMessage' | 'purge'>

interface Pieces {
  /** Last chunk of each upload without metadata, by upload id. */
  unnamed: Map<string, { sequence: number; time: number }>
  deleted: { sequence: number; nuid: string }[]
}

/**
 * Implements `ObjectStore.sweep`. Replicas may lag, and a writer may have been suspended: an apparently abandoned upload is first fenced, so that its
 * metadata can no longer be stored, and is removed only if no metadata was stored before. Throws without removing uploads if that cannot be
 * determined.
 */
export async function sweep(bucket: Bucket, before: number): Promise<string[]> {
  const { unnamed, deleted } = await readPieces(bucket)
  for (const { nuid } of deleted) {
    unnamed.delete(nuid)
    await bucket.removeChunks(nuid)
  }
  // By sequence: another writer may store an object of that name again.
  for (const { sequence } of deleted) await bucket.deleteMessage(sequence)
  const fenced = new Map<string, number>()
  const going: string[] = []
  for (const [id, { sequence, time }] of unnamed) {
    const fence = time < before ? await bucket.fence(id, sequence) : undefined
    if (fence !== undefined) fenced.set(id, fence)
    else if (!isMark(id)) going.push(id)
  }
  if (fenced.size === 0) return going
  const still = (await readPieces(bucket)).unnamed
  for (const [id, fence] of fenced) {
    if (still.has(id)) await bucket.removeChunks(id)
    else {
      await bucket.deleteMessage(fence)
      going.push(id)
    }
  }
  return going
}

/** Reads the bucket as of the start of the call or later, from any replica. */
async function readPieces(bucket: Bucket): Promise<Pieces> {
  const pieces: Pieces = { unnamed: new Map(), deleted: [] }
  const mark = await bucket.mark()
  try {
    // In this order, the metadata of an upload that completes meanwhile is found.
    await bucket.lastChunks((id, { sequence, time }) => void pieces.unnamed.set(id, { sequence, time }), mark)
    await bucket.metas((meta, sequence) => {
      if (meta.deleted) pieces.deleted.push({ sequence, nuid: meta.nuid })
      else pieces.unnamed.delete(meta.nuid)
    }, mark)
  } finally {
    await bucket.purge(bucket.chunk(mark.id)).catch(() => undefined)
  }
  pieces.unnamed.delete(mark.id)
  return pieces
}
