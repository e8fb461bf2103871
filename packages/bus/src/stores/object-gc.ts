import { isMark, type ObjectStream } from './object-stream.js'

type Bucket = Pick<ObjectStream, 'chunk' | 'mark' | 'metas' | 'lastChunks' | 'fence' | 'removeChunks' | 'deleteMessage' | 'purge'>

interface Pieces {
  /** Where and when the last chunk was stored of each writing that nothing names, by its id. */
  unnamed: Map<string, { sequence: number; time: number }>
  deleted: { sequence: number; nuid: string }[]
}

/**
 * What `ObjectStore.sweep` promises. Replicas may lag, and a writer may have slept: what seems given up is fenced first, so that no name is
 * stored for it any more, and goes only where nothing named it before that. Throws, having taken nothing unnamed, where nobody can say so.
 */
export async function sweep(bucket: Bucket, before: number): Promise<string[]> {
  const { unnamed, deleted } = await readPieces(bucket)
  for (const { nuid } of deleted) {
    unnamed.delete(nuid)
    await bucket.removeChunks(nuid)
  }
  // By its sequence: somebody may write an object of that name anew.
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

/** As it was when it began, or later: from whatever replicas. */
async function readPieces(bucket: Bucket): Promise<Pieces> {
  const pieces: Pieces = { unnamed: new Map(), deleted: [] }
  const mark = await bucket.mark()
  try {
    // In this order: what is whole meanwhile is named by now.
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
