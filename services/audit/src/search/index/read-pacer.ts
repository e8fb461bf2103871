import type { Clock } from '@passover/core'

/** Records read between two looks at the time, and how long at once: the reader of the stream comes first. */
const READS_PER_CHECK = 128
const MAX_SLICE_MS = 4

/** Paces a reader of the bucket, called for each record: a promise when it has to wait for as long as it has worked. */
export function createReadPacer({ monotonic, after }: Pick<Clock, 'monotonic' | 'after'>): () => Promise<void> | undefined {
  let since = monotonic()
  let read = 0
  return () => {
    if (++read % READS_PER_CHECK !== 0) return undefined
    const spent = monotonic() - since
    if (spent < MAX_SLICE_MS) return undefined
    return new Promise<void>((done) => {
      after(spent, () => {
        since = monotonic()
        done()
      })
    })
  }
}
